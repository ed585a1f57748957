// Inner nodes above one or two leaves that have few joint configurations: computed once for each of these.
// Their place holds, like a leaf's look-up, the index of every sample, K tables, and the tables of scales and losses.
#pragma once
#include "leaves.hpp"

namespace hyperspn {
namespace {

struct Configurations : Leaves {
  using Leaves::Leaves;

  int states(const Node& node) const { return node.columns + b.missing[node.variable]; }
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

  // Lane c of every vector belongs to configuration c = state of the first child * states of the second + its state.
  struct States {
    int count;
    I first, second;  // codes of the children
  };
  // Also makes tables, other_tables, product: the children's values and their product, K vectors each.
  States configure(const Node& node) const {
    const bool pair = node.children == 2;
    const Node &one = child(node, 0), &two = child(node, pair);
    const int first_states = states(one), second_states = pair ? states(two) : 1;
    I first{};
    for (int k = 1; k < first_states; ++k) first -= lane() >= k * second_states;
    const I second = lane() - first * second_states;
    const States all{first_states * second_states, first == one.columns ? I{} - 1 : first,
                     second == two.columns ? I{} - 1 : second};
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
    read_codes(child(node, 1), out,
               [=](Integer before, Integer code) { return before * count + (code < 0 ? second_columns : code); });
  }

  void forward_configurations(const Node& node) const {
    configure(node);
    const Real* weight = weights(node);
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
    I *index = configuration_index(node), *exponents = (I*)b.exponents;
    read_configurations(node, index);
    for (int v = 0; v < vectors; ++v) exponents[v] += (I)permute((V)shift, index[v]);
  }

  void backward_configurations(const Node& node, const V* gradient) const {
    const States all = configure(node);
    const V factor = configuration_tables(node)[K];
    V *total = product_gradient, *child_gradient = leaf;
    memset((void*)total, 0, sizeof(V) * K);
    category_sums(gradient, configuration_index(node), K, all.count, vectors, (Real*)total, lanes);
    for (int o = 0; o < K; ++o) total[o] *= factor;
    outer(total, product, K, K, 1, weight_gradient(node));
    const Real* weight = weights(node);
    for (int j = 0; j < K; ++j) {
      V g = weight[j] * total[0];
      for (int o = 1; o < K; ++o) g += weight[o * K + j] * total[o];
      child_gradient[j] = g * (node.children == 2 ? other_tables[j] : ones[0]);
      tables[j] *= g;
    }
    const Node& one = child(node, 0);
    category_sums(child_gradient, &all.first, K, one.columns, 1, weight_gradient(one), one.columns);
    if (node.children == 1) return;
    const Node& two = child(node, 1);
    category_sums(tables, &all.second, K, two.columns, 1, weight_gradient(two), two.columns);
  }
};

}  // namespace
}  // namespace hyperspn
