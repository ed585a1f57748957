// A node of a wide layer, forward and backward.
#pragma once
#include "wide.hpp"

namespace hyperspn {
namespace {

struct WideForward : Wide {
  using Wide::Wide;

  void node(const Node& node) const {
    clear_losses();
    if (has_categories(node))
      categories(node);
    else if (node.type == INNER)
      inner(node);
    else
      to_root(node, value(node, (V*)narrow, index));
    keep_losses(node);
  }

  void inner(const Node& node) const {
    add_losses(child(node, 0));
    const Factor in = product_of(node, [&](V* prefix, V* factor, int i) {
      add_losses(child(node, i));
      rescale_rows(prefix, vectors, factor, [&](V top, V low, int v) INLINE { return account(top, low, v, 2); });
    });
    if (node.children > 1) add_losses(child(node, node.children - 1));
    const Real* rows = in_rows(in);
    if (is_root(node)) {
      sums(node, rows, K, samples, narrow, lanes);
      return to_root(node, {narrow, lanes});
    }
    V* out = place(node);
    if (rows == (Real*)out) rows = (Real*)memcpy((void*)product, rows, sizeof(V) * K * vectors);
    sums(node, rows, K, samples, (Real*)out, K);
    rescale_rows(out, vectors, scales(node),
                 [&](V top, V low, int v) INLINE { return account(top, low, v, node.children); });
  }

  // One number per sample.
  void to_root(const Node& node, const Factor& in) const {
    Real* out = (Real*)place(node);
    for (int64_t s = 0; s < samples; ++s) out[s] = in.row(s)[0][0];
    const int factors = node.children > 1 ? node.children : 1;
    rescale_and_account((V*)out, 1, factors, scales(node));
  }

  void categories(const Node& node) const {
    const Node& below = child(node, 0);
    const int groups = whole_vectors(below.columns + 1);
    V *table = leaf, *factor = prefix, *loss_table = prefix + vectors;
    I* shift = (I*)(prefix + 2 * vectors);
    sums(node, category_rows(below), K, below.columns + 1, (Real*)table, K);
    rescale_rows(table, groups, factor, [&](V top, V low, int v) INLINE {
      const I e = safe_exponent(top);
      const V f = power_of_two(Form::unit - e);
      shift[v] = e - Form::unit, loss_table[v] = loss(V{}, low, 1) * f;
      return f;
    });
    read_codes(below, index, [&](Integer, Integer code) { return code < 0 ? below.columns : code; });
    pick(node, (Real*)table, (Real*)factor, (Real*)loss_table, (Integer*)shift);
  }

  // The category of every sample is looked up.
  void pick(const Node& node, const Real* table, const Real* factor, const Real* loss, const Integer* shift) const {
    const Integer* codes = (Integer*)index;
    Real *scale = (Real*)scales(node), *loss_out = (Real*)lost;
    copy_rows({table, K, codes}, place(node));
    for (int64_t s = 0; s < samples; ++s) {
      scale[s] = factor[codes[s]], loss_out[s] = loss[codes[s]];
      b.exponents[s] += shift[codes[s]];
    }
  }
};

// Gradients are kept times the node's scale.
struct WideBackward : Wide {
  using Wide::Wide;

  void node(const Node& node) const {
    const Real* gradient = (Real*)gradient_place(node);
    int64_t step = K;
    if (is_root(node)) {
      memset(narrow, 0, sizeof(V) * samples);
      for (int64_t s = 0; s < samples; ++s) narrow[s * lanes] = b.gradients[s];
      gradient = narrow, step = lanes;
    }
    if (node.type != INNER) return wide_leaf_backward(node, gradient, step);
    if (has_categories(node)) return categories(node, gradient);
    const Factor in = product_of(node, [&](V* prefix, V* factor, int) {
      rescale_rows(prefix, vectors, factor,
                   [&](V top, V, int) INLINE { return power_of_two(Form::unit - safe_exponent(top)); });
    });
    add_weight_gradient(node, in_rows(in), K, gradient, step, samples);
    sums_backward(node, gradient, step, samples, (Real*)product_gradient, K);
    for (int i = node.children - 1; i > 0; --i) step_back(node, i);
    first_child(node);
  }

  // Whether the values of a leaf are in the buffer that was given for them.
  static bool is_computed(const Node& node) { return node.type == DENSE || node.type == SPARSE; }

  // Child i > 0: its gradient is G p_{i-1}; then G becomes G child_i, the gradient of p_{i-1}, times that prefix's
  // scale.
  void step_back(const Node& node, int i) const {
    const Node &here = child(node, i), &first = child(node, 0);
    const bool second = i == 1;
    const bool is_there = i + 1 == node.children && is_computed(here);
    const Factor x = is_there ? Factor{(Real*)leaf, K} : value(here, leaf, other_index);
    const Factor before = !second              ? Factor{(Real*)prefix_at(i - 1), K}
                          : is_computed(first) ? Factor{(Real*)prefix_at(0), K}
                                               : value(first, prefix_at(0), index);
    const Real* child_scale = (Real*)(here.type == INNER ? scales(here) : ones);
    const Real* prefix_scale = (Real*)(second ? ones : prefix_at(i - 1) + int64_t(K) * vectors);
    V* out = here.type == INNER ? gradient_place(here) : leaf;
    with_count(parts, [&](auto count) {
      for (int64_t s = 0; s < samples; ++s) {
        const V *p = before.row(s), *y = x.row(s);
        V *to = (V*)((Real*)out + s * K), *total = (V*)((Real*)product_gradient + s * K);
        for (int v = 0; v < count; ++v) {
          const V g = total[v], value = y[v];
          to[v] = g * p[v] * child_scale[s];
          total[v] = g * value * prefix_scale[s];
        }
      }
    });
    if (here.type != INNER) wide_leaf_backward(here, (Real*)leaf, K);
  }

  void first_child(const Node& node) const {
    const Node& here = child(node, 0);
    if (here.type != INNER) return wide_leaf_backward(here, (Real*)product_gradient, K);
    V* out = gradient_place(here);
    const Real* scale = (Real*)scales(here);
    with_count(parts, [&](auto count) {
      for (int64_t s = 0; s < samples; ++s)
        for (int v = 0; v < count; ++v)
          ((V*)((Real*)out + s * K))[v] = ((V*)((Real*)product_gradient + s * K))[v] * scale[s];
    });
  }

  void categories(const Node& node, const Real* gradient) const {
    const Node& below = child(node, 0);
    const int count = below.columns + 1;
    Real *total = (Real*)product_gradient, *out = weight_gradient(below);
    memset(total, 0, sizeof(Real) * K * count);
    read_codes(below, index);
    add_by_category((Integer*)index, gradient, K, total, K, total + below.columns * int64_t(K));
    const Real* rows = category_rows(below);
    add_weight_gradient(node, rows, K, total, K, count);
    sums_backward(node, total, K, count, (Real*)leaf, K);
    for (int c = 0; c < below.columns; ++c, out += weight_step(below.rows))
      for (int v = 0; v < parts; ++v) ((V*)out)[v] += ((V*)((Real*)leaf + c * int64_t(K)))[v];
  }
};

}  // namespace
}  // namespace hyperspn
