// The slow and safe way: one sample at a time, in double precision and log space, with log-softmax weights.
#pragma once
#include <cmath>
#include <limits>
#include <vector>

#include "tree.hpp"

namespace hyperspn {

constexpr double minus_infinity = -std::numeric_limits<double>::infinity();

inline double log_sum_exp(const double* x, int count) {
  double top = minus_infinity;
  for (int i = 0; i < count; ++i) top = std::max(top, x[i]);
  if (top == minus_infinity) return top;
  double total = 0;
  for (int i = 0; i < count; ++i) total += std::exp(x[i] - top);
  return top + std::log(total);
}

// logits (row stride given) -> log of the normalised weights, rows x columns
template <class Real> void log_normalise(const Real* logits, int64_t stride, int rows, int columns, double* out) {
  for (int o = 0; o < rows; ++o, logits += stride, out += columns) {
    for (int j = 0; j < columns; ++j) out[j] = logits[j];
    double total = log_sum_exp(out, columns);
    for (int j = 0; j < columns; ++j) out[j] -= total;
  }
}

// The data of one sample.
template <class Real> struct Sample {
  const void* codes;
  int code_bytes;
  const Real* dense;
  int64_t samples, index;

  int code(int variable) const {
    int64_t at = variable * samples + index;
    if (code_bytes == 1) return static_cast<const int8_t*>(codes)[at];
    if (code_bytes == 2) return static_cast<const int16_t*>(codes)[at];
    return static_cast<const int32_t*>(codes)[at];
  }
};

// Evaluates nodes of one tree. `values` and `flows` have K numbers per place (tape) or slot.
template <class Real> class LogTree {
 public:
  // For the nodes whose weights lie in [begin, end) of the tree's.
  LogTree(const Program& program, const Tree& tree, bool tape, int64_t begin, int64_t end)
      : program(program), tree(tree), nodes(program.nodes.data() + tree.first), K(program.rows), tape(tape),
        leaf(K), product(K), terms(std::max(program.max_columns, K)), weights(end - begin), log_weights(weights.data() - begin) {}

  template <class Rows> void normalise(const Node& node, const Rows& logits) {
    log_normalise(logits.at(node), logits.columns, node.rows, node.columns, log_weights + node.weight);
  }

  int64_t values_size() const { return int64_t(tape ? tree.places : tree.slots) * K; }

  void forward(const Sample<Real>& sample, double* values, int64_t first, int64_t last) {
    for (int64_t u = first; u < last; ++u) {
      const Node& node = nodes[u];
      bool root = u + 1 == tree.nodes;
      if (node.type == INNER) {
        multiply(sample, node, values);
        for (int o = 0; o < node.rows; ++o) {
          const double* w = log_weights + node.weight + int64_t(o) * K;
          for (int j = 0; j < K; ++j) terms[j] = w[j] + product[j];
          place(node, values)[o] = log_sum_exp(terms.data(), K);
        }
      } else if (root) {
        place(node, values)[0] = leaf_values(sample, node)[0];
      }
    }
  }

  double root_value(const double* values) const {
    return values[int64_t(tape ? nodes[tree.nodes - 1].place : nodes[tree.nodes - 1].slot) * K];
  }
  double* root_flow(double* flows) const { return flows + int64_t(nodes[tree.nodes - 1].place) * K; }

  // flows[place][o] = dLoss/dlog out[o]; adds F[o, j] = W dLoss/dW to weight_flows, and to dense_gradient.
  void backward(const Sample<Real>& sample, double* values, double* flows, int64_t first, int64_t last, double* weight_flows, Real* dense_gradient) {
    for (int64_t u = last - 1; u >= first; --u) {
      const Node& node = nodes[u];
      if (node.type == INNER)
        inner_backward(sample, node, values, flows, weight_flows, dense_gradient);
      else if (u + 1 == tree.nodes)
        leaf_backward(sample, node, place(node, flows), weight_flows, dense_gradient);
    }
  }

 private:
  const Program& program;
  const Tree& tree;
  const Node* nodes;
  const int K;
  const bool tape;
  std::vector<double> leaf, product, terms, weights;
  double* log_weights;  // at Node::weight

  double* place(const Node& node, double* values) const { return values + int64_t(tape ? node.place : node.slot) * K; }

  const double* leaf_values(const Sample<Real>& sample, const Node& node) {
    const double* w = log_weights + node.weight;
    for (int o = 0; o < node.rows; ++o, w += node.columns) {
      if (node.type == CATEGORICAL) {
        int code = sample.code(node.variable);
        leaf[o] = code < 0 ? 0.0 : w[code];
      } else {
        for (int j = 0; j < node.columns; ++j) terms[j] = w[j] + std::log(double(*likelihood(sample, node, j, sample.dense)));
        leaf[o] = log_sum_exp(terms.data(), node.columns);
      }
    }
    return leaf.data();
  }

  template <class Pointer> Pointer likelihood(const Sample<Real>& sample, const Node& node, int j, Pointer dense) const {
    return dense + (program.dense_ptr[node.variable] + j) * sample.samples + sample.index;
  }

  void multiply(const Sample<Real>& sample, const Node& node, double* values) {
    std::fill(product.begin(), product.end(), 0.0);
    for (int i = 0; i < node.children; ++i) {
      const Node& child = nodes[program.children[node.first_child + i]];
      const double* x = child.type == INNER ? place(child, values) : leaf_values(sample, child);
      for (int j = 0; j < K; ++j) product[j] += x[j];
    }
  }

  void inner_backward(const Sample<Real>& sample, const Node& node, double* values, double* flows, double* weight_flows, Real* dense_gradient) {
    multiply(sample, node, values);
    std::vector<double> flow(K, 0.0);
    for (int o = 0; o < node.rows; ++o) {
      double g = place(node, flows)[o], out = place(node, values)[o];
      if (g == 0 || out == minus_infinity) continue;
      int64_t row = node.weight + int64_t(o) * K;
      for (int j = 0; j < K; ++j) {
        double f = g * std::exp(log_weights[row + j] + product[j] - out);
        weight_flows[row + j] += f;
        flow[j] += f;
      }
    }
    for (int i = 0; i < node.children; ++i) {
      const Node& child = nodes[program.children[node.first_child + i]];
      if (child.type == INNER)
        std::copy(flow.begin(), flow.end(), place(child, flows));
      else
        leaf_backward(sample, child, flow.data(), weight_flows, dense_gradient);
    }
  }

  void leaf_backward(const Sample<Real>& sample, const Node& node, const double* flow, double* weight_flows, Real* dense_gradient) {
    if (node.type == CATEGORICAL) {
      int code = sample.code(node.variable);
      if (code >= 0)
        for (int o = 0; o < node.rows; ++o) weight_flows[node.weight + int64_t(o) * node.columns + code] += flow[o];
      return;
    }
    leaf_values(sample, node);
    for (int o = 0; o < node.rows; ++o) {
      if (flow[o] == 0 || leaf[o] == minus_infinity) continue;
      int64_t row = node.weight + int64_t(o) * node.columns;
      for (int j = 0; j < node.columns; ++j) {
        double f = flow[o] * std::exp(log_weights[row + j] + std::log(double(*likelihood(sample, node, j, sample.dense))) - leaf[o]);
        weight_flows[row + j] += f;
        *likelihood(sample, node, j, dense_gradient) += Real(f);
      }
    }
  }
};

}  // namespace hyperspn
