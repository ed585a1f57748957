// The arithmetic on one block of samples. This file is compiled once per instruction set: KERNEL_ISA names the
// namespace, VECTOR_BYTES and VECTOR_REGISTERS describe the machine. Samples are innermost; weights are broadcast scalars.
#include "kernel.hpp"

#include <math.h>
#include <string.h>

#include <utility>

#ifndef KERNEL_ISA
#define KERNEL_ISA baseline
#define VECTOR_BYTES 16
#define VECTOR_REGISTERS 16
#endif

#define INLINE __attribute__((always_inline))

namespace hyperspn {
namespace KERNEL_ISA {
namespace {

constexpr bool many_registers = VECTOR_REGISTERS >= 32;
constexpr int vector_multiple = many_registers ? 4 : 2;
constexpr int max_rows = 8;                         // tile of a sum: max_rows x wide(rows) vectors
constexpr int max_outer = many_registers ? 5 : 3;   // tile of a weight gradient
constexpr int max_categories = many_registers ? 4 : 2;  // tile of a look-up's gradient: max_rows x max_categories
constexpr bool has_lookups = VECTOR_BYTES >= 32;  // permuting a vector is one instruction
constexpr int wide(int rows) { return rows <= 6 ? vector_multiple : vector_multiple / 2; }

// Splits `total` into the fewest parts of at most `most`, as even as possible.
struct Parts {
  int count, total;
  Parts(int total, int most) : count((total + most - 1) / most), total(total) {}
  int begin(int i) const { return int(int64_t(total) * i / count); }
};

// Calls f(integral_constant n) for a run-time n in 1..most.
template <int most, class F> void with_constant(int n, F&& f) {
  if constexpr (most > 1)
    if (n < most) return with_constant<most - 1>(n, f);
  f(std::integral_constant<int, most>());
}

// f(0), f(1), ..., f(n - 1), unrolled before anything else, so that arrays indexed by the argument stay in registers.
template <class F, int... i> INLINE inline void repeat_each(const F& f, std::integer_sequence<int, i...>) { (f(std::integral_constant<int, i>()), ...); }
template <int n, class F> INLINE inline void repeat(const F& f) { repeat_each(f, std::make_integer_sequence<int, n>()); }

template <class Real> struct Kernel {
  using Form = Format<Real>;
  using Integer = typename Form::Integer;
  static constexpr int lanes = VECTOR_BYTES / sizeof(Real);
  typedef Real V __attribute__((vector_size(VECTOR_BYTES)));
  typedef Integer I __attribute__((vector_size(VECTOR_BYTES), may_alias));  // places hold values or indices

  static V broadcast(Real x) { return V{} + x; }
  static V largest(V a, V b) { return a > b ? a : b; }
  static V smallest(V a, V b) { return a < b ? a : b; }
  static I largest_int(I a, I b) { return a > b ? a : b; }
  static V load(const Real* p) { V v; memcpy(&v, p, sizeof v); return v; }
  static void store(Real* p, V v) { memcpy(p, &v, sizeof v); }
  static Real power_of_two(int e) {
    Integer bits = Integer(Form::bias + e) << Form::mantissa;
    Real x; memcpy(&x, &bits, sizeof x); return x;
  }
  static I lane() { return lane_numbers(std::make_index_sequence<lanes>()); }
  template <size_t... l> static I lane_numbers(std::index_sequence<l...>) { return I{Integer(l)...}; }
  static I exponent_of(V x) { return ((I)x >> Form::mantissa) - Form::bias; }
  static V power_of_two(I e) { return (V)((e + Form::bias) << Form::mantissa); }

  static V permute(V table, I index) {
#ifdef __clang__
    V out;
    for (int l = 0; l < lanes; ++l) out[l] = table[index[l] & (lanes - 1)];
    return out;
#else
    return __builtin_shuffle(table, index);
#endif
  }

  // ---- horizontal sums of many vectors at once ----

  // All lanes combined by f.
  template <int width = lanes, class F> static Real reduce(V x, const F& f) {
    if constexpr (width == 1) return x[0];
    else return reduce<width / 2>(f(x, rotate<width / 2>(x, std::make_index_sequence<lanes>())), f);
  }
  template <int by, size_t... lane> static V rotate(V x, std::index_sequence<lane...>) { return __builtin_shufflevector(x, x, int((lane + by) % lanes)...); }

  // a and b hold sums in segments of `width` lanes; the result holds a's, then b's, in segments of width / 2.
  template <int width, size_t... lane> static V fold(V a, V b, std::index_sequence<lane...>) {
    constexpr int half = width / 2;
    return __builtin_shufflevector(a, b, int(lane / half * width + lane % half)...) +
           __builtin_shufflevector(a, b, int(lane / half * width + lane % half + half)...);
  }

  // sums[i] = sum of the lanes of a[i]; count <= lanes; the lanes from count on are 0.
  template <int width, int count> static V lane_sums(V* a) {
    if constexpr (width == 1) {
      return a[0];
    } else {
      constexpr int pairs = (count + 1) / 2;
      for (int i = 0; i < pairs; ++i)
        a[i] = fold<width>(a[2 * i], 2 * i + 1 < count ? a[2 * i + 1] : V{}, std::make_index_sequence<lanes>());
      return lane_sums<width / 2, pairs>(a);
    }
  }

  // out[i * stride + j] += lane sum of a[i * columns + j]
  template <int rows, int columns> static void add_sums(V* a, Real* out, int64_t stride) {
    constexpr int total = rows * columns, groups = (total + lanes - 1) / lanes;
    alignas(VECTOR_BYTES) Real sums[groups * lanes];
    add_group_sums<0, total>(a, sums);
    if (rows == 1 || stride == columns)
      for (int i = 0; i < total; ++i) out[i] += sums[i];
    else
      for (int i = 0; i < rows; ++i)
        for (int j = 0; j < columns; ++j) out[i * stride + j] += sums[i * columns + j];
  }
  template <int begin, int total> static void add_group_sums(V* a, Real* sums) {
    if constexpr (begin < total) {
      constexpr int count = total - begin < lanes ? total - begin : lanes;
      store(sums + begin, lane_sums<lanes, count>(a + begin));
      add_group_sums<begin + lanes, total>(a, sums);
    }
  }

  // ---- tiles ----

  // What a sum runs over: values in memory, look-ups, or a product of two of these. at(j, v): row j, vector v.
  struct Values {
    const V* x;
    int vectors;
    V at(int j, int v) const { return x[int64_t(j) * vectors + v]; }
  };
  struct Lookup {
    const V* tables;  // one per row
    const I* index;
    V at(int j, int v) const { return permute(tables[j], index[v]); }
  };
  template <class A, class B> struct Product {
    A a;
    B b;
    V at(int j, int v) const { return a.at(j, v) * b.at(j, v); }
  };

  // total[i] = sum_j weight[i * row_stride + j * column_stride] in[j]; then(v, total) for every wide(rows) vectors from v on
  template <int rows, class In, class Then> static void sum_tile(const Real* weight, int64_t row_stride, int64_t column_stride, const In& in, int columns, int vectors, const Then& then) {
    constexpr int width = wide(rows);
    for (int v = 0; v < vectors; v += width) {
      V total[rows][width], x[width];
      repeat<width>([&](auto q) INLINE { x[q] = in.at(0, v + q); });
      repeat<rows>([&](auto i) INLINE {
        Real w = weight[i * row_stride];
        repeat<width>([&](auto q) INLINE { total[i][q] = w * x[q]; });
      });
      for (int j = 1; j < columns; ++j) {
        repeat<width>([&](auto q) INLINE { x[q] = in.at(j, v + q); });
        repeat<rows>([&](auto i) INLINE {
          Real w = weight[i * row_stride + j * column_stride];
          repeat<width>([&](auto q) INLINE { total[i][q] += w * x[q]; });
        });
      }
      then(v, total);
    }
  }

  static void sum(const Real* weight, int64_t row_stride, int64_t column_stride, const V* in, int rows, int columns, V* out, int vectors) {
    Parts tiles(rows, max_rows);
    for (int t = 0; t < tiles.count; ++t) {
      int begin = tiles.begin(t);
      with_constant<max_rows>(tiles.begin(t + 1) - begin, [&](auto n) {
        sum_tile<n>(weight + begin * row_stride, row_stride, column_stride, Values{in, vectors}, columns, vectors, [&](int v, auto& total) INLINE {
          repeat<n>([&](auto i) INLINE { repeat<wide(n)>([&](auto q) INLINE { out[int64_t(begin + i) * vectors + v + q] = total[i][q]; }); });
        });
      });
    }
  }

  // out[i * stride + j] += sum over samples of left[i] right[j]
  template <int rows, int columns> static void outer_tile(const V* left, const V* right, int vectors, Real* out, int64_t stride) {
    V total[rows * columns] = {}, x[rows];
    for (int v = 0; v < vectors; ++v) {
      repeat<rows>([&](auto i) INLINE { x[i] = left[int64_t(i) * vectors + v]; });
      repeat<columns>([&](auto j) INLINE {
        V y = right[int64_t(j) * vectors + v];
        repeat<rows>([&](auto i) INLINE { total[i * columns + j] += x[i] * y; });
      });
    }
    add_sums<rows, columns>(total, out, stride);
  }

  static void outer(const V* left, const V* right, int rows, int columns, int vectors, Real* out) {
    Parts row_tiles(rows, max_outer), column_tiles(columns, max_outer);
    for (int s = 0; s < row_tiles.count; ++s)
      for (int t = 0; t < column_tiles.count; ++t) {
        int i = row_tiles.begin(s), j = column_tiles.begin(t);
        with_constant<max_outer>(row_tiles.begin(s + 1) - i, [&](auto m) {
          with_constant<max_outer>(column_tiles.begin(t + 1) - j, [&](auto n) {
            outer_tile<m, n>(left + int64_t(i) * vectors, right + int64_t(j) * vectors, vectors, out + int64_t(i) * columns + j, columns);
          });
        });
      }
  }

  // out[i * stride + c] += sum of gradient[i] over the samples whose index is first + c
  template <int rows, int categories> static void category_tile(const V* gradient, const I* index, Integer first, int vectors, Real* out, int64_t stride) {
    V total[rows * categories] = {};
    for (int v = 0; v < vectors; ++v)
      repeat<categories>([&](auto c) INLINE {
        I match = index[v] == first + c;
        repeat<rows>([&](auto i) INLINE { total[i * categories + c] += match ? gradient[int64_t(i) * vectors + v] : V{}; });
      });
    add_sums<rows, categories>(total, out, stride);
  }

  // The same for all categories.
  static void category_sums(const V* gradient, const I* index, int rows, int categories, int vectors, Real* out, int64_t stride) {
    Parts row_tiles(rows, max_rows), category_tiles(categories, max_categories);
    for (int s = 0; s < row_tiles.count; ++s)
      for (int t = 0; t < category_tiles.count; ++t) {
        int i = row_tiles.begin(s), c = category_tiles.begin(t);
        with_constant<max_rows>(row_tiles.begin(s + 1) - i, [&](auto m) {
          with_constant<max_categories>(category_tiles.begin(t + 1) - c, [&](auto n) {
            category_tile<m, n>(gradient + int64_t(i) * vectors, index, c, vectors, out + i * stride + c, stride);
          });
        });
      }
  }

  // ---- one block ----

  const Block<Real>& b;
  const int K, vectors;
  const int64_t place_size;
  const Real vanished;
  V *leaf, *product, *product_gradient, *likelihood, *likelihood_gradient, *lost, *ones, *prefix;
  V *tables, *other_tables;
  I *index, *other_index;

  explicit Kernel(const Block<Real>& block) : b(block), K(block.rows), vectors(block.vectors), place_size(place_rows(K) * vectors),
        vanished(power_of_two(Form::unit + 3 - Form::bias) * (block.rows > block.max_columns ? block.rows : block.max_columns)) {
    V* next = (V*)b.scratch;
    auto take = [&](int64_t rows) { V* p = next; next += rows * vectors; return p; };
    leaf = take(K), product = take(K), product_gradient = take(K);
    likelihood = take(b.max_columns), likelihood_gradient = take(b.max_columns);
    lost = take(1), index = (I*)take(1), other_index = (I*)take(1), ones = take(1);
    tables = next, other_tables = next + K, next += 2 * K;
    prefix = take(1);
    for (int v = 0; v < vectors; ++v) ones[v] = broadcast(1);
  }

  const Node& child(const Node& node, int i) const { return b.nodes[b.children[node.first_child + i]]; }
  bool is_root(const Node& node) const { return &node == b.nodes + b.node_count - 1; }
  V* place(const Node& node) const { return (V*)b.places + (b.tape ? node.place : node.slot) * place_size; }
  // The power of two that the node's values were multiplied with; configurations apply theirs later.
  const V* scale(const Node& node) const { return node.type == INNER && !has_configurations(node) ? place(node) + int64_t(K) * vectors : ones; }
  V* losses(const Node& node) const { return place(node) + int64_t(K + 1) * vectors; }
  V* prefix_at(int i) const { return prefix + (b.tape ? i : 0) * place_size; }

  // ---- leaves ----

  // out[s] = f(out[s], code) for all samples of the block, and some valid code beyond the last
  template <class Code, class F> void read_codes_as(const Node& node, Integer* out, const F& f) const {
    const Code* row = (const Code*)b.codes + node.variable * b.samples + b.first;
    for (int64_t s = 0; s < b.valid; ++s) out[s] = f(out[s], Integer(row[s]));
    for (int64_t s = b.valid; s < int64_t(vectors) * lanes; ++s) out[s] = f(out[s], Integer(b.missing[node.variable] ? -1 : 0));
  }
  template <class F> void read_codes(const Node& node, I* out, const F& f) const {
    if (b.code_bytes == 1) read_codes_as<int8_t>(node, (Integer*)out, f);
    else if (b.code_bytes == 2) read_codes_as<int16_t>(node, (Integer*)out, f);
    else read_codes_as<int32_t>(node, (Integer*)out, f);
  }
  void read_codes(const Node& node, I* out) const {
    read_codes(node, out, [](Integer, Integer code) { return code; });
  }

  // A leaf whose look-ups are permutations of a vector: 2^unit W[o, 0..columns), and 2^unit in the last lane for code -1.
  static bool is_small(const Node& node) { return has_lookups && node.type == CATEGORICAL && node.columns < lanes; }
  void make_tables(const Node& node, V* table) const {
    const V unit = broadcast(power_of_two(Form::unit));
    for (int o = 0; o < node.rows; ++o) table[o] = lane() < node.columns ? load(b.weights + node.weight + o * node.columns) * unit : unit;
  }

  void gather(const Node& node, V* out) {
    read_codes(node, index);
    const Integer* code = (const Integer*)index;
    const Real unit = power_of_two(Form::unit);
    const Real* weight = b.weights + node.weight;
    for (int o = 0; o < node.rows; ++o, weight += node.columns) {
      Real* row = (Real*)(out + int64_t(o) * vectors);
      for (int64_t s = 0; s < int64_t(vectors) * lanes; ++s) row[s] = code[s] < 0 ? unit : weight[code[s]] * unit;
    }
  }

  void read_dense(const Node& node) {
    const Real unit = power_of_two(Form::unit);
    const Real* in = b.dense + b.dense_ptr[node.variable] * b.samples + b.first;
    for (int j = 0; j < node.columns; ++j, in += b.samples) {
      Real* out = (Real*)(likelihood + int64_t(j) * vectors);
      for (int64_t s = 0; s < b.valid; ++s) out[s] = in[s] * unit;
      for (int64_t s = b.valid; s < int64_t(vectors) * lanes; ++s) out[s] = unit;
    }
  }

  // The node's values: its place, or computed into `buffer` for a leaf and for configurations.
  V* value(const Node& node, V* buffer) {
    if (is_lookup(node)) {
      Lookup in = lookup(node, tables, index);
      for (int o = 0; o < node.rows; ++o)
        for (int v = 0; v < vectors; ++v) buffer[int64_t(o) * vectors + v] = in.at(o, v);
      return buffer;
    }
    if (node.type == INNER) return place(node);
    if (node.type == CATEGORICAL) {
      gather(node, buffer);
    } else {
      read_dense(node);
      sum(b.weights + node.weight, node.columns, 1, likelihood, node.rows, node.columns, buffer, vectors);
    }
    return buffer;
  }

  // Where a node's gradient goes: `buffer` for a leaf.
  V* gradient_place(const Node& node, V* buffer) const { return node.type == INNER ? (V*)b.gradients + node.gradient_slot * int64_t(K) * vectors : buffer; }

  void leaf_backward(const Node& node, const V* gradient) {
    Real* out = b.weight_gradient + node.weight;
    if (node.type == DENSE) return dense_backward(node, gradient, out);
    read_codes(node, index);
    if (node.columns <= 8) return category_sums(gradient, index, node.rows, node.columns, vectors, out, node.columns);
    const Integer* code = (const Integer*)index;
    for (int o = 0; o < node.rows; ++o) {
      const Real* g = (const Real*)(gradient + int64_t(o) * vectors);
      for (int64_t s = 0; s < b.valid; ++s)
        if (code[s] >= 0) out[int64_t(o) * node.columns + code[s]] += g[s];
    }
  }

  void dense_backward(const Node& node, const V* gradient, Real* out) {
    read_dense(node);
    outer(gradient, likelihood, node.rows, node.columns, vectors, out);
    sum(b.weights + node.weight, 1, node.columns, gradient, node.columns, node.rows, likelihood_gradient, vectors);
    const Real factor = power_of_two(-Form::seed);
    Real* total = b.dense_gradient + b.dense_ptr[node.variable] * b.samples + b.first;
    for (int j = 0; j < node.columns; ++j, total += b.samples) {
      const Real* e = (const Real*)(likelihood + int64_t(j) * vectors);
      const Real* g = (const Real*)(likelihood_gradient + int64_t(j) * vectors);
      for (int64_t s = 0; s < b.valid; ++s) total[s] += e[s] * g[s] * factor;
    }
  }

  // ---- scaling ----

  // The exponent of the largest value of a sample, not so small that the factor 2^(unit - exponent) overflows.
  static I safe_exponent(V top) { return largest_int(exponent_of(top), I{} + (Form::unit - Form::bias + 1)); }

  // Accounts for dividing samples by 2^(exponent(top) - unit), after a product of `factors` children. Returns the factor.
  V account(V top, V low, int v, int factors) const {
    I e = safe_exponent(top);
    V f = power_of_two(Form::unit - e);
    ((I*)b.exponent)[v] += e - Form::unit;
    if (b.risky) lost[v] = loss(lost[v], low, factors) * f;
    return f;
  }

  // The loss of a sample at a node, before scaling: a bound for those errors of its values that are not small beside the value itself.
  // Where weights or values vanish below the normal range, a sum changes by at most `vanished` times the largest value of the other child
  // (`growth`), which does not count if all sums are much larger. The losses of the children grow in the same way.
  V loss(V of_children, V low, int factors) const {
    const Real growth = factors > 1 ? power_of_two(Form::unit + 1) : Real(1), precision = power_of_two(Form::mantissa + 1);
    return (of_children + (low < vanished * growth * precision ? broadcast(vanished) : V{})) * growth;
  }
  void add_losses(const Node& node) const {
    if (!b.risky || node.type != INNER) return;
    const bool by_configuration = has_configurations(node);
    for (int v = 0; v < vectors; ++v) lost[v] += by_configuration ? permute(configuration_tables(node)[K + 1], configuration_index(node)[v]) : losses(node)[v];
  }
  void clear_losses() const {
    if (b.risky) memset((void*)lost, 0, sizeof(V) * vectors);
  }

  // Brings the largest value of every sample into [2^unit, 2^(unit+1)); factor_of(largest, smallest, v) gives the power of two.
  template <class F> void rescale(V* x, int rows, V* factor, const F& factor_of) const {
    constexpr int width = vector_multiple;
    for (int v = 0; v < vectors; v += width) {
      V top[width], low[width], f[width];
      repeat<width>([&](auto q) INLINE { top[q] = low[q] = x[v + q]; });
      for (int i = 1; i < rows; ++i)
        repeat<width>([&](auto q) INLINE {
          V y = x[int64_t(i) * vectors + v + q];
          top[q] = largest(top[q], y), low[q] = smallest(low[q], y);
        });
      repeat<width>([&](auto q) INLINE { factor[v + q] = f[q] = factor_of(top[q], low[q], v + q); });
      for (int i = 0; i < rows; ++i) repeat<width>([&](auto q) INLINE { x[int64_t(i) * vectors + v + q] *= f[q]; });
    }
  }
  void rescale_and_account(V* x, int rows, int factors, V* factor) const {
    rescale(x, rows, factor, [&](V top, V low, int v) INLINE { return account(top, low, v, factors); });
  }
  void rescale_again(V* x, V* factor) const {
    rescale(x, K, factor, [&](V top, V, int) INLINE { return power_of_two(Form::unit - safe_exponent(top)); });
  }

  // ---- inner nodes above leaves that have few joint configurations: computed once per configuration ----
  // Their place holds, like a leaf's look-up, the index of every sample, K tables, and the tables of scales and losses.

  int states(const Node& leaf_node) const { return leaf_node.columns + b.missing[leaf_node.variable]; }
  bool has_configurations(const Node& node) const {
    if (node.type != INNER || node.children > 2 || is_root(node)) return false;
    int count = 1;
    for (int i = 0; i < node.children; ++i) {
      if (!is_small(child(node, i))) return false;
      count *= states(child(node, i));
    }
    return count <= lanes;
  }
  I* configuration_index(const Node& node) const { return (I*)place(node); }
  V* configuration_tables(const Node& node) const { return place(node) + vectors; }

  bool is_lookup(const Node& node) const { return is_small(node) || has_configurations(node); }
  // Tables and index of a small leaf are made in the given buffers; those of configurations are moved there if their place will be overwritten.
  Lookup lookup(const Node& node, V* table, I* codes, const V* overwritten = nullptr) const {
    if (node.type == INNER) {
      if (place(node) != overwritten) return {configuration_tables(node), configuration_index(node)};
      memcpy((void*)codes, (const void*)configuration_index(node), sizeof(V) * vectors);
      memcpy((void*)table, (const void*)configuration_tables(node), sizeof(V) * K);
    } else {
      read_codes(node, codes);
      make_tables(node, table);
    }
    return {table, codes};
  }

  // Lane c of every vector belongs to configuration c = state of the first child * states of the second + state of the second.
  struct Configurations {
    int count;
    I first, second;  // codes of the children
  };
  // Also makes tables, other_tables, product: the children's values and their product, K vectors each.
  Configurations configure(const Node& node) {
    const bool pair = node.children == 2;
    const Node &one = child(node, 0), &two = child(node, pair);
    const int first_states = states(one), second_states = pair ? states(two) : 1;
    I first{};
    for (int k = 1; k < first_states; ++k) first -= lane() >= k * second_states;
    const I second = lane() - first * second_states;
    const Configurations all{first_states * second_states, first == one.columns ? I{} - 1 : first, second == two.columns ? I{} - 1 : second};
    make_tables(one, tables);
    if (pair) make_tables(two, other_tables);
    for (int j = 0; j < K; ++j) {
      product[j] = tables[j] = permute(tables[j], all.first);
      if (pair) product[j] *= other_tables[j] = permute(other_tables[j], all.second);
    }
    return all;
  }

  void read_configurations(const Node& node, I* out) const {
    const Integer columns = child(node, 0).columns;
    read_codes(child(node, 0), out, [=](Integer, Integer code) { return code < 0 ? columns : code; });
    if (node.children == 1) return;
    const Integer count = states(child(node, 1)), second_columns = child(node, 1).columns;
    read_codes(child(node, 1), out, [=](Integer before, Integer code) { return before * count + (code < 0 ? second_columns : code); });
  }

  void forward_configurations(const Node& node) {
    configure(node);
    const Real* weight = b.weights + node.weight;
    V top{}, low = broadcast(INFINITY), *out = configuration_tables(node);
    for (int o = 0; o < K; ++o, weight += K) {
      V total{};
      for (int j = 0; j < K; ++j) total += weight[j] * product[j];
      leaf[o] = total;
      top = largest(top, total), low = smallest(low, total);
    }
    const I e = safe_exponent(top), shift = e - Form::unit;
    const V factor = out[K] = power_of_two(Form::unit - e);
    for (int o = 0; o < K; ++o) out[o] = leaf[o] * factor;
    out[K + 1] = loss(V{}, low, node.children) * factor;
    I *index = configuration_index(node), *exponent = (I*)b.exponent;
    read_configurations(node, index);
    for (int v = 0; v < vectors; ++v) exponent[v] += (I)permute((V)shift, index[v]);
  }

  void backward_configurations(const Node& node, const V* gradient) {
    const Configurations all = configure(node);
    const V factor = configuration_tables(node)[K];
    V *total = product_gradient, *child_gradient = leaf;
    memset((void*)total, 0, sizeof(V) * K);
    category_sums(gradient, configuration_index(node), K, all.count, vectors, (Real*)total, lanes);
    for (int o = 0; o < K; ++o) total[o] *= factor;
    outer(total, product, K, K, 1, b.weight_gradient + node.weight);
    const Real* weight = b.weights + node.weight;
    for (int j = 0; j < K; ++j) {
      V g = weight[j] * total[0];
      for (int o = 1; o < K; ++o) g += weight[o * K + j] * total[o];
      child_gradient[j] = g * (node.children == 2 ? other_tables[j] : ones[0]);
      tables[j] *= g;
    }
    const Node& one = child(node, 0);
    category_sums(child_gradient, &all.first, K, one.columns, 1, b.weight_gradient + one.weight, one.columns);
    if (node.children == 1) return;
    const Node& two = child(node, 1);
    category_sums(tables, &all.second, K, two.columns, 1, b.weight_gradient + two.weight, two.columns);
  }

  // ---- inner nodes, forward ----

  static void multiply(const V* a, const V* b, int64_t count, V* out) {
    for (int64_t t = 0; t < count; t += vector_multiple)
      for (int q = 0; q < vector_multiple; ++q) out[t + q] = a[t + q] * b[t + q];
  }

  // The product over the children. Prefixes p_0, p_1, ... are rescaled by scale_down(p, factor, i); with a tape they stay.
  template <class F> V* multiply_children(const Node& node, const F& scale_down) {
    V* running = value(child(node, 0), prefix_at(0));
    for (int i = 1; i < node.children; ++i) {
      const V* x = value(child(node, i), leaf);
      bool last = i + 1 == node.children;
      V* out = last ? product : prefix_at(i);
      multiply(running, x, int64_t(K) * vectors, out);
      running = out;
      if (!last) scale_down(out, out + int64_t(K) * vectors, i);
    }
    return running;
  }
  V* multiply_children(const Node& node) {
    add_losses(child(node, 0));
    V* result = multiply_children(node, [&](V* prefix, V* factor, int i) {
      add_losses(child(node, i));
      rescale_and_account(prefix, K, 2, factor);
    });
    if (node.children > 1) add_losses(child(node, node.children - 1));
    return result;
  }
  V* multiply_children_again(const Node& node) {
    return multiply_children(node, [&](V* prefix, V* factor, int) { rescale_again(prefix, factor); });
  }

  // Calls f(a, b, node of a, node of b) with the values of two children; look-ups come second.
  template <class F> void with_pair(const Node& node, const F& f) {
    const Node *first = &child(node, 0), *second = &child(node, 1);
    if constexpr (has_lookups) {
      if (is_lookup(*first)) std::swap(first, second);
      if (is_lookup(*first)) {
        Lookup x = lookup(*first, other_tables, other_index, place(node));
        return f(x, lookup(*second, tables, index, place(node)), *first, *second);
      }
      if (is_lookup(*second)) {
        Values x{value(*first, prefix), vectors};
        return f(x, lookup(*second, tables, index, place(node)), *first, *second);
      }
    }
    Values x{value(*first, prefix), vectors};
    f(x, Values{value(*second, leaf), vectors}, *first, *second);
  }

  V* multiply_pair(const Node& node) {
    with_pair(node, [&](auto x, auto y, auto&, auto&) {
      for (int j = 0; j < K; ++j)
        for (int v = 0; v < vectors; v += vector_multiple) repeat<vector_multiple>([&](auto q) INLINE { product[int64_t(j) * vectors + v + q] = x.at(j, v + q) * y.at(j, v + q); });
    });
    return product;
  }

  // out = W in, rescaled, for at most max_rows rows
  template <class In> void sum_and_rescale(const Node& node, const In& in) {
    V* out = place(node);
    V* factor = out + int64_t(K) * vectors;
    with_constant<max_rows>(node.rows, [&](auto n) {
      sum_tile<n>(b.weights + node.weight, K, 1, in, K, vectors, [&](int v, auto& total) INLINE {
        repeat<wide(n)>([&](auto q) INLINE {
          V top = total[0][q], low = top;
          repeat<n>([&](auto i) INLINE { top = largest(top, total[i][q]), low = smallest(low, total[i][q]); });
          V f = factor[v + q] = account(top, low, v + q, node.children);
          repeat<n>([&](auto i) INLINE { out[int64_t(i) * vectors + v + q] = total[i][q] * f; });
        });
      });
    });
  }

  void forward_node(const Node& node) {
    if (has_configurations(node)) return forward_configurations(node);
    clear_losses();
    if (node.type == INNER) forward_inner(node);
    else forward_leaf(node);
    if (b.risky) memcpy((void*)losses(node), (const void*)lost, sizeof(V) * vectors);
  }

  // A leaf that is the root.
  void forward_leaf(const Node& node) {
    V* out = place(node);
    memcpy((void*)out, (void*)value(node, leaf), sizeof(V) * vectors);
    rescale_and_account(out, 1, 1, out + int64_t(K) * vectors);
  }

  void forward_inner(const Node& node) {
    V* out = place(node);
    if (node.children == 2) add_losses(child(node, 0)), add_losses(child(node, 1));
    if (node.children == 2 && K <= max_rows) return with_pair(node, [&](auto x, auto y, auto&, auto&) { sum_and_rescale(node, Product<decltype(x), decltype(y)>{x, y}); });
    const V* p = node.children == 2 ? multiply_pair(node) : multiply_children(node);
    if (node.rows <= max_rows) {
      sum_and_rescale(node, Values{p, vectors});
    } else {
      if (p == out) p = (V*)memcpy((void*)product, (const void*)p, sizeof(V) * K * vectors);
      sum(b.weights + node.weight, K, 1, p, node.rows, K, out, vectors);
      rescale_and_account(out, node.rows, node.children, out + int64_t(K) * vectors);
    }
  }

  // ---- inner nodes, backward ----

  // Gradients are kept times the node's scale.
  void backward_node(const Node& node) {
    const V* gradient = is_root(node) ? (const V*)b.gradients : gradient_place(node, nullptr);
    if (node.type != INNER) return leaf_backward(node, gradient);
    if (has_configurations(node)) return backward_configurations(node, gradient);
    if (node.children == 2) return pair_backward(node, gradient);
    const V* p = multiply_children_again(node);
    sum(b.weights + node.weight, 1, K, gradient, K, node.rows, product_gradient, vectors);
    outer(gradient, p, node.rows, K, vectors, b.weight_gradient + node.weight);
    for (int i = node.children - 1; i > 0; --i) step_back(node, i);
    first_child_backward(node);
  }

  static V scaled(const Values&, V gradient, const V& scale) { return gradient * scale; }
  static V scaled(const Lookup&, V gradient, const V&) { return gradient; }

  void pair_backward(const Node& node, const V* gradient) {
    with_pair(node, [&](auto x, auto y, const Node& first, const Node& second) {
      V *x_gradient = gradient_place(first, prefix), *y_gradient = gradient_place(second, leaf);
      const V *x_scale = scale(first), *y_scale = scale(second);
      Parts tiles(K, max_rows);
      for (int s = 0; s < tiles.count; ++s) {
        int begin = tiles.begin(s);
        with_constant<max_rows>(tiles.begin(s + 1) - begin, [&](auto n) {
          sum_tile<n>(b.weights + node.weight + begin, 1, K, Values{gradient, vectors}, node.rows, vectors, [&](int v, auto& total) INLINE {
            repeat<n>([&](auto i) INLINE {
              repeat<wide(n)>([&](auto q) INLINE {
                int64_t t = int64_t(begin + i) * vectors + v + q;
                V x_value = x.at(begin + i, v + q), y_value = y.at(begin + i, v + q);
                product[t] = x_value * y_value;
                x_gradient[t] = scaled(x, total[i][q] * y_value, x_scale[v + q]);
                y_gradient[t] = scaled(y, total[i][q] * x_value, y_scale[v + q]);
              });
            });
          });
        });
      }
      outer(gradient, product, node.rows, K, vectors, b.weight_gradient + node.weight);
      if (first.type != INNER) leaf_backward(first, prefix);
      if (second.type != INNER) leaf_backward(second, leaf);
    });
  }

  // Child i > 0: its gradient is G p_{i-1}; then G becomes G child_i, the gradient of p_{i-1}, times that prefix's scale.
  void step_back(const Node& node, int i) {
    const Node &here = child(node, i), &first = child(node, 0);
    const V* x = i + 1 == node.children && here.type != INNER ? leaf : value(here, leaf);
    const V* before = i > 1 || first.type != INNER || has_configurations(first) ? prefix_at(i - 1) : place(first);
    const V *child_scale = scale(here), *prefix_scale = i > 1 ? prefix_at(i - 1) + int64_t(K) * vectors : ones;
    V* out = gradient_place(here, leaf);
    for (int o = 0; o < K; ++o)
      for (int v = 0; v < vectors; v += vector_multiple)
        repeat<vector_multiple>([&](auto q) INLINE {
          int64_t t = int64_t(o) * vectors + v + q;
          V g = product_gradient[t], y = x[t];
          out[t] = g * before[t] * child_scale[v + q];
          product_gradient[t] = g * y * prefix_scale[v + q];
        });
    if (here.type != INNER) leaf_backward(here, out);
  }
  void first_child_backward(const Node& node) {
    const Node& here = child(node, 0);
    if (here.type != INNER) return leaf_backward(here, product_gradient);
    V* out = gradient_place(here, nullptr);
    const V* child_scale = scale(here);
    for (int o = 0; o < K; ++o)
      for (int v = 0; v < vectors; ++v) out[int64_t(o) * vectors + v] = product_gradient[int64_t(o) * vectors + v] * child_scale[v];
  }
};

// ---- the functions of the table ----

template <class Real> void forward(const Block<Real>& b, int64_t first, int64_t last) {
  Kernel<Real> kernel(b);
  for (int64_t u = first; u < last; ++u)
    if (b.nodes[u].type == INNER || u + 1 == b.node_count) kernel.forward_node(b.nodes[u]);
}

template <class Real> void backward(const Block<Real>& b, int64_t first, int64_t last) {
  Kernel<Real> kernel(b);
  for (int64_t u = last - 1; u >= first; --u)
    if (b.nodes[u].type == INNER || u + 1 == b.node_count) kernel.backward_node(b.nodes[u]);
}

inline float logarithm(float x) { return logf(x); }
inline double logarithm(double x) { return log(x); }

// logvalue = log(root / 2^unit) + (exponent + unit - unit * leaves) log 2
template <class Real> void values(const Block<Real>& b, int leaves, Real* logvalue, unsigned char* flagged) {
  using Form = Format<Real>;
  const double log_two = 0.693147180559945309417232;
  const Node& root = b.nodes[b.node_count - 1];
  Kernel<Real> kernel(b);
  const Real* x = (const Real*)kernel.place(root);
  const Real* lost = (const Real*)kernel.losses(root);
  const Real unit = Kernel<Real>::power_of_two(-Form::unit), acceptable = Kernel<Real>::power_of_two(Form::unit - Form::mantissa - 3);
  for (int64_t s = 0; s < b.valid; ++s) {
    double e = double(b.exponent[s]) + Form::unit - double(Form::unit) * leaves;
    logvalue[s] = Real(double(logarithm(x[s] * unit)) + e * log_two);
    flagged[s] = x[s] * unit < 1 || (b.risky && lost[s] > acceptable);
  }
}

// Gradient at the root, times its scale: 2^seed seed / root * scale; 0 for flagged samples.
template <class Real> void seed(const Block<Real>& b, const Real* seeds, const unsigned char* flagged) {
  Kernel<Real> kernel(b);
  const Real* root = (const Real*)kernel.place(b.nodes[b.node_count - 1]);
  const int64_t width = int64_t(b.vectors) * Kernel<Real>::lanes;
  const Real* factor = root + b.rows * width;
  const Real unit = Kernel<Real>::power_of_two(Format<Real>::seed);
  for (int64_t s = 0; s < width; ++s) b.gradients[s] = s < b.valid && !flagged[s] ? seeds[s] * unit / root[s] * factor[s] : Real(0);
}

// exp(x) for x below 80, to full precision; 0 below the normal range, NaN for NaN.
template <class Real> typename Kernel<Real>::V exponential(typename Kernel<Real>::V x) {
  using K = Kernel<Real>;
  using V = typename K::V;
  using I = typename K::I;
  constexpr bool single = sizeof(Real) == 4;
  constexpr int degree = single ? 7 : 13;
  const Real lowest = single ? Real(-87.3) : Real(-708.3);
  const V clamped = x < lowest ? V{} + lowest : x;
  const Real shift = single ? Real(12582912.0) : Real(6755399441055744.0);  // 1.5 * 2^mantissa: rounds to an integer
  const V shifted = clamped * Real(1.44269504088896340736) + shift;
  const V n = shifted - shift;
  const V r = (clamped - n * (single ? Real(0.693359375) : Real(0.693147180369123816490))) - n * (single ? Real(-2.12194440e-4) : Real(1.90821492927058770002e-10));
  Real coefficient[degree + 1] = {1};
  for (int i = 1; i <= degree; ++i) coefficient[i] = coefficient[i - 1] / i;
  V total = V{} + coefficient[degree];
  for (int i = degree - 1; i >= 0; --i) total = total * r + coefficient[i];
  const V power = (V)((((I)shifted - (I)(V{} + shift)) + Format<Real>::bias) << Format<Real>::mantissa);
  return x < lowest ? V{} : total * power;
}

// weights = exp(logits), or exp(logits - largest of the row) if not all are between -bound and bound; returns whether they are.
// `readable` numbers can be read from logits on.
template <class Real> bool exponentials(const Real* logits, int64_t readable, int64_t stride, int rows, int columns, Real bound, Real* weights) {
  using K = Kernel<Real>;
  using V = typename K::V;
  const int64_t total = int64_t(rows) * columns, padded = (total + K::lanes - 1) / K::lanes * K::lanes;
  const Real* in = logits;
  if ((rows > 1 && stride != columns) || readable < padded) {
    for (int i = 0; i < rows; ++i) memcpy(weights + int64_t(i) * columns, logits + i * stride, sizeof(Real) * columns);
    for (int64_t t = total; t < padded; ++t) weights[t] = 0;
    in = weights;
  }
  V top{};
  for (int64_t t = 0; t < total; t += K::lanes) {
    V x = K::load(in + t);
    top = K::largest(K::largest(top, x), -x);
    K::store(weights + t, exponential<Real>(x));
  }
  if (K::reduce(top, K::largest) < bound) return true;
  for (int i = 0; i < rows; ++i) {
    const Real* row = logits + i * stride;
    Real shift = row[0];
    for (int j = 1; j < columns; ++j) shift = row[j] > shift ? row[j] : shift;
    for (int j = 0; j < columns; ++j) weights[int64_t(i) * columns + j] = row[j] - shift;
  }
  for (int64_t t = 0; t < total; t += K::lanes) K::store(weights + t, exponential<Real>(K::load(weights + t)));
  return false;
}

// f(row length) with a constant where it is small
template <class F> void with_length(int columns, const F& f) {
  if (columns <= 8) with_constant<8>(columns, f);
  else f(columns);
}

template <class Real> Real normalise(const Real* logits, int64_t readable, int64_t stride, int rows, int columns, Real* weights) {
  const Real bound = 15;
  const bool bounded = exponentials(logits, readable, stride, rows, columns, bound, weights);
  Real smallest = 1;
  bool valid = true;
  with_length(columns, [&](auto length) {
    for (int i = 0; i < rows; ++i) {
      Real* row = weights + int64_t(i) * length;
      Real sum = 0;
      for (int j = 0; j < length; ++j) sum += row[j];
      valid = valid & (sum > 0);
      Real factor = 1 / sum;
      for (int j = 0; j < length; ++j) row[j] *= factor;
    }
  });
  if (!valid) return -1;
  if (bounded) return exponential<Real>(typename Kernel<Real>::V{} - 2 * bound)[0] / columns;
  for (int64_t t = 0; t < int64_t(rows) * columns; ++t) smallest = weights[t] < smallest ? weights[t] : smallest;
  return smallest;
}

// F = W (factor gradient) + flows; out = F, or F - W rowsum(F)
template <class Real> void finish(const Real* weights, const Real* gradient, Real factor, const double* flows, int rows, int columns, bool as_flows, Real* out, int64_t stride) {
  with_length(columns, [&](auto length) {
    for (int i = 0; i < rows; ++i) {
      const Real *w = weights + int64_t(i) * length, *g = gradient + int64_t(i) * length;
      Real* row = out + i * stride;
      Real total = 0;
      for (int j = 0; j < length; ++j) {
        row[j] = w[j] * (g[j] * factor);
        if (flows) row[j] += Real(flows[int64_t(i) * length + j]);
        total += row[j];
      }
      if (!as_flows)
        for (int j = 0; j < length; ++j) row[j] -= w[j] * total;
    }
  });
}

// ---- networks: rows are the vector dimension ----

template <class Real> struct Network {
  using K = Kernel<Real>;
  using V = typename K::V;
  static constexpr int vectors = network_vectors;
  static constexpr int64_t block = int64_t(vectors) * K::lanes;

  const Layers<Real>& layers;
  std::vector<V*> values, gradients;  // per layer its inputs, and the outputs last: (width, block)
  V* ones;

  Network(const Layers<Real>& layers, Real* scratch) : layers(layers), ones((V*)scratch) {
    V* next = ones + vectors;
    for (auto* list : {&values, &gradients})
      for (int width : layers.widths) list->push_back(next), next += int64_t(width) * vectors;
    for (int v = 0; v < vectors; ++v) ones[v] = K::broadcast(1);
  }

  // (rows, width) from first on <-> (width, block)
  static void read(const Real* in, int64_t first, int64_t last, int width, V* out) {
    Real* to = (Real*)out;
    for (int j = 0; j < width; ++j) {
      for (int64_t r = first; r < last; ++r) to[j * block + r - first] = in[r * width + j];
      for (int64_t r = last - first; r < block; ++r) to[j * block + r] = 0;
    }
  }
  static void write(const V* in, int64_t first, int64_t last, int width, Real* out) {
    const Real* from = (const Real*)in;
    for (int64_t r = first; r < last; ++r)
      for (int j = 0; j < width; ++j) out[r * width + j] = from[j * block + r - first];
  }

  void forward(const Real* in, int64_t first, int64_t last, int count) {
    read(in, first, last, layers.widths[0], values[0]);
    for (int l = 0; l < count; ++l) {
      const int rows = layers.widths[l + 1], columns = layers.widths[l];
      const V floor = l + 1 < layers.count ? V{} : K::broadcast(-INFINITY);
      K::sum(layers.weights[l], columns, 1, values[l], rows, columns, values[l + 1], vectors);
      for (int i = 0; i < rows; ++i) {
        V* row = values[l + 1] + int64_t(i) * vectors;
        for (int v = 0; v < vectors; ++v) row[v] = K::largest(row[v] + layers.biases[l][i], floor);
      }
    }
  }

  // The gradients of layer l's weights and biases; leaves that of its inputs in gradients[l].
  void step_back(int l, Real* weights) {
    const int rows = layers.widths[l + 1], columns = layers.widths[l];
    K::outer(gradients[l + 1], values[l], rows, columns, vectors, weights);
    K::outer(gradients[l + 1], ones, rows, 1, vectors, weights + int64_t(rows) * columns);
    K::sum(layers.weights[l], 1, columns, gradients[l + 1], columns, rows, gradients[l], vectors);
    if (l == 0) return;
    for (int64_t t = 0; t < int64_t(columns) * vectors; ++t) gradients[l][t] = values[l][t] > 0 ? gradients[l][t] : V{};
  }
};

template <class Real> void network_forward(const Layers<Real>& layers, const Real* in, int64_t first, int64_t last, Real* out, Real* scratch) {
  Network<Real> network(layers, scratch);
  network.forward(in, first, last, layers.count);
  network.write(network.values.back(), first, last, layers.widths.back(), out);
}

template <class Real> void network_backward(const Layers<Real>& layers, const Real* in, const Real* gradient, int64_t first, int64_t last, Real* in_gradient, Real* parameters, Real* scratch) {
  Network<Real> network(layers, scratch);
  network.forward(in, first, last, layers.count - 1);
  network.read(gradient, first, last, layers.widths.back(), network.gradients.back());
  std::vector<Real*> starts{parameters};
  for (int l = 0; l < layers.count; ++l) starts.push_back(starts.back() + int64_t(layers.widths[l + 1]) * (layers.widths[l] + 1));
  for (int l = layers.count - 1; l >= 0; --l) network.step_back(l, starts[l]);
  network.write(network.gradients[0], first, last, layers.widths[0], in_gradient);
}

}  // namespace

template <class Real> constexpr Functions<Real> table() {
  return {Kernel<Real>::lanes, vector_multiple, normalise<Real>, forward<Real>, values<Real>, seed<Real>, backward<Real>, finish<Real>, network_forward<Real>, network_backward<Real>};
}
const Functions<float> float_functions = table<float>();
const Functions<double> double_functions = table<double>();

}  // namespace KERNEL_ISA
}  // namespace hyperspn
