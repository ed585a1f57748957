// One block of samples on its way through a tree: where everything is, and how values are kept in range.
//
// After each sum the values of a sample are multiplied by a power of two, their scale, that brings the largest into
// [2^unit, 2^(unit+1)). Where weights may be so small that something vanishes below the normal range, a bound for what
// was lost goes along.
#pragma once
#include "tiles.hpp"

namespace hyperspn {
namespace {

struct Frame {
  const Block<Real>& b;
  const int K, vectors;
  const int64_t place_size;
  const Real vanished;
  V *leaf, *product, *product_gradient, *likelihood, *likelihood_gradient, *lost, *ones, *prefix;
  V *tables, *other_tables;
  I *index, *other_index;

  // The first `reserved` numbers of the scratch are for others.
  explicit Frame(const Block<Real>& block, int64_t reserved = 0)
      : b(block),
        K(block.rows),
        vectors(block.vectors),
        place_size(place_rows(K) * vectors),
        vanished(power_of_two(Form::unit + 3 - Form::bias) * (K > block.max_columns ? K : block.max_columns)) {
    V* next = (V*)(b.scratch + reserved);
    auto take = [&](int64_t rows) {
      V* p = next;
      next += rows * vectors;
      return p;
    };
    leaf = take(K), product = take(K), product_gradient = take(K);
    likelihood = take(b.max_columns), likelihood_gradient = take(b.max_columns);
    lost = take(1), index = (I*)take(1), other_index = (I*)take(1), ones = take(1);
    tables = next, other_tables = next + K, next += 2 * K;
    prefix = take(1);
    for (int v = 0; v < vectors; ++v) ones[v] = broadcast(1);
  }

  // ---- where things are ----

  const Node& child(const Node& node, int i) const { return b.nodes[b.children[node.first_child + i]]; }
  bool is_root(const Node& node) const { return &node == b.nodes + b.node_count - 1; }
  const Real* weights(const Node& node) const { return b.weights + (node.weight - b.weights_begin); }
  Real* weight_gradient(const Node& node) const { return b.weight_gradient + (node.weight - b.weights_begin); }
  V* place(const Node& node) const { return (V*)b.places + (b.tape ? node.place : node.slot) * place_size; }
  V* scales(const Node& node) const { return place(node) + int64_t(K) * vectors; }
  V* losses(const Node& node) const { return place(node) + int64_t(K + 1) * vectors; }
  V* prefix_at(int i) const { return prefix + (b.tape ? i : 0) * place_size; }
  V* gradient_place(const Node& node) const { return (V*)b.gradients + node.gradient_slot * int64_t(K) * vectors; }

  // ---- scales ----

  // The exponent of the largest value of a sample, not so small that the factor 2^(unit - exponent) overflows.
  static I safe_exponent(V top) { return largest_int(exponent_of(top), I{} + (Form::unit - Form::bias + 1)); }

  // Accounts for dividing samples by 2^(exponent(top) - unit), after a product of `factors` children. Returns the
  // factor.
  V account(V top, V low, int v, int factors) const {
    I e = safe_exponent(top);
    V f = power_of_two(Form::unit - e);
    ((I*)b.exponents)[v] += e - Form::unit;
    if (b.risky) lost[v] = loss(lost[v], low, factors) * f;
    return f;
  }

  // Brings the largest value of every sample into range; factor_of(largest, smallest, v) gives the power of two.
  template <class F>
  void rescale(V* x, int rows, V* factor, const F& factor_of) const {
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

  // ---- losses ----

  // The loss of a sample at a node, before scaling: a bound for those errors of its values that are not small beside
  // the value itself. Where weights or values vanish below the normal range, a sum changes by at most `vanished` times
  // the largest value of the other child (`growth`), which does not count if all sums are much larger. The losses of
  // the children grow in the same way.
  //
  // A sample whose loss is acceptable at the root has no gradient that overflows either: the gradient of a value, or of
  // a weight, tells how much an error of it would matter.
  V loss(V of_children, V low, int factors) const {
    const Real growth = factors > 1 ? power_of_two(Form::unit + 1) : Real(1);
    const Real precision = power_of_two(Form::mantissa + 1);
    return (of_children + (low < vanished * growth * precision ? broadcast(vanished) : V{})) * growth;
  }
  void clear_losses() const {
    if (b.risky) memset((void*)lost, 0, sizeof(V) * vectors);
  }
  void keep_losses(const Node& node) const {
    if (b.risky) memcpy((void*)losses(node), (const void*)lost, sizeof(V) * vectors);
  }
};

}  // namespace
}  // namespace hyperspn
