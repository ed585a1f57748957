// Samples that are picked out of a batch.
#pragma once
#include "batch.hpp"
#include "tasks.hpp"

namespace hyperspn {

// Some samples of a batch in rows of their own, for those leaves that belong to a part of a tree.
template <class Real>
struct Gathered {
  Buffer<char> codes;
  Buffer<Real> dense, dense_gradient, shares;
  Buffer<int32_t> members;

  Gathered() = default;
  template <class In>
  Gathered(const Batch<In>& batch, int64_t width)
      : codes(int64_t(batch.program.categories.size()) * width * 4),
        dense(batch.program.dense_rows() * width),
        dense_gradient(batch.program.dense_rows() * width),
        shares(batch.sparse.ptr.back() * width),
        members(batch.sparse.ptr.back() * width) {}

  template <class In>
  void read(const Batch<In>& batch, const Arithmetic<Real>& arithmetic, const Task& task, int64_t first, Part part,
            int64_t width, Block<Real>& b) {
    for (int64_t u = part.first; u < part.last; ++u) {
      const Node& node = b.nodes[u];
      if (node.type == CATEGORICAL && batch.code_bytes == 1) read_codes<int8_t>(batch, task, first, node, width, b);
      if (node.type == CATEGORICAL && batch.code_bytes == 4) read_codes<int32_t>(batch, task, first, node, width, b);
      if (node.type == SPARSE) read_members(batch, task, first, node, width, b);
      if (node.type != DENSE) continue;
      for (int row = b.dense_ptr[node.variable]; row < b.dense_ptr[node.variable + 1]; ++row) {
        Real* out = dense.get() + row * width;
        const In* in = batch.log_likelihoods + row * batch.samples;
        for (int64_t i = 0; i < b.valid; ++i) out[i] = Real(in[task.sample(first + i)]);
        arithmetic.likelihoods(out, b.valid);
        std::fill_n(dense_gradient.get() + row * width, b.valid, Real(0));
      }
    }
    b.codes = codes.get(), b.dense = dense.get(), b.dense_gradient = dense_gradient.get();
    b.members = members.get(), b.shares = shares.get();
    b.row_length = width, b.first = 0;
  }

  // Adds the gradients of the likelihoods to those of the batch.
  template <class In>
  void write(const Batch<In>& batch, const Task& task, int64_t first, Part part, const Block<Real>& b, In* out) const {
    for (int64_t u = part.first; u < part.last; ++u) {
      const Node& node = b.nodes[u];
      if (node.type != DENSE) continue;
      for (int row = b.dense_ptr[node.variable]; row < b.dense_ptr[node.variable + 1]; ++row)
        for (int64_t i = 0; i < b.valid; ++i)
          out[row * batch.samples + task.sample(first + i)] += In(b.dense_gradient[row * b.row_length + i]);
    }
  }

 private:
  template <class In>
  void read_members(const Batch<In>& batch, const Task& task, int64_t first, const Node& node, int64_t width,
                    const Block<Real>& b) {
    for (int64_t row = batch.sparse.ptr[node.variable]; row < batch.sparse.ptr[node.variable + 1]; ++row)
      for (int64_t i = 0; i < b.valid; ++i) {
        const int64_t at = row * batch.samples + task.sample(first + i);
        members.get()[row * width + i] = batch.sparse.members[at];
        shares.get()[row * width + i] = Real(batch.sparse.shares[at]);
      }
  }

  template <class Code, class In>
  void read_codes(const Batch<In>& batch, const Task& task, int64_t first, const Node& node, int64_t width,
                  const Block<Real>& b) {
    const Code* in = static_cast<const Code*>(batch.codes) + node.variable * batch.samples;
    Code* out = reinterpret_cast<Code*>(codes.get()) + node.variable * width;
    for (int64_t i = 0; i < b.valid; ++i) out[i] = in[task.sample(first + i)];
  }
};

}  // namespace hyperspn
