// The program of a forest of trees: plain integer arrays, checked once.
#pragma once
#include <algorithm>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

#include "arithmetic.hpp"

namespace hyperspn {

[[noreturn]] inline void fail(const std::string& expected, long long found) {
  throw std::invalid_argument("expected " + expected + ", found " + std::to_string(found));
}
#define EXPECT(holds, expected, found)   \
  do {                                   \
    if (!(holds)) fail(expected, found); \
  } while (false)

struct IntegerArrays {
  std::vector<int32_t> tree_ptr, type, variable, size, kind, sector, child_ptr, children, slot, dense_ptr;
};

// Places at equal steps, at which the first distributions of leaves stand. Sectors of a kind with a grid hold bells
// instead of logits; `starts` is where those of each row begin.
struct Grid {
  double first = 0, step = 0;
  int count = 0;
  std::vector<double> starts;
};

struct Tree {
  int64_t first = 0, nodes = 0;  // range in Program::nodes
  int slots = 0, places = 0;     // forward-only store and tape, both with the root
  int gradient_slots = 0;
  int leaves = 0;
  int64_t weights = 0;  // length of the tree's weights, every node padded
  int64_t cost = 0;
};

class Program {
 public:
  Program(IntegerArrays arrays, int rows, int variables, int sparse, std::vector<Grid> grids_of_kinds)
      : rows(rows), grids(std::move(grids_of_kinds)) {
    EXPECT(rows >= 1, "rows >= 1", rows);
    for (const Grid& grid : grids)
      EXPECT(grid.count == 0 || (grid.count >= 2 && grid.step > 0 && int(grid.starts.size()) == rows),
             "grids of at least 2 places at steps > 0, with a start for each row", grid.count);
    EXPECT(variables >= 0, "variables >= 0", variables);
    EXPECT(sparse >= 0, "sparse variables >= 0", sparse);
    children = std::move(arrays.children);
    dense_ptr = std::move(arrays.dense_ptr);
    categories.assign(variables, 0);
    sparse_columns.assign(sparse, 0);
    check_pointers(dense_ptr, "dense_ptr");
    check_pointers(arrays.tree_ptr, "tree_ptr");
    check_pointers(arrays.child_ptr, "child_ptr");
    check_lengths(arrays);
    read_nodes(arrays);
    for (size_t t = 0; t + 1 < arrays.tree_ptr.size(); ++t) add_tree(arrays.tree_ptr[t], arrays.tree_ptr[t + 1]);
    check_sectors();
  }

  int rows;
  std::vector<Grid> grids;                // per kind; without places where sectors hold logits
  int max_children = 1, max_columns = 1;  // max_columns of dense leaves
  int largest_leaf = 1;                   // columns of leaves; dense ones count as the largest there can be
  std::vector<Tree> trees;
  std::vector<Node> nodes;
  std::vector<int32_t> children, dense_ptr, categories, sparse_columns;

  int64_t dense_rows() const { return dense_ptr.back(); }

  static void check_pointers(const std::vector<int32_t>& pointers, const std::string& name) {
    EXPECT(!pointers.empty(), name + " with at least one entry", 0);
    EXPECT(pointers[0] == 0, name + "[0] = 0", pointers[0]);
    for (size_t i = 1; i < pointers.size(); ++i)
      EXPECT(pointers[i] >= pointers[i - 1], name + " that never decreases", pointers[i]);
  }

 private:
  static constexpr int64_t padding = 16;  // a vector has at most so many numbers

  static int64_t whole(int64_t count) { return (count + padding - 1) / padding * padding; }
  // In wide layers rows are padded.
  int64_t room_for_weights(const Node& node) const {
    return rows < narrowest_wide ? whole(int64_t(node.rows) * node.columns) : whole(node.rows) * node.columns;
  }

  void check_lengths(const IntegerArrays& a) const {
    size_t count = a.tree_ptr.back();
    for (auto* array : {&a.type, &a.variable, &a.size, &a.kind, &a.sector, &a.slot})
      EXPECT(array->size() == count, "one entry per node (" + std::to_string(count) + ")", array->size());
    EXPECT(a.child_ptr.size() == count + 1, "child_ptr of length nodes + 1", a.child_ptr.size());
    EXPECT(children.size() == size_t(a.child_ptr.back()), "children of length child_ptr[-1]", children.size());
  }

  void read_nodes(const IntegerArrays& a) {
    nodes.resize(a.type.size());
    for (size_t u = 0; u < nodes.size(); ++u) {
      Node& node = nodes[u];
      node.type = a.type[u], node.variable = a.variable[u], node.columns = a.size[u];
      node.kind = a.kind[u], node.sector = a.sector[u], node.slot = a.slot[u];
      node.first_child = a.child_ptr[u], node.children = a.child_ptr[u + 1] - a.child_ptr[u];
      node.rows = rows;
      check_node(node);
    }
  }

  void check_node(Node& node) {
    EXPECT(node.kind >= 0 && node.kind < int(grids.size()), "a sector kind below " + std::to_string(grids.size()),
           node.kind);
    EXPECT(node.sector >= 0, "a sector index >= 0", node.sector);
    max_children = std::max(max_children, node.children);
    if (node.type == INNER) {
      EXPECT(node.children >= 1, "an inner node with children", node.children);
      node.columns = rows;
      return;
    }
    EXPECT(node.type == CATEGORICAL || node.type == DENSE || node.type == SPARSE, "node type 0, 1, 2 or 3", node.type);
    EXPECT(node.children == 0, "a leaf without children", node.children);
    EXPECT(node.columns >= 1, "a leaf with columns", node.columns);
    largest_leaf = std::max(largest_leaf, node.type == DENSE ? INT32_MAX : node.columns);
    if (node.type != DENSE) {
      std::vector<int32_t>& columns = node.type == CATEGORICAL ? categories : sparse_columns;
      EXPECT(node.variable >= 0 && node.variable < int(columns.size()),
             "a variable below " + std::to_string(columns.size()), node.variable);
      int& known = columns[node.variable];
      EXPECT(known == 0 || known == node.columns,
             std::to_string(known) + " columns for variable " + std::to_string(node.variable), node.columns);
      known = node.columns;
    } else {
      int count = int(dense_ptr.size()) - 1;
      EXPECT(node.variable >= 0 && node.variable < count, "a dense variable below " + std::to_string(count),
             node.variable);
      int columns = dense_ptr[node.variable + 1] - dense_ptr[node.variable];
      EXPECT(node.columns == columns, std::to_string(columns) + " columns (dense_ptr)", node.columns);
      max_columns = std::max(max_columns, columns);
    }
  }

  void add_tree(int64_t first, int64_t last) {
    EXPECT(last > first, "a tree with nodes", last - first);
    Tree tree;
    tree.first = first, tree.nodes = last - first;
    nodes[last - 1].rows = 1;
    std::vector<int32_t> parent(tree.nodes, -1);
    std::vector<int32_t> owner;  // slot -> node whose value it holds, or -1
    for (int64_t u = 0; u < tree.nodes; ++u) {
      Node& node = nodes[first + u];
      bool root = u + 1 == tree.nodes;
      node.weight = tree.weights;
      tree.weights += room_for_weights(node);
      tree.cost += 40 + 8 * int64_t(rows) * (1 + node.children) + int64_t(node.rows) * node.columns;
      tree.leaves += node.type != INNER;
      node.place = node.type == INNER || root ? tree.places++ : -1;
      consume_children(node, first, u, parent, owner);
      if (node.type == INNER && !root) occupy_slot(node, u, owner);
    }
    for (int64_t u = 0; u + 1 < tree.nodes; ++u)
      EXPECT(parent[u] >= 0,
             "a parent for every node but the root: node " + std::to_string(u) + " of tree " +
                 std::to_string(trees.size()),
             parent[u]);
    assign_gradient_slots(tree);
    tree.slots = int(owner.size()) + 1;
    nodes[last - 1].slot = int(owner.size());
    trees.push_back(tree);
  }

  // A gradient lives from the parent's turn in the backward pass to the end of the node's own.
  void assign_gradient_slots(Tree& tree) {
    std::vector<int32_t> free;
    nodes[tree.first + tree.nodes - 1].gradient_slot = 0;
    tree.gradient_slots = 1;
    for (int64_t u = tree.nodes - 1; u >= 0; --u) {
      const Node& node = nodes[tree.first + u];
      for (int i = 0; i < node.children; ++i) {
        Node& child = nodes[tree.first + children[node.first_child + i]];
        if (child.type != INNER) continue;
        if (free.empty()) free.push_back(tree.gradient_slots++);
        child.gradient_slot = free.back();
        free.pop_back();
      }
      if (node.type == INNER) free.push_back(node.gradient_slot);
    }
  }

  void consume_children(const Node& node, int64_t first, int64_t u, std::vector<int32_t>& parent,
                        std::vector<int32_t>& owner) const {
    for (int i = 0; i < node.children; ++i) {
      int32_t child = children[node.first_child + i];
      EXPECT(child >= 0 && child < u, "children before node " + std::to_string(u), child);
      EXPECT(parent[child] < 0, "one parent for node " + std::to_string(child), parent[child]);
      parent[child] = int32_t(u);
      const Node& other = nodes[first + child];
      if (other.type != INNER) continue;
      EXPECT(owner[other.slot] == child,
             "slot " + std::to_string(other.slot) + " to hold node " + std::to_string(child), owner[other.slot]);
      owner[other.slot] = -1;
    }
  }

  static void occupy_slot(const Node& node, int64_t u, std::vector<int32_t>& owner) {
    EXPECT(node.slot >= 0 && node.slot <= u, "a slot from 0 to the node's own index", node.slot);
    if (node.slot >= int(owner.size())) owner.resize(node.slot + 1, -1);
    EXPECT(owner[node.slot] < 0, "a free slot for node " + std::to_string(u), node.slot);
    owner[node.slot] = int32_t(u);
  }

  void check_sectors() const {
    std::vector<std::pair<int32_t, int32_t>> used;
    for (const Node& node : nodes) used.emplace_back(node.kind, node.sector);
    std::sort(used.begin(), used.end());
    auto twice = std::adjacent_find(used.begin(), used.end());
    if (twice != used.end()) fail("every sector used by one node: kind " + std::to_string(twice->first), twice->second);
  }
};

}  // namespace hyperspn
