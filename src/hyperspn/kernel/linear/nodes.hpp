// A node of a tree, forward and backward.
#pragma once
#include "children.hpp"

namespace hyperspn {
namespace {

struct Forward : Children {
  using Children::Children;

  void node(const Node& node) const {
    if (has_configurations(node)) return forward_configurations(node);
    clear_losses();
    if (node.type == INNER)
      inner(node);
    else
      leaf_root(node);
    keep_losses(node);
  }

  // A leaf that is the root.
  void leaf_root(const Node& node) const {
    V* out = place(node);
    memcpy((void*)out, (void*)value(node, leaf), sizeof(V) * vectors);
    rescale_and_account(out, 1, 1, scales(node));
  }

  void inner(const Node& node) const {
    if (node.children == 2) add_losses(child(node, 0)), add_losses(child(node, 1));
    if (node.children == 2 && K <= max_rows)
      return with_pair(
          node, [&](auto x, auto y, auto&, auto&) { sum_and_rescale(node, Product<decltype(x), decltype(y)>{x, y}); });
    const V* in = node.children == 2 ? multiply_pair(node) : multiply_children(node);
    if (node.rows <= max_rows)
      sum_and_rescale(node, Values{in, vectors});
    else
      large_sum(node, in);
  }

  // out = W in, rescaled, for at most max_rows rows
  template <class In>
  void sum_and_rescale(const Node& node, const In& in) const {
    V *out = place(node), *factor = scales(node);
    with_constant<max_rows>(node.rows, [&](auto n) {
      sum_tile<n>(weights(node), K, 1, in, K, vectors, [&](int v, auto& total) INLINE {
        repeat<wide(n)>([&](auto q) INLINE {
          V top = total[0][q], low = top;
          repeat<n>([&](auto i) INLINE { top = largest(top, total[i][q]), low = smallest(low, total[i][q]); });
          V f = factor[v + q] = account(top, low, v + q, node.children);
          repeat<n>([&](auto i) INLINE { out[int64_t(i) * vectors + v + q] = total[i][q] * f; });
        });
      });
    });
  }

  void large_sum(const Node& node, const V* in) const {
    V* out = place(node);
    if (in == out) in = (V*)memcpy((void*)product, (const void*)in, sizeof(V) * K * vectors);
    sum(weights(node), K, 1, in, node.rows, K, out, vectors);
    rescale_and_account(out, node.rows, node.children, scales(node));
  }
};

// Gradients are kept times the node's scale.
struct Backward : Children {
  using Children::Children;

  void node(const Node& node) const {
    const V* gradient = is_root(node) ? (const V*)b.gradients : gradient_place(node);
    if (node.type != INNER) return leaf_backward(node, gradient);
    if (has_configurations(node)) return backward_configurations(node, gradient);
    if (node.children == 2) return pair(node, gradient);
    const V* p = multiply_children_again(node);
    sum(weights(node), 1, K, gradient, K, node.rows, product_gradient, vectors);
    outer(gradient, p, node.rows, K, vectors, weight_gradient(node));
    for (int i = node.children - 1; i > 0; --i) step_back(node, i);
    first_child(node);
  }

  static V scaled(const Values&, V gradient, const V& scale) { return gradient * scale; }
  static V scaled(const Lookup&, V gradient, const V&) { return gradient; }

  void pair(const Node& node, const V* gradient) const {
    with_pair(node, [&](auto x, auto y, const Node& first, const Node& second) {
      V *x_gradient = gradient_of(first, prefix), *y_gradient = gradient_of(second, leaf);
      const V *x_scale = scale(first), *y_scale = scale(second);
      Parts tiles(K, max_rows);
      for (int s = 0; s < tiles.count; ++s) {
        const int begin = tiles.begin(s);
        with_constant<max_rows>(tiles.begin(s + 1) - begin, [&](auto n) {
          auto write = [&](int v, auto& total) INLINE {
            repeat<n>([&](auto i) INLINE {
              repeat<wide(n)>([&](auto q) INLINE {
                int64_t t = int64_t(begin + i) * vectors + v + q;
                V x_value = x.at(begin + i, v + q), y_value = y.at(begin + i, v + q);
                product[t] = x_value * y_value;
                x_gradient[t] = scaled(x, total[i][q] * y_value, x_scale[v + q]);
                y_gradient[t] = scaled(y, total[i][q] * x_value, y_scale[v + q]);
              });
            });
          };
          sum_tile<n>(weights(node) + begin, 1, K, Values{gradient, vectors}, node.rows, vectors, write);
        });
      }
      outer(gradient, product, node.rows, K, vectors, weight_gradient(node));
      if (first.type != INNER) leaf_backward(first, prefix);
      if (second.type != INNER) leaf_backward(second, leaf);
    });
  }

  // Child i > 0: its gradient is G p_{i-1}; then G becomes G child_i, the gradient of p_{i-1}, times that prefix's
  // scale.
  void step_back(const Node& node, int i) const {
    const Node &here = child(node, i), &first = child(node, 0);
    const V* x = i + 1 == node.children && here.type != INNER ? leaf : value(here, leaf);
    const V* before = i > 1 || first.type != INNER || has_configurations(first) ? prefix_at(i - 1) : place(first);
    const V *child_scale = scale(here), *prefix_scale = i > 1 ? prefix_at(i - 1) + int64_t(K) * vectors : ones;
    V* out = gradient_of(here, leaf);
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
  void first_child(const Node& node) const {
    const Node& here = child(node, 0);
    if (here.type != INNER) return leaf_backward(here, product_gradient);
    V* out = gradient_place(here);
    const V* child_scale = scale(here);
    for (int o = 0; o < K; ++o)
      for (int v = 0; v < vectors; ++v)
        out[int64_t(o) * vectors + v] = product_gradient[int64_t(o) * vectors + v] * child_scale[v];
  }
};

}  // namespace
}  // namespace hyperspn
