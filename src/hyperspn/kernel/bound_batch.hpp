// A batch and unnormalized weights as Python hands them over.
#pragma once
#include <nanobind/stl/optional.h>
#include <nanobind/stl/tuple.h>

#include <optional>
#include <tuple>
#include <variant>

#include "arrays.hpp"

namespace hyperspn {

// Members, (rows, samples), their likelihoods, and where the rows of each variable begin.
using PySparseRows = std::tuple<Array, Array, Integers>;

// A batch in either precision, with the arrays that it reads.
class PyBatch {
 public:
  template <class Real>
  using Pointer = std::unique_ptr<Batch<Real>>;
  std::variant<Pointer<float>, Pointer<double>> batch;

  PyBatch(const Program& program, Array codes, std::optional<Array> log_likelihoods, std::optional<PySparseRows> sparse,
          const std::string& dtype, int threads)
      : codes(codes), log_likelihoods(log_likelihoods), sparse(sparse) {
    check_threads(threads);
    if (dtype == "float32")
      read<float>(program, threads);
    else if (dtype == "float64")
      read<double>(program, threads);
    else
      throw std::invalid_argument("expected float32 or float64, found " + dtype);
  }

 private:
  const Array codes;
  const std::optional<Array> log_likelihoods;
  const std::optional<PySparseRows> sparse;

  template <class In>
  void read(const Program& program, int threads) {
    EXPECT(codes.ndim() == 2, "codes with 2 dimensions (variables, samples)", codes.ndim());
    const int64_t samples = codes.shape(1);
    expect_shape(codes, {int64_t(program.categories.size()), samples}, "codes");
    if (codes.dtype() != nb::dtype<int8_t>() && codes.dtype() != nb::dtype<int32_t>())
      throw std::invalid_argument("expected codes of dtype int8 or int32, found another");
    const In* dense = nullptr;
    if (program.dense_rows() > 0) {
      EXPECT(log_likelihoods, "log-likelihoods with " + std::to_string(program.dense_rows()) + " rows", 0);
      expect_shape(*log_likelihoods, {program.dense_rows(), samples}, "log-likelihoods");
      dense = typed<In>(*log_likelihoods, "log-likelihoods");
    }
    SparseRows<In> rows = read_sparse<In>(program, samples);
    nb::gil_scoped_release release;
    batch = std::make_unique<Batch<In>>(program, codes.data(), int(codes.itemsize()), dense, std::move(rows), samples,
                                        threads);
  }

  template <class In>
  SparseRows<In> read_sparse(const Program& program, int64_t samples) const {
    SparseRows<In> rows;
    if (program.sparse_columns.empty()) return rows;
    EXPECT(sparse, "sparse rows for " + std::to_string(program.sparse_columns.size()) + " variables", 0);
    const auto& [members, shares, ptr] = *sparse;
    rows.ptr = copied(ptr);
    Program::check_pointers(rows.ptr, "sparse_ptr");
    expect_shape(members, {rows.ptr.back(), samples}, "members");
    expect_shape(shares, {rows.ptr.back(), samples}, "shares");
    if (members.dtype() != nb::dtype<int32_t>())
      throw std::invalid_argument("expected members of dtype int32, found another");
    rows.members = static_cast<const int32_t*>(members.data()), rows.shares = typed<In>(shares, "shares");
    return rows;
  }
};

template <class In>
Logits<In> read_logits(const Program& program, const Arrays& logits, const std::vector<int64_t>& bases) {
  const size_t kinds = program.grids.size();
  EXPECT(logits.size() == kinds, std::to_string(kinds) + " arrays of logits", logits.size());
  EXPECT(bases.size() == kinds, std::to_string(kinds) + " sector bases", bases.size());
  Logits<In> result;
  for (size_t q = 0; q < logits.size(); ++q) {
    EXPECT(logits[q].ndim() == 3, "logits with 3 dimensions (sectors, rows, columns)", logits[q].ndim());
    result.push_back({typed<In>(logits[q], "logits"), int64_t(logits[q].shape(0)), int64_t(logits[q].shape(1)),
                      int64_t(logits[q].shape(2)), bases[q], program.grids[q].count ? &program.grids[q] : nullptr});
  }
  return result;
}

}  // namespace hyperspn
