// The arithmetic of log space, in double precision: slow, and right however small the values are. Weights are
// log-softmax, likelihoods stay logarithms, and gradients are those of log-values.
#include <algorithm>
#include <cmath>
#include <limits>

#include "arithmetic.hpp"

namespace hyperspn {
namespace {

constexpr double minus_infinity = -std::numeric_limits<double>::infinity();

// log sum_j exp(a[j] + b[j * b_stride])
double log_sum(const double* a, const double* b, int64_t b_stride, int count) {
  double top = minus_infinity, total = 0;
  for (int j = 0; j < count; ++j) top = std::max(top, a[j] + b[j * b_stride]);
  if (top == minus_infinity) return top;
  for (int j = 0; j < count; ++j) total += std::exp(a[j] + b[j * b_stride] - top);
  return top + std::log(total);
}

double normalize(const Node& node, const double* logits, int64_t, int64_t stride, double* weights) {
  const double zero = 0;
  const int rows = node.rows, columns = node.columns;
  for (int o = 0; o < rows; ++o, logits += stride, weights += columns) {
    double total = log_sum(logits, &zero, 0, columns);
    if (!std::isfinite(total)) return -1;
    for (int j = 0; j < columns; ++j) weights[j] = logits[j] - total;
  }
  return 0;
}

void likelihoods(double*, int64_t) {}

// One block: rows of samples, as in linear space.
struct Frame {
  const Block<double>& b;
  const int K;
  const int64_t width;
  double *leaf, *product, *product_gradient;

  explicit Frame(const Block<double>& block) : b(block), K(b.rows), width(b.vectors) {
    leaf = b.scratch, product = leaf + K * width, product_gradient = product + K * width;
  }

  const Node& child(const Node& node, int i) const { return b.nodes[b.children[node.first_child + i]]; }
  bool is_root(const Node& node) const { return &node == b.nodes + b.node_count - 1; }
  const double* weights(const Node& node) const { return b.weights + (node.weight - b.weights_begin); }
  double* weight_gradient(const Node& node) const { return b.weight_gradient + (node.weight - b.weights_begin); }
  double* place(const Node& node) const { return b.places + (b.tape ? node.place : node.slot) * place_rows(K) * width; }
  double* gradient(const Node& node) const { return b.gradients + int64_t(node.gradient_slot) * K * width; }
  int64_t dense_offset(const Node& node) const { return b.dense_ptr[node.variable] * b.row_length + b.first; }

  int code(const Node& node, int64_t s) const {
    int64_t at = node.variable * b.row_length + b.first + s;
    return b.code_bytes == 1 ? static_cast<const int8_t*>(b.codes)[at] : static_cast<const int32_t*>(b.codes)[at];
  }

  // out[o] = log sum_j exp(w[o, j] + in[j])
  void sums(const Node& node, const double* in, int64_t stride, double* out) const {
    const double* w = weights(node);
    for (int o = 0; o < node.rows; ++o, w += node.columns, out += width)
      for (int64_t s = 0; s < b.valid; ++s) out[s] = log_sum(w, in + s, stride, node.columns);
  }

  // The flow through edge (o, j) is gradient[o] exp(w[o, j] + in[j] - out[o]): adds it to the gradients of w and in.
  void flows(const Node& node, const double* in, int64_t stride, const double* out, const double* gradient,
             double* in_gradient) const {
    const double* w = weights(node);
    double* total = weight_gradient(node);
    for (int o = 0; o < node.rows; ++o, w += node.columns, total += node.columns, out += width, gradient += width)
      for (int64_t s = 0; s < b.valid; ++s) {
        if (gradient[s] == 0 || out[s] == minus_infinity) continue;
        for (int j = 0; j < node.columns; ++j) {
          double flow = gradient[s] * std::exp(w[j] + in[j * stride + s] - out[s]);
          total[j] += flow;
          in_gradient[j * stride + s] += flow;
        }
      }
  }

  // f(member, log share) for all of a sparse leaf that are not 0
  template <class F>
  void over_shares(const Node& node, int64_t s, const F& f) const {
    for (int64_t row = b.sparse_ptr[node.variable]; row < b.sparse_ptr[node.variable + 1]; ++row) {
      const int64_t at = row * b.row_length + b.first + s;
      if (b.shares[at] == 0) return;
      f(b.members[at], std::log(b.shares[at]));
    }
  }
  bool is_missing(const Node& node, int64_t s) const {
    return b.members[b.sparse_ptr[node.variable] * b.row_length + b.first + s] < 0;
  }
  double mixed(const Node& node, const double* w, int64_t s) const {
    double top = minus_infinity, total = 0;
    over_shares(node, s, [&](int member, double share) { top = std::max(top, w[member] + share); });
    if (top == minus_infinity) return top;
    over_shares(node, s, [&](int member, double share) { total += std::exp(w[member] + share - top); });
    return top + std::log(total);
  }
  void mix(const Node& node, double* out) const {
    const double* w = weights(node);
    for (int o = 0; o < node.rows; ++o, w += node.columns, out += width)
      for (int64_t s = 0; s < b.valid; ++s) out[s] = is_missing(node, s) ? 0 : mixed(node, w, s);
  }
  void mix_backward(const Node& node, const double* gradient) const {
    const double* w = weights(node);
    double* total = weight_gradient(node);
    for (int o = 0; o < node.rows; ++o, w += node.columns, total += node.columns, gradient += width)
      for (int64_t s = 0; s < b.valid; ++s) {
        if (gradient[s] == 0 || is_missing(node, s)) continue;
        const double out = mixed(node, w, s);
        if (out == minus_infinity) continue;
        over_shares(node, s, [&](int member, double share) {
          total[member] += gradient[s] * std::exp(w[member] + share - out);
        });
      }
  }

  void leaf_values(const Node& node, double* out) const {
    if (node.type == SPARSE) return mix(node, out);
    if (node.type == DENSE) return sums(node, b.dense + dense_offset(node), b.row_length, out);
    const double* w = weights(node);
    for (int o = 0; o < node.rows; ++o, w += node.columns, out += width)
      for (int64_t s = 0; s < b.valid; ++s) out[s] = code(node, s) < 0 ? 0 : w[code(node, s)];
  }

  void leaf_backward(const Node& node, const double* gradient) const {
    if (node.type == SPARSE) return mix_backward(node, gradient);
    if (node.type == DENSE) {
      leaf_values(node, leaf);
      const int64_t at = dense_offset(node);
      return flows(node, b.dense + at, b.row_length, leaf, gradient, b.dense_gradient + at);
    }
    double* total = weight_gradient(node);
    for (int o = 0; o < node.rows; ++o, total += node.columns, gradient += width)
      for (int64_t s = 0; s < b.valid; ++s)
        if (code(node, s) >= 0) total[code(node, s)] += gradient[s];
  }

  void multiply(const Node& node) const {
    std::fill(product, product + K * width, 0.0);
    for (int i = 0; i < node.children; ++i) {
      const Node& factor = child(node, i);
      if (factor.type != INNER) leaf_values(factor, leaf);
      const double* x = factor.type == INNER ? place(factor) : leaf;
      for (int64_t t = 0; t < K * width; ++t) product[t] += x[t];
    }
  }

  void node_forward(const Node& node) const {
    if (node.type != INNER) return leaf_values(node, place(node));
    multiply(node);
    sums(node, product, width, place(node));
  }

  void node_backward(const Node& node) const {
    if (node.type != INNER) return leaf_backward(node, b.gradients);
    multiply(node);
    std::fill(product_gradient, product_gradient + K * width, 0.0);
    flows(node, product, width, place(node), is_root(node) ? b.gradients : gradient(node), product_gradient);
    for (int i = 0; i < node.children; ++i) {
      const Node& factor = child(node, i);
      if (factor.type == INNER)
        std::copy(product_gradient, product_gradient + K * width, gradient(factor));
      else
        leaf_backward(factor, product_gradient);
    }
  }
};

void forward(const Block<double>& b, int64_t first, int64_t last) {
  for (int64_t u = first; u < last; ++u)
    if (b.nodes[u].type == INNER || u + 1 == b.node_count) Frame(b).node_forward(b.nodes[u]);
}

void backward(const Block<double>& b, int64_t first, int64_t last) {
  for (int64_t u = last - 1; u >= first; --u)
    if (b.nodes[u].type == INNER || u + 1 == b.node_count) Frame(b).node_backward(b.nodes[u]);
}

void values(const Block<double>& b, int, double* values, unsigned char* flagged) {
  std::copy_n(Frame(b).place(b.nodes[b.node_count - 1]), b.valid, values);
  std::fill_n(flagged, b.valid, 0);
}

void seed(const Block<double>& b, const double* seeds, const unsigned char*) {
  const double* root = Frame(b).place(b.nodes[b.node_count - 1]);
  for (int64_t s = 0; s < b.valid; ++s) b.gradients[s] = root[s] == minus_infinity ? 0 : seeds[s];
}

void finish(const Node& node, const double* weights, const double* gradient, double, bool as_flows, double* out,
            int64_t stride) {
  for (int o = 0; o < node.rows; ++o, weights += node.columns, gradient += node.columns, out += stride) {
    double total = 0;
    for (int j = 0; j < node.columns; ++j) total += out[j] = gradient[j];
    if (!as_flows)
      for (int j = 0; j < node.columns; ++j) out[j] -= std::exp(weights[j]) * total;
  }
}

}  // namespace

const Arithmetic<double> log_space = {
    1,           1,       8,        0,      as_it_is, scratch_size, normalize, nullptr, nullptr,
    likelihoods, forward, backward, values, seed,     finish,       nullptr,   nullptr,
};

}  // namespace hyperspn
