// The weights of a tree, or of a part of it: normalized from logits, and their gradients led back to these.
#pragma once
#include <cmath>

#include "bells.hpp"
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
      if (Real* plain = add ? nullptr : kind.template plain<Real>(node)) {
        arithmetic.finish(node, w, g, unit, as_flows, plain, kind.columns);
        continue;
      }
      make_room(node, copy);
      if (makes_bells(node)) {
        const int64_t half = copy.size / 2;
        write_bells(node, logits[node.kind], copy.get());
        arithmetic.finish_bells(node, kind.hats(), copy.get(), w, g, unit, as_flows, copy.get() + half);
        add_bell_gradients(node, logits[node.kind], copy.get() + half, kind);
        continue;
      }
      arithmetic.finish(node, w, g, unit, as_flows, copy.get(), node.columns);
      add_gradient(node, logits[node.kind], copy.get(), kind);
    }
  }

 private:
  const Arithmetic<Real>& arithmetic;
  const Node* first;
  const Logits<In>& logits;

  bool makes_bells(const Node& node) const { return arithmetic.normalize_bells && logits[node.kind].grid; }

  // For the logits of a node, or its bells and their gradients.
  void make_room(const Node& node, Buffer<Real>& copy) const {
    const int64_t rows = bell_stride(node.rows), columns = node.columns;
    const int64_t needed = makes_bells(node) ? 2 * rows * (3 + columns - logits[node.kind].hats()) : rows * columns;
    if (copy.size < needed) copy = Buffer<Real>(needed);
  }

  Real normalize_node(const Node& node, Buffer<Real>& copy, Real* out) const {
    const Sectors<const In>& kind = logits[node.kind];
    Real smallest;
    if (const Real* plain = kind.template plain<Real>(node)) {
      smallest = arithmetic.normalize(node, plain, kind.readable(node), kind.columns, out);
    } else if (make_room(node, copy); makes_bells(node)) {
      write_bells(node, kind, copy.get());
      smallest = arithmetic.normalize_bells(node, kind.hats(), copy.get(), out);
    } else {
      write_logits(node, kind, copy.get());
      smallest = arithmetic.normalize(node, copy.get(), int64_t(node.rows) * node.columns, node.columns, out);
    }
    if (smallest < 0)
      throw std::invalid_argument(
          "expected logits without NaN or +inf and with a finite one in every row, found otherwise in sector " +
          std::to_string(node.sector) + " of kind " + std::to_string(node.kind));
    return smallest;
  }
};

}  // namespace hyperspn
