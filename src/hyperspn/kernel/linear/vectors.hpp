// Vectors of samples, and what can be done with all lanes of one. The files of this folder are compiled once per
// instruction set and precision: KERNEL_ISA names the set, VECTOR_BYTES and VECTOR_REGISTERS describe it, and
// KERNEL_REAL is float or double.
#pragma once
#include <math.h>
#include <string.h>

#include <utility>

#include "../arithmetic.hpp"

#ifndef KERNEL_ISA
#define KERNEL_ISA baseline
#define KERNEL_REAL float
#define VECTOR_BYTES 16
#define VECTOR_REGISTERS 16
#endif

#define INLINE __attribute__((always_inline))

namespace hyperspn {
namespace {

using Real = KERNEL_REAL;
using Form = Format<Real>;
using Integer = Form::Integer;
constexpr int lanes = VECTOR_BYTES / sizeof(Real);
typedef Real V __attribute__((vector_size(VECTOR_BYTES)));
typedef Integer I __attribute__((vector_size(VECTOR_BYTES), may_alias));  // places hold values or indices

constexpr bool many_registers = VECTOR_REGISTERS >= 32;
constexpr int vector_multiple = many_registers ? 4 : 2;
constexpr bool has_lookups = VECTOR_BYTES >= 32;  // permuting a vector is one instruction

// Splits `total` into the fewest parts of at most `most`, as even as possible.
struct Parts {
  int count, total;
  Parts(int total, int most) : count((total + most - 1) / most), total(total) {}
  int begin(int i) const { return int(int64_t(total) * i / count); }
};

// Calls f(integral_constant n) for a run-time n in 1..most.
template <int most, class F>
void with_constant(int n, F&& f) {
  if constexpr (most > 1)
    if (n < most) return with_constant<most - 1>(n, f);
  f(std::integral_constant<int, most>());
}

// f(0), f(1), ..., f(n - 1), unrolled before anything else, so that arrays indexed by the argument stay in registers.
template <class F, int... i>
INLINE inline void repeat_each(const F& f, std::integer_sequence<int, i...>) {
  (f(std::integral_constant<int, i>()), ...);
}
template <int n, class F>
INLINE inline void repeat(const F& f) {
  repeat_each(f, std::make_integer_sequence<int, n>());
}

inline V broadcast(Real x) { return V{} + x; }
inline V largest(V a, V b) { return a > b ? a : b; }
inline V smallest(V a, V b) { return a < b ? a : b; }
inline I largest_int(I a, I b) { return a > b ? a : b; }
inline V load(const Real* p) {
  V v;
  memcpy(&v, p, sizeof v);
  return v;
}
inline void store(Real* p, V v) { memcpy(p, &v, sizeof v); }

template <size_t... l>
I lane_numbers(std::index_sequence<l...>) {
  return I{Integer(l)...};
}
inline I lane() { return lane_numbers(std::make_index_sequence<lanes>()); }

inline Real power_of_two(int e) {
  Integer bits = Integer(Form::bias + e) << Form::mantissa;
  Real x;
  memcpy(&x, &bits, sizeof x);
  return x;
}
inline V power_of_two(I e) { return (V)((e + Form::bias) << Form::mantissa); }
inline I exponent_of(V x) { return ((I)x >> Form::mantissa) - Form::bias; }

inline V permute(V table, I index) {
#ifdef __clang__
  V out;
  for (int l = 0; l < lanes; ++l) out[l] = table[index[l] & (lanes - 1)];
  return out;
#else
  return __builtin_shuffle(table, index);
#endif
}

template <int by, size_t... lane>
V rotate(V x, std::index_sequence<lane...>) {
  return __builtin_shufflevector(x, x, int((lane + by) % lanes)...);
}

// All lanes combined by f.
template <int width = lanes, class F>
Real reduce(V x, const F& f) {
  if constexpr (width == 1)
    return x[0];
  else
    return reduce<width / 2>(f(x, rotate<width / 2>(x, std::make_index_sequence<lanes>())), f);
}

// a and b hold results in segments of `width` lanes; the result holds a's, then b's, in segments of width / 2.
template <int width, class F, size_t... lane>
V fold(V a, V b, const F& f, std::index_sequence<lane...>) {
  constexpr int half = width / 2;
  return f(__builtin_shufflevector(a, b, int(lane / half * width + lane % half)...),
           __builtin_shufflevector(a, b, int(lane / half * width + lane % half + half)...));
}

// Lane i of the result is the lanes of a[i] combined by f; count <= lanes; the lanes from count on are made of zeros.
template <int width, int count, class F>
INLINE inline V combine_lanes(V* a, const F& f) {
  if constexpr (width == 1) {
    return a[0];
  } else {
    constexpr int pairs = (count + 1) / 2;
    for (int i = 0; i < pairs; ++i)
      a[i] = fold<width>(a[2 * i], 2 * i + 1 < count ? a[2 * i + 1] : V{}, f, std::make_index_sequence<lanes>());
    return combine_lanes<width / 2, pairs>(a, f);
  }
}

// Swaps the halves, then the quarters, ... of the blocks beside the diagonal: rows become columns.
template <int half, size_t... lane>
INLINE inline void swap_blocks(V& a, V& b, std::index_sequence<lane...>) {
  const V first = __builtin_shufflevector(a, b, int(lane & half ? lanes + lane - half : lane)...);
  b = __builtin_shufflevector(a, b, int(lane & half ? lanes + lane : lane + half)...);
  a = first;
}
template <int half = lanes / 2>
INLINE inline void transpose(V* tile) {
  if constexpr (half > 0) {
    repeat<lanes>([&](auto i) INLINE {
      if constexpr ((i & half) == 0) swap_blocks<half>(tile[i], tile[i + half], std::make_index_sequence<lanes>());
    });
    transpose<half / 2>(tile);
  }
}

template <int begin, int total>
void store_lane_sums(V* a, Real* sums) {
  if constexpr (begin < total) {
    constexpr int count = total - begin < lanes ? total - begin : lanes;
    store(sums + begin, combine_lanes<lanes, count>(a + begin, [](V x, V y) { return x + y; }));
    store_lane_sums<begin + lanes, total>(a, sums);
  }
}

// out[i * stride + j] += sum of the lanes of a[i * columns + j]
template <int rows, int columns>
void add_lane_sums(V* a, Real* out, int64_t stride) {
  constexpr int total = rows * columns, groups = (total + lanes - 1) / lanes;
  alignas(VECTOR_BYTES) Real sums[groups * lanes];
  store_lane_sums<0, total>(a, sums);
  if (rows == 1 || stride == columns)
    for (int i = 0; i < total; ++i) out[i] += sums[i];
  else
    for (int i = 0; i < rows; ++i)
      for (int j = 0; j < columns; ++j) out[i * stride + j] += sums[i * columns + j];
}

}  // namespace
}  // namespace hyperspn
