// The weights of a tree, or of a part of it: normalized from logits, and their gradients led back to these.
#pragma once
#include <cmath>
#include <type_traits>

#include "batch.hpp"
#include "subnormals.hpp"
#include "tasks.hpp"

namespace hyperspn {

template <class Real, class In>
class Weights {
 public:
  Weights(const Arithmetic<Real>& arithmetic, const Program& program, const Tree& tree, Part part,
          const Logits<In>& logits)
      : nodes{part.first, std::min(part.last, tree.nodes)},
        begin(program.nodes[tree.first + nodes.first].weight),
        size((nodes.last < tree.nodes ? program.nodes[tree.first + nodes.last].weight : tree.weights) - begin),
        reaches_root(nodes.last == tree.nodes),
        arithmetic(arithmetic),
        first(program.nodes.data() + tree.first),
        logits(logits) {}

  const Part nodes;
  const int64_t begin, size;  // of the nodes' weights among those of the tree
  const bool reaches_root;

  // Where the weights of a node begin among those of the part.
  int64_t begin_of(int64_t u) const { return u < nodes.last ? first[u].weight - begin : size; }

  // Those of nodes of the part; returns the smallest.
  Real normalize(Part slice, Real* weights) const {
    Real smallest = 1;
    Buffer<Real> copy;
    RoundSubnormals here;
    for (int64_t u = slice.first; u < slice.last; ++u)
      smallest = std::min(smallest, normalize_node(first[u], copy, weights + (first[u].weight - begin)));
    return smallest;
  }

  // From the gradients of the weights to flows or the gradients of the logits, which are added to what is there unless
  // nothing is.
  void finish(Part slice, const Real* weights, const Real* gradient, Real unit, bool as_flows, bool add,
              const std::vector<Sectors<In>>& out) const {
    Buffer<Real> copy;
    for (int64_t u = slice.first; u < slice.last; ++u) {
      const Node& node = first[u];
      const Sectors<In>& kind = out[node.kind];
      const Real *w = weights + (node.weight - begin), *g = gradient + (node.weight - begin);
      if constexpr (std::is_same_v<Real, In>)
        if (!add) {
          arithmetic.finish(node, w, g, unit, as_flows, kind.at(node), kind.columns);
          continue;
        }
      grow(copy, node);
      arithmetic.finish(node, w, g, unit, as_flows, copy.get(), node.columns);
      for (int o = 0; o < node.rows; ++o)
        for (int j = 0; j < node.columns; ++j)
          kind.at(node)[o * kind.columns + j] += In(copy.get()[int64_t(o) * node.columns + j]);
    }
  }

 private:
  const Arithmetic<Real>& arithmetic;
  const Node* first;
  const Logits<In>& logits;

  static void grow(Buffer<Real>& copy, const Node& node) {
    const int64_t needed = int64_t(node.rows) * node.columns;
    if (copy.size < needed) copy = Buffer<Real>(needed);
  }

  Real normalize_node(const Node& node, Buffer<Real>& copy, Real* out) const {
    const Sectors<const In>& kind = logits[node.kind];
    Real smallest;
    if constexpr (std::is_same_v<Real, In>) {
      smallest = arithmetic.normalize(node, kind.at(node), kind.readable(node), kind.columns, out);
    } else {
      grow(copy, node);
      for (int o = 0; o < node.rows; ++o)
        std::copy_n(kind.at(node) + o * kind.columns, node.columns, copy.get() + int64_t(o) * node.columns);
      smallest = arithmetic.normalize(node, copy.get(), copy.size, node.columns, out);
    }
    if (smallest < 0)
      throw std::invalid_argument(
          "expected logits without NaN or +inf and with a finite one in every row, found otherwise in sector " +
          std::to_string(node.sector) + " of kind " + std::to_string(node.kind));
    return smallest;
  }
};

}  // namespace hyperspn
