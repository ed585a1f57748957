// Leaves: categories are looked up in their weights, likelihoods are summed with them, all of them or a few.
#pragma once
#include "frame.hpp"

namespace hyperspn {
namespace {

struct Leaves : Frame {
  using Frame::Frame;

  // out[s] = f(out[s], code) for all samples of the block, and a valid code beyond the last
  template <class Code, class F>
  void read_codes_as(const Node& node, Integer* out, const F& f) const {
    const Code* row = (const Code*)b.codes + node.variable * b.row_length + b.first;
    const Integer beyond = b.missing[node.variable] ? -1 : 0;
    for (int64_t s = 0; s < b.valid; ++s) out[s] = f(out[s], Integer(row[s]));
    for (int64_t s = b.valid; s < int64_t(vectors) * lanes; ++s) out[s] = f(out[s], beyond);
  }
  template <class F>
  void read_codes(const Node& node, I* out, const F& f) const {
    if (b.code_bytes == 1)
      read_codes_as<int8_t>(node, (Integer*)out, f);
    else
      read_codes_as<int32_t>(node, (Integer*)out, f);
  }
  void read_codes(const Node& node, I* out) const {
    read_codes(node, out, [](Integer, Integer code) { return code; });
  }

  // A leaf whose look-ups are permutations of a vector: 2^unit W[o, 0..columns), and 2^unit in the last lane for -1.
  static bool is_small(const Node& node) { return has_lookups && node.type == CATEGORICAL && node.columns < lanes; }
  void make_tables(const Node& node, V* table) const {
    const V unit = broadcast(power_of_two(Form::unit));
    const Real* weight = weights(node);
    for (int o = 0; o < node.rows; ++o)
      table[o] = lane() < node.columns ? load(weight + o * node.columns) * unit : unit;
  }

  void look_up(const Node& node, V* out) const {
    read_codes(node, index);
    const Integer* code = (const Integer*)index;
    const Real unit = power_of_two(Form::unit);
    const Real* weight = weights(node);
    for (int o = 0; o < node.rows; ++o, weight += node.columns) {
      Real* row = (Real*)(out + int64_t(o) * vectors);
      for (int64_t s = 0; s < int64_t(vectors) * lanes; ++s) row[s] = code[s] < 0 ? unit : weight[code[s]] * unit;
    }
  }

  // A row of a sparse leaf: all samples if it is the first, else those whose likelihood is not 0.
  struct Members {
    bool is_first;
    int64_t count;
    const Integer *sample, *member;
    const Real* share;
  };
  template <class F>
  void over_members(const Node& node, const F& f) const {
    Integer *sample = (Integer*)other_index, *member = (Integer*)index;
    Real* share = (Real*)likelihood;
    const int64_t first = b.sparse_ptr[node.variable], last = b.sparse_ptr[node.variable + 1];
    for (int64_t row = first; row < last; ++row) {
      const int32_t* members = b.members + row * b.row_length + b.first;
      const Real* shares = b.shares + row * b.row_length + b.first;
      int64_t count = 0;
      for (int64_t s = 0; s < b.valid; ++s) {
        sample[count] = Integer(s), member[count] = members[s], share[count] = shares[s];
        count += row == first || shares[s] > 0;
      }
      f(Members{row == first, count, sample, member, share});
    }
  }

  // out[o] = sum_i share_i W[o, member_i]; missing values, and all beyond the last sample, are 1
  void mix(const Node& node, V* out) const {
    const Real unit = power_of_two(Form::unit);
    over_members(node, [&](const Members& x) {
      const Real* weight = weights(node);
      for (int o = 0; o < node.rows; ++o, weight += node.columns) {
        Real* row = (Real*)(out + int64_t(o) * vectors);
        if (x.is_first) {
          for (int64_t i = 0; i < x.count; ++i)
            row[i] = x.member[i] < 0 ? unit : weight[x.member[i]] * x.share[i] * unit;
          for (int64_t i = x.count; i < int64_t(vectors) * lanes; ++i) row[i] = unit;
        } else {
          for (int64_t i = 0; i < x.count; ++i) row[x.sample[i]] += weight[x.member[i]] * x.share[i] * unit;
        }
      }
    });
  }
  void mix_backward(const Node& node, const V* gradient, Real* out) const {
    over_members(node, [&](const Members& x) {
      for (int o = 0; o < node.rows; ++o) {
        const Real* g = (const Real*)(gradient + int64_t(o) * vectors);
        for (int64_t i = 0; i < x.count; ++i)
          if (x.member[i] >= 0) out[int64_t(o) * node.columns + x.member[i]] += g[x.sample[i]] * x.share[i];
      }
    });
  }

  void read_likelihoods(const Node& node) const {
    const Real unit = power_of_two(Form::unit);
    const Real* in = b.dense + b.dense_ptr[node.variable] * b.row_length + b.first;
    for (int j = 0; j < node.columns; ++j, in += b.row_length) {
      Real* out = (Real*)(likelihood + int64_t(j) * vectors);
      for (int64_t s = 0; s < b.valid; ++s) out[s] = in[s] * unit;
      for (int64_t s = b.valid; s < int64_t(vectors) * lanes; ++s) out[s] = unit;
    }
  }

  void leaf_values(const Node& node, V* out) const {
    if (node.type == CATEGORICAL) return look_up(node, out);
    if (node.type == SPARSE) return mix(node, out);
    read_likelihoods(node);
    sum(weights(node), node.columns, 1, likelihood, node.rows, node.columns, out, vectors);
  }

  void leaf_backward(const Node& node, const V* gradient) const {
    Real* out = weight_gradient(node);
    if (node.type == DENSE) return dense_backward(node, gradient, out);
    if (node.type == SPARSE) return mix_backward(node, gradient, out);
    read_codes(node, index);
    if (node.columns <= 8) return category_sums(gradient, index, node.rows, node.columns, vectors, out, node.columns);
    const Integer* code = (const Integer*)index;
    for (int o = 0; o < node.rows; ++o) {
      const Real* g = (const Real*)(gradient + int64_t(o) * vectors);
      for (int64_t s = 0; s < b.valid; ++s)
        if (code[s] >= 0) out[int64_t(o) * node.columns + code[s]] += g[s];
    }
  }

  void dense_backward(const Node& node, const V* gradient, Real* out) const {
    read_likelihoods(node);
    outer(gradient, likelihood, node.rows, node.columns, vectors, out);
    sum(weights(node), 1, node.columns, gradient, node.columns, node.rows, likelihood_gradient, vectors);
    write_likelihood_gradient(node);
  }

  // From likelihood and likelihood_gradient to the gradient of the log-likelihoods.
  void write_likelihood_gradient(const Node& node) const {
    const Real factor = 1 / b.gradient_unit;
    Real* total = b.dense_gradient + b.dense_ptr[node.variable] * b.row_length + b.first;
    for (int j = 0; j < node.columns; ++j, total += b.row_length) {
      const Real* e = (const Real*)(likelihood + int64_t(j) * vectors);
      const Real* g = (const Real*)(likelihood_gradient + int64_t(j) * vectors);
      for (int64_t s = 0; s < b.valid; ++s) total[s] += e[s] * g[s] * factor;
    }
  }
};

}  // namespace
}  // namespace hyperspn
