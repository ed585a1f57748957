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

  // f(member, share) for each row of a sparse leaf; beyond the last sample all are missing.
  template <class F>
  void over_members(const Node& node, const F& f) const {
    for (int64_t row = b.sparse_ptr[node.variable]; row < b.sparse_ptr[node.variable + 1]; ++row) {
      const int32_t* members = b.members + row * b.row_length + b.first;
      const Real* shares = b.shares + row * b.row_length + b.first;
      Integer* member = (Integer*)index;
      Real* share = (Real*)likelihood;
      for (int64_t s = 0; s < b.valid; ++s) member[s] = members[s], share[s] = shares[s];
      const bool is_first = row == b.sparse_ptr[node.variable];
      for (int64_t s = b.valid; s < int64_t(vectors) * lanes; ++s) member[s] = is_first ? -1 : 0, share[s] = 0;
      f(member, share, is_first);
    }
  }

  // out[o] = sum_i share_i W[o, member_i]
  void mix(const Node& node, V* out) const {
    const Real unit = power_of_two(Form::unit);
    const int64_t width = int64_t(vectors) * lanes;
    over_members(node, [&](const Integer* member, const Real* share, bool is_first) {
      const Real* weight = weights(node);
      for (int o = 0; o < node.rows; ++o, weight += node.columns) {
        Real* row = (Real*)(out + int64_t(o) * vectors);
        if (is_first)
          for (int64_t s = 0; s < width; ++s) row[s] = member[s] < 0 ? unit : weight[member[s]] * share[s] * unit;
        else
          for (int64_t s = 0; s < width; ++s) row[s] += weight[member[s]] * share[s] * unit;
      }
    });
  }
  void mix_backward(const Node& node, const V* gradient, Real* out) const {
    over_members(node, [&](const Integer* member, const Real* share, bool) {
      for (int o = 0; o < node.rows; ++o) {
        const Real* g = (const Real*)(gradient + int64_t(o) * vectors);
        for (int64_t s = 0; s < b.valid; ++s)
          if (member[s] >= 0) out[int64_t(o) * node.columns + member[s]] += g[s] * share[s];
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
