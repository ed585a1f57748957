// The children of an inner node, whatever they are: values in their places, look-ups, or leaves that are computed here.
#pragma once
#include "configurations.hpp"

namespace hyperspn {
namespace {

struct Children : Configurations {
  using Configurations::Configurations;

  bool is_lookup(const Node& node) const { return is_small(node) || has_configurations(node); }
  // Tables and index of a small leaf are made in the given buffers; those of configurations are moved there if their
  // place will be overwritten.
  Lookup lookup(const Node& node, V* table, I* codes, const V* overwritten = nullptr) const {
    if (node.type == INNER) {
      if (place(node) != overwritten) return {configuration_tables(node), configuration_index(node)};
      memcpy((void*)codes, (const void*)configuration_index(node), sizeof(V) * vectors);
      memcpy((void*)table, (const void*)configuration_tables(node), sizeof(V) * K);
    } else {
      read_codes(node, codes);
      make_tables(node, table);
    }
    return {table, codes};
  }

  // The node's values: its place, or computed into `buffer` for a leaf and for configurations.
  V* value(const Node& node, V* buffer) const {
    if (is_lookup(node)) {
      Lookup in = lookup(node, tables, index);
      for (int o = 0; o < node.rows; ++o)
        for (int v = 0; v < vectors; ++v) buffer[int64_t(o) * vectors + v] = in.at(o, v);
      return buffer;
    }
    if (node.type == INNER) return place(node);
    leaf_values(node, buffer);
    return buffer;
  }

  // The power of two that the node's values were multiplied with; configurations apply theirs later.
  const V* scale(const Node& node) const {
    return node.type == INNER && !has_configurations(node) ? scales(node) : ones;
  }

  // Where a node's gradient goes: `buffer` for a leaf.
  V* gradient_of(const Node& node, V* buffer) const { return node.type == INNER ? gradient_place(node) : buffer; }

  void add_losses(const Node& node) const {
    if (!b.risky || node.type != INNER) return;
    if (has_configurations(node)) {
      const V table = configuration_tables(node)[K + 1];
      for (int v = 0; v < vectors; ++v) lost[v] += permute(table, configuration_index(node)[v]);
    } else {
      for (int v = 0; v < vectors; ++v) lost[v] += losses(node)[v];
    }
  }

  // Calls f(a, b, node of a, node of b) with the values of two children; look-ups come second.
  template <class F>
  void with_pair(const Node& node, const F& f) const {
    const Node *first = &child(node, 0), *second = &child(node, 1);
    if constexpr (has_lookups) {
      if (is_lookup(*first)) std::swap(first, second);
      if (is_lookup(*first)) {
        Lookup x = lookup(*first, other_tables, other_index, place(node));
        return f(x, lookup(*second, tables, index, place(node)), *first, *second);
      }
      if (is_lookup(*second)) {
        Values x{value(*first, prefix), vectors};
        return f(x, lookup(*second, tables, index, place(node)), *first, *second);
      }
    }
    Values x{value(*first, prefix), vectors};
    f(x, Values{value(*second, leaf), vectors}, *first, *second);
  }

  // The product of two children.
  V* multiply_pair(const Node& node) const {
    with_pair(node, [&](auto x, auto y, auto&, auto&) {
      for (int j = 0; j < K; ++j)
        for (int v = 0; v < vectors; v += vector_multiple)
          repeat<vector_multiple>(
              [&](auto q) INLINE { product[int64_t(j) * vectors + v + q] = x.at(j, v + q) * y.at(j, v + q); });
    });
    return product;
  }

  static void multiply(const V* a, const V* b, int64_t count, V* out) {
    for (int64_t t = 0; t < count; t += vector_multiple)
      for (int q = 0; q < vector_multiple; ++q) out[t + q] = a[t + q] * b[t + q];
  }

  // The product of any number of children. Prefixes p_0, p_1, ... are rescaled by scale_down(p, factor, i); with a tape
  // they stay.
  template <class F>
  V* multiply_children(const Node& node, const F& scale_down) const {
    V* running = value(child(node, 0), prefix_at(0));
    for (int i = 1; i < node.children; ++i) {
      const V* x = value(child(node, i), leaf);
      bool last = i + 1 == node.children;
      V* out = last ? product : prefix_at(i);
      multiply(running, x, int64_t(K) * vectors, out);
      running = out;
      if (!last) scale_down(out, out + int64_t(K) * vectors, i);
    }
    return running;
  }
  V* multiply_children(const Node& node) const {
    add_losses(child(node, 0));
    V* result = multiply_children(node, [&](V* prefix, V* factor, int i) {
      add_losses(child(node, i));
      rescale_and_account(prefix, K, 2, factor);
    });
    if (node.children > 1) add_losses(child(node, node.children - 1));
    return result;
  }
  V* multiply_children_again(const Node& node) const {
    return multiply_children(node, [&](V* prefix, V* factor, int) { rescale_again(prefix, factor); });
  }
};

}  // namespace
}  // namespace hyperspn
