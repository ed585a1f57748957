// The Python interface of normals.hpp.
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <cmath>

#include "arrays.hpp"
#include "bindings.hpp"
#include "normals.hpp"
#include "threads.hpp"

namespace hyperspn {
namespace {

// Both are the same for every number of threads.
template <class Real>
void normals_forward(const NormalColumns<Real>& columns, Real* out, Real* largest, int threads) {
  const auto& arithmetic = normal_arithmetic<Real>();
  const int64_t parts = (columns.samples + arithmetic.most - 1) / arithmetic.most, tasks = columns.variables * parts;
  run_threads(threads, [&](int thread) {
    for (int64_t task = tasks * thread / threads; task < tasks * (thread + 1) / threads; ++task) {
      const int64_t first = task % parts * arithmetic.most, last = first + arithmetic.most, variable = task / parts;
      arithmetic.forward(columns, int(variable), first, last < columns.samples ? last : columns.samples, out,
                         largest + variable * columns.samples);
    }
  });
}

template <class Real>
void normals_backward(const NormalColumns<Real>& columns, const Real* out, const Real* largest, const Real* gradient,
                      double* parameters, int threads) {
  run_threads(threads, [&](int thread) {
    for (int v = thread; v < columns.variables; v += threads)
      normal_arithmetic<Real>().backward(columns, v, out, largest + v * columns.samples, gradient,
                                         parameters + int64_t(v) * columns.members * 2);
  });
}

// The columns of one call, with what it made of their parameters.
template <class Real>
struct Call {
  NormalColumns<Real> columns;
  std::vector<Normal> normals;
  std::vector<int32_t> row_ptr;

  size_t rows() const { return row_ptr.back(); }
};

template <class Number>
const Number* numbers_like(const Array& array, const Array& cells, const std::string& name) {
  expect_shape(array, {int64_t(cells.shape(0)), int64_t(cells.shape(1))}, name);
  if (array.dtype() != nb::dtype<Number>()) throw std::invalid_argument("expected " + name + " of another dtype");
  return static_cast<const Number*>(array.data());
}

// Cells [low, high, offset] in the precision of the parameters, (samples, variables); parameters (variables, members,
// 2).
template <class Real>
Call<Real> read_call(const Arrays& cells, const Array& point, const Array& missing, const Array& parameters,
                     double min_std, const Array& points, const Integers& row_ptr) {
  EXPECT(cells.size() == 3 && cells[0].ndim() == 2, "three arrays of 2 dimensions", cells.size());
  EXPECT(parameters.ndim() == 3, "parameters with 3 dimensions (variables, members, 2)", parameters.ndim());
  const int64_t variables = parameters.shape(0), members = parameters.shape(1);
  expect_shape(parameters, {int64_t(cells[0].shape(1)), members, 2}, "parameters");
  EXPECT(points.ndim() == 2, "points with 2 dimensions", points.ndim());
  expect_shape(points, {variables, int64_t(points.shape(1))}, "points");
  EXPECT(int64_t(row_ptr.size()) == variables + 1, "row_ptr of length variables + 1", row_ptr.size());
  Call<Real> call{{}, {}, copied(row_ptr)};
  call.columns = {int64_t(cells[0].shape(0)),
                  int(variables),
                  int(members),
                  int(points.shape(1)),
                  numbers_like<Real>(cells[0], cells[0], "low"),
                  numbers_like<Real>(cells[1], cells[0], "high"),
                  numbers_like<Real>(cells[2], cells[0], "offset"),
                  numbers_like<int64_t>(point, cells[0], "point"),
                  numbers_like<bool>(missing, cells[0], "missing"),
                  typed<Real>(points, "points"),
                  nullptr,
                  call.row_ptr.data()};
  for (int64_t v = 0; v < variables; ++v) {
    const int64_t rows = call.row_ptr[v + 1] - call.row_ptr[v];
    EXPECT(rows >= members && rows <= members + call.columns.points, "rows for members and points", rows);
  }
  const Real* raw = typed<Real>(parameters, "parameters");
  for (int64_t i = 0; i < variables * members; ++i)
    call.normals.push_back({double(raw[2 * i]), min_std + std::exp(double(raw[2 * i + 1]))});
  call.columns.normals = call.normals.data();
  return call;
}

nb::object forward(const Arrays& cells, const Array& point, const Array& missing, const Array& parameters,
                   double min_std, const Array& points, const Integers& row_ptr, int threads) {
  return with_dtype(parameters.dtype(), [&](auto zero) -> nb::object {
    using Real = decltype(zero);
    const auto call = read_call<Real>(cells, point, missing, parameters, min_std, points, row_ptr);
    const NormalColumns<Real>& columns = call.columns;
    Real *out, *largest;
    nb::object rows = make_array<Real>({call.rows(), size_t(columns.samples)}, false, &out);
    nb::object largests = make_array<Real>({size_t(columns.variables), size_t(columns.samples)}, false, &largest);
    {
      nb::gil_scoped_release release;
      normals_forward(columns, out, largest, check_threads(threads));
    }
    return nb::make_tuple(rows, largests);
  });
}

nb::object backward(const Arrays& cells, const Array& point, const Array& missing, const Array& parameters,
                    double min_std, const Array& points, const Integers& row_ptr, const Array& rows,
                    const Array& largest, const Array& gradient, int threads) {
  return with_dtype(parameters.dtype(), [&](auto zero) -> nb::object {
    using Real = decltype(zero);
    const auto call = read_call<Real>(cells, point, missing, parameters, min_std, points, row_ptr);
    const NormalColumns<Real>& columns = call.columns;
    expect_shape(rows, {int64_t(call.rows()), columns.samples}, "rows");
    expect_shape(largest, {columns.variables, columns.samples}, "largest");
    expect_shape(gradient, {int64_t(call.rows()), columns.samples}, "gradient");
    const Real *out = typed<Real>(rows, "rows"), *top = typed<Real>(largest, "largest");
    const Real *gradients = typed<Real>(gradient, "gradient"), *raw = typed<Real>(parameters, "parameters");
    Real* result;
    nb::object array = make_array<Real>({size_t(columns.variables), size_t(columns.members), 2}, false, &result);
    nb::gil_scoped_release release;
    std::vector<double> total(2 * call.normals.size());
    normals_backward(columns, out, top, gradients, total.data(), check_threads(threads));
    for (size_t i = 0; i < total.size(); ++i) result[i] = Real(i % 2 ? total[i] * std::exp(double(raw[i])) : total[i]);
    return array;
  });
}

}  // namespace

void bind_normals(nb::module_& m) {
  using namespace nanobind::literals;
  m.def("normals_forward", &forward, "cells"_a, "point"_a, "missing"_a, "parameters"_a, "min_std"_a, "points"_a,
        "row_ptr"_a, "threads"_a = 1);
  m.def("normals_backward", &backward, "cells"_a, "point"_a, "missing"_a, "parameters"_a, "min_std"_a, "points"_a,
        "row_ptr"_a, "rows"_a, "largest"_a, "gradient"_a, "threads"_a = 1);
}

}  // namespace hyperspn
