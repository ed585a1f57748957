// numpy arrays of Python: read with their types and shapes checked, and made.
#pragma once
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <cstdlib>
#include <new>
#include <string>
#include <vector>

#include "batch.hpp"

namespace hyperspn {

namespace nb = nanobind;

using Array = nb::ndarray<nb::ro, nb::c_contig, nb::device::cpu>;
using Arrays = std::vector<Array>;
using Integers = nb::ndarray<const int32_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

inline std::vector<int32_t> copied(const Integers& array) { return {array.data(), array.data() + array.size()}; }

template <class Number>
const Number* typed(const Array& array, const std::string& name) {
  if (array.dtype() != nb::dtype<Number>())
    throw std::invalid_argument("expected " + name + " of float32 or float64 like all others, found another dtype");
  return static_cast<const Number*>(array.data());
}

inline void expect_shape(const Array& array, const std::vector<int64_t>& shape, const std::string& name) {
  std::string expected, actual;
  bool same = array.ndim() == shape.size();
  for (size_t i = 0; i < shape.size(); ++i) expected += std::to_string(shape[i]) + ", ";
  for (size_t i = 0; i < array.ndim(); ++i) actual += std::to_string(array.shape(i)) + ", ";
  for (size_t i = 0; same && i < shape.size(); ++i) same = int64_t(array.shape(i)) == shape[i];
  if (!same) throw std::invalid_argument("expected " + name + " of shape (" + expected + "), found (" + actual + ")");
}

// Calls f(Real()) for dtype float32 or float64.
template <class F>
auto with_dtype(const nb::dlpack::dtype& dtype, F&& f) {
  if (dtype == nb::dtype<float>()) return f(float());
  if (dtype == nb::dtype<double>()) return f(double());
  throw std::invalid_argument("expected numbers of dtype float32 or float64, found another");
}

// A new numpy array that owns its memory.
template <class Number>
nb::object make_array(const std::vector<size_t>& shape, bool zero, Number** data) {
  size_t size = 1;
  for (size_t n : shape) size *= n;
  const size_t bytes = std::max<size_t>(size, 1) * sizeof(Number);
  *data = static_cast<Number*>(zero ? std::calloc(bytes, 1) : std::malloc(bytes));
  if (!*data) throw std::bad_alloc();
  nb::capsule owner(*data, [](void* p) noexcept { std::free(p); });
  return nb::cast(nb::ndarray<nb::numpy, Number>(*data, shape.size(), shape.data(), owner));
}

inline int check_threads(int threads) {
  EXPECT(threads >= 1 && threads <= 1024, "threads from 1 to 1024", threads);
  return threads;
}

}  // namespace hyperspn
