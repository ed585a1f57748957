// Whole trees and parts of trees: blocks of samples, threads, and the samples that linear space is too small for.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <type_traits>
#include <vector>

#ifdef HYPERSPN_X86
#include <immintrin.h>
#endif

#include "kernel.hpp"
#include "log_space.hpp"
#include "threads.hpp"
#include "tree.hpp"

namespace hyperspn {

template <class Real> const Functions<Real>& functions();  // of the instruction set in use

// While it lives, this thread rounds subnormal numbers to zero: logits (which decay) and gradients that small do not
// count, and would be slow.
class RoundSubnormals {
#ifdef HYPERSPN_X86
 public:
  static constexpr unsigned both_ways = 0x8040;  // as results and as arguments
  RoundSubnormals() { _mm_setcsr(mode | both_ways); }
  ~RoundSubnormals() { _mm_setcsr(mode); }

 private:
  const unsigned mode = _mm_getcsr();
#endif
};

// From now on, the threads round subnormal numbers to zero or not; returns whether this one did.
inline bool round_subnormals(bool on, int threads) {
#ifdef HYPERSPN_X86
  constexpr unsigned both_ways = RoundSubnormals::both_ways;
  const bool before = (_mm_getcsr() & both_ways) == both_ways;
  run_threads(threads, [&](int) { _mm_setcsr(on ? _mm_getcsr() | both_ways : _mm_getcsr() & ~both_ways); });
  return before;
#else
  return false;
#endif
}

// Uninitialised memory, aligned for vectors.
template <class T> class Buffer {
 public:
  explicit Buffer(int64_t size = 0) : size(size) {
    if (size == 0) return;
    data.reset(static_cast<T*>(std::aligned_alloc(64, (size * sizeof(T) + 63) / 64 * 64)));
    if (!data) throw std::bad_alloc();
  }
  T* get() const { return data.get(); }
  void fill(T x) { std::fill(data.get(), data.get() + size, x); }
  int64_t size;

 private:
  struct Free { void operator()(T* p) const { std::free(p); } };
  std::unique_ptr<T, Free> data;
};

// One kind of sectors: (count, rows, columns), sector `base` first.
template <class Real> struct Sectors {
  Real* data;
  int64_t count, rows, columns, base;
  Real* at(const Node& node) const { return data + (node.sector - base) * rows * columns; }
  int64_t readable(const Node& node) const { return (count - (node.sector - base)) * rows * columns; }
};

template <class Real> void check_sectors(const Node& node, const std::vector<Sectors<const Real>>& logits) {
  const auto& kind = logits[node.kind];
  EXPECT(node.sector >= kind.base && node.sector - kind.base < kind.count,
         "a sector of kind " + std::to_string(node.kind) + " from " + std::to_string(kind.base) + " to " + std::to_string(kind.base + kind.count - 1), node.sector);
  EXPECT(node.rows <= kind.rows && node.columns <= kind.columns,
         "logits of kind " + std::to_string(node.kind) + " with at least " + std::to_string(node.rows) + " rows and " + std::to_string(node.columns) + " columns, rows x columns", kind.rows * kind.columns);
}

template <class Real> struct Data {
  const void* codes;   // (variables, samples)
  int code_bytes;
  const Real* dense;   // (dense rows, samples)
  int64_t samples;
  std::vector<unsigned char> missing;  // per variable: whether any code is -1
};

// How the samples are cut into blocks.
struct Blocks {
  int vectors = 0;
  int64_t width = 0, count = 0;

  // `places` live at once; at least `wanted` blocks if there are enough samples. The values of a node and its children should fit into the
  // nearest caches, those of all places into the level-2 cache; but sums over few vectors do not pay.
  Blocks(int64_t samples, int lanes, int multiple, int64_t vector_bytes, int rows, int places, int64_t wanted) {
    const int64_t near = 80 << 10, far = 1600 << 10, fewest = 8;
    int64_t total = std::max<int64_t>(1, (samples + lanes - 1) / lanes), row_bytes = place_rows(rows) * vector_bytes;
    int64_t most = std::max(std::min(near / (4 * row_bytes), far / (places * row_bytes)), fewest);
    most = std::min(most, (total + wanted - 1) / wanted);
    most = std::max<int64_t>(most / multiple, 1) * multiple;
    int64_t blocks = (total + most - 1) / most;
    vectors = int(((total + blocks - 1) / blocks + multiple - 1) / multiple * multiple);
    width = int64_t(vectors) * lanes;
    count = (samples + width - 1) / width;
  }
};

// The memory of one block: values (tape or slots), scale accumulators, scratch.
template <class Real> struct Workspace {
  using Integer = typename Format<Real>::Integer;
  Buffer<Real> places, gradients, scratch;
  Buffer<Integer> exponent;

  static int64_t places_size(const Program& program, int places, const Blocks& blocks) { return places * place_rows(program.rows) * blocks.width; }

  Workspace(const Program& program, int places, int gradient_slots, const Blocks& blocks)
      : places(places_size(program, places, blocks)), gradients(int64_t(gradient_slots) * program.rows * blocks.width),
        scratch(scratch_rows(program.rows, program.max_children, program.max_columns) * blocks.width),
        exponent(blocks.width) {}
};

template <class Real> Block<Real> make_block(const Program& program, const Tree& tree, const Data<Real>& data, const Blocks& blocks, int64_t block, bool tape) {
  Block<Real> b{};
  b.nodes = program.nodes.data() + tree.first;
  b.node_count = tree.nodes;
  b.children = program.children.data();
  b.rows = program.rows, b.vectors = blocks.vectors, b.max_columns = program.max_columns;
  b.codes = data.codes, b.code_bytes = data.code_bytes, b.missing = data.missing.data(), b.dense = data.dense, b.dense_ptr = program.dense_ptr.data();
  b.samples = data.samples, b.first = block * blocks.width, b.valid = std::min(blocks.width, data.samples - b.first);
  b.tape = tape;
  return b;
}

// Normalised weights of one node; returns the smallest.
template <class Real> Real normalise_node(const Node& node, const std::vector<Sectors<const Real>>& logits, Real* weights) {
  const auto& kind = logits[node.kind];
  RoundSubnormals here;
  Real smallest = functions<Real>().normalise(kind.at(node), kind.readable(node), kind.columns, node.rows, node.columns, weights);
  if (smallest < 0)
    throw std::invalid_argument("expected logits without NaN or +inf and with a finite one in every row, found otherwise in sector " + std::to_string(node.sector) + " of kind " + std::to_string(node.kind));
  return smallest;
}

template <class Real> void log_normalise_nodes(const Node* nodes, int64_t first, int64_t last, const std::vector<Sectors<const Real>>& logits, LogTree<Real>& tree) {
  for (int64_t u = first; u < last; ++u) tree.normalise(nodes[u], logits[nodes[u].kind]);
}

template <class Real> Real gradient_factor(const Node& node) {
  return Real(std::ldexp(1.0, (node.type == CATEGORICAL ? Format<Real>::unit : 0) - Format<Real>::seed));
}

// A call on trees [first, last) of the program.
template <class Real> class Forest {
 public:
  Forest(const Program& program, std::vector<Sectors<const Real>> logits, Data<Real> data, int64_t first, int64_t last, int threads)
      : program(program), logits(std::move(logits)), data(data), first(first), last(last), threads(threads) {
    for (int64_t u = first_node(); u < last_node(); ++u) check_sectors(program.nodes[u], this->logits);
  }

  // out (trees, samples)
  void forward(Real* out) {
    if (first == last || data.samples == 0) return;
    cut_into_blocks(most_slots());
    run_threads(threads, [&](int thread) {
      Workspace<Real> workspace(program, most_slots(), 0, blocks);
      Buffer<Real> weights(most_weights() + weight_slack);
      std::vector<unsigned char> flagged(blocks.width);
      visit(thread, [&](int64_t t, int64_t begin, int64_t end) {
        bool risky = normalise(t, weights.get());
        std::vector<int64_t> too_small;
        for (int64_t k = begin; k < end; ++k) {
          Block<Real> b = block(t, k, false, risky, weights.get(), workspace);
          evaluate(b, t, out + t * data.samples + b.first, flagged.data());
          for (int64_t s = 0; s < b.valid; ++s)
            if (flagged[s]) too_small.push_back(b.first + s);
        }
        if (!too_small.empty()) exact_forward(t, too_small, out + t * data.samples);
      });
    });
  }

  // seed (trees, samples); gradients like logits, zero where no node is; dense_gradient like dense, zero
  void backward(const Real* seed, const std::vector<Sectors<Real>>& gradients, Real* dense_gradient, bool as_flows) {
    if (first == last || data.samples == 0) return;
    cut_into_blocks(most_places());
    std::vector<std::vector<Partial>> partials(threads);
    std::vector<std::vector<Exact>> exact(threads);
    std::vector<std::vector<Real>> dense_parts(threads);
    run_threads(threads, [&](int thread) {
      Workspace<Real> workspace(program, most_places(), most_gradient_slots(), blocks);
      if (thread > 0) dense_parts[thread].assign(program.dense_rows() * data.samples, Real(0));
      Real* dense = thread > 0 ? dense_parts[thread].data() : dense_gradient;
      Buffer<Real> weights(most_weights() + weight_slack), gradient(most_weights());
      visit(thread, [&](int64_t t, int64_t begin, int64_t end) {
        std::vector<double> flows;
        std::vector<int64_t> too_small;
        tree_backward(t, begin, end, seed + t * data.samples, weights.get(), workspace, gradient, dense, too_small);
        if (!too_small.empty()) exact_backward(t, too_small, seed + t * data.samples, as_flows, flows, dense, exact[thread]);
        if (end - begin == blocks.count) {
          for (int64_t u = tree(t).first; u < tree(t).first + tree(t).nodes; ++u) finish(program.nodes[u], weights.get() + program.nodes[u].weight, gradient, flows, as_flows, gradients);
        } else {
          partials[thread].push_back({t, std::move(gradient), std::move(flows)});
          gradient = Buffer<Real>(most_weights());
        }
      });
    });
    for (auto& part : dense_parts)
      for (size_t i = 0; i < part.size(); ++i) dense_gradient[i] += part[i];
    for (auto& partial : combine(partials)) finish_shared(partial, as_flows, gradients);
    for (auto& of_thread : exact)
      for (auto& part : of_thread) part.add_to(program, tree(part.tree), gradients);
  }

 private:
  // Some samples of one tree in double precision.
  struct Exact {
    int64_t tree;
    std::vector<std::vector<double>> logits, gradients;  // per kind: sectors from the tree's first to its last
    std::vector<Sectors<double>> sectors;                // of the gradients
    std::vector<char> codes;
    std::vector<double> dense, dense_gradient;
    Data<double> data{};

    Exact(const Forest& forest, int64_t t, const std::vector<int64_t>& samples) : tree(t) {
      const Program& program = forest.program;
      for (size_t q = 0; q < forest.logits.size(); ++q) copy_sectors(program, forest.tree(t), forest.logits[q], int(q));
      const Data<Real>& all = forest.data;
      const int64_t variables = int64_t(program.categories.size());
      codes.resize(variables * samples.size() * all.code_bytes);
      if (all.code_bytes == 1) select((const int8_t*)all.codes, variables, all.samples, samples, (int8_t*)codes.data());
      else if (all.code_bytes == 2) select((const int16_t*)all.codes, variables, all.samples, samples, (int16_t*)codes.data());
      else select((const int32_t*)all.codes, variables, all.samples, samples, (int32_t*)codes.data());
      dense.resize(program.dense_rows() * samples.size());
      select(all.dense, program.dense_rows(), all.samples, samples, dense.data());
      data = {codes.data(), all.code_bytes, dense.data(), int64_t(samples.size()), all.missing};
    }

    // The given columns of a table of rows of that length.
    template <class In, class Out> static void select(const In* row, int64_t rows, int64_t length, const std::vector<int64_t>& columns, Out* out) {
      for (int64_t i = 0; i < rows; ++i, row += length)
        for (int64_t column : columns) *out++ = row[column];
    }

    void copy_sectors(const Program& program, const Tree& own, const Sectors<const Real>& kind, int q) {
      int64_t low = kind.base + kind.count, high = kind.base;
      for (int64_t u = own.first; u < own.first + own.nodes; ++u)
        if (program.nodes[u].kind == q) low = std::min<int64_t>(low, program.nodes[u].sector), high = std::max<int64_t>(high, program.nodes[u].sector + 1);
      high = std::max(low, high);
      const Real* start = kind.data + (low - kind.base) * kind.rows * kind.columns;
      logits.emplace_back(start, start + (high - low) * kind.rows * kind.columns);
      gradients.emplace_back(logits.back().size());
      sectors.push_back({gradients.back().data(), high - low, kind.rows, kind.columns, low});
    }

    Forest<double> forest(const Program& program, int64_t first) const {
      std::vector<Sectors<const double>> kinds;
      for (size_t q = 0; q < logits.size(); ++q) kinds.push_back({logits[q].data(), sectors[q].count, sectors[q].rows, sectors[q].columns, sectors[q].base});
      return Forest<double>(program, std::move(kinds), data, first + tree, first + tree + 1, 1);
    }

    void add_to(const Program& program, const Tree& own, const std::vector<Sectors<Real>>& total) const {
      for (int64_t u = own.first; u < own.first + own.nodes; ++u) {
        const Node& node = program.nodes[u];
        const auto& kind = sectors[node.kind];
        for (int64_t i = 0; i < kind.rows * kind.columns; ++i) total[node.kind].at(node)[i] += Real(kind.at(node)[i]);
      }
    }
  };

  struct Partial {  // the contribution of some blocks to the weights of a tree
    int64_t tree;
    Buffer<Real> gradient;
    std::vector<double> flows;
  };

  const Program& program;
  std::vector<Sectors<const Real>> logits;
  Data<Real> data;
  int64_t first, last;
  int threads;
  Blocks blocks{0, 1, 1, 1, 1, 1, 1};
  const Functions<Real>& kernel = functions<Real>();

  const Tree& tree(int64_t t) const { return program.trees[first + t]; }
  int64_t first_node() const { return first < last ? program.trees[first].first : 0; }
  int64_t last_node() const { return first < last ? program.trees[last - 1].first + program.trees[last - 1].nodes : 0; }
  template <class F> int64_t most(F&& f) const {
    int64_t result = 0;
    for (int64_t t = 0; t < last - first; ++t) result = std::max<int64_t>(result, f(tree(t)));
    return result;
  }
  int most_slots() const { return int(most([](const Tree& t) { return t.slots; })); }
  int most_places() const { return int(most([](const Tree& t) { return t.places; })); }
  int most_gradient_slots() const { return int(most([](const Tree& t) { return t.gradient_slots; })); }
  int64_t most_weights() const { return most([](const Tree& t) { return t.weights; }); }

  void cut_into_blocks(int places) {
    int64_t wanted = (threads + (last - first) - 1) / (last - first);
    blocks = Blocks(data.samples, kernel.lanes, kernel.vector_multiple, kernel.lanes * sizeof(Real), program.rows, places, wanted);
  }

  // Normalised weights of a tree; returns whether values may be too small for Real.
  bool normalise(int64_t t, Real* weights) const {
    Real smallest = 1;
    for (int64_t u = tree(t).first; u < tree(t).first + tree(t).nodes; ++u) smallest = std::min(smallest, normalise_node(program.nodes[u], logits, weights + program.nodes[u].weight));
    return program.max_children > 2 || smallest < Real(std::ldexp(1.0, Format<Real>::tame));
  }

  // Calls f(tree, first block, last block) for the thread's share of all (tree, block).
  template <class F> void visit(int thread, F&& f) const {
    int64_t total = 0;
    for (int64_t t = 0; t < last - first; ++t) total += tree(t).cost * blocks.count;
    int64_t low = total * thread / threads, high = total * (thread + 1) / threads, before = 0;
    for (int64_t t = 0; t < last - first; ++t) {
      int64_t cost = tree(t).cost;
      auto to_block = [&](int64_t target) { return std::clamp<int64_t>((target - before + cost / 2) / cost, 0, blocks.count); };
      int64_t begin = to_block(low), end = to_block(high);
      if (begin < end) f(t, begin, end);
      before += cost * blocks.count;
    }
  }

  Block<Real> block(int64_t t, int64_t k, bool tape, bool risky, const Real* weights, Workspace<Real>& workspace) const {
    Block<Real> b = make_block(program, tree(t), data, blocks, k, tape);
    b.risky = risky;
    b.weights = weights;
    b.places = workspace.places.get(), b.gradients = workspace.gradients.get(), b.scratch = workspace.scratch.get();
    b.exponent = workspace.exponent.get();
    workspace.exponent.fill(0);
    return b;
  }

  void evaluate(const Block<Real>& b, int64_t t, Real* values, unsigned char* flagged) const {
    kernel.forward(b, 0, b.node_count);
    kernel.values(b, tree(t).leaves, values, flagged);
  }

  void tree_backward(int64_t t, int64_t begin, int64_t end, const Real* seed, Real* weights, Workspace<Real>& workspace, Buffer<Real>& gradient, Real* dense_gradient, std::vector<int64_t>& too_small) const {
    std::vector<unsigned char> flagged(blocks.width);
    std::vector<Real> values(blocks.width);
    gradient.fill(0);
    bool risky = normalise(t, weights);
    for (int64_t k = begin; k < end; ++k) {
      Block<Real> b = block(t, k, true, risky, weights, workspace);
      b.weight_gradient = gradient.get(), b.dense_gradient = dense_gradient;
      evaluate(b, t, values.data(), flagged.data());
      kernel.seed(b, seed + b.first, flagged.data());
      {
        RoundSubnormals here;
        kernel.backward(b, 0, b.node_count);
      }
      for (int64_t s = b.first; s < b.first + b.valid; ++s)
        if (flagged[s - b.first] && seed[s] != 0) too_small.push_back(s);
    }
  }

  // Samples whose values are too small for linear space: float goes on in double, double in log space.
  void exact_forward(int64_t t, const std::vector<int64_t>& samples, Real* out) const {
    if constexpr (std::is_same_v<Real, double>) {
      std::unique_ptr<LogTree<Real>> log_tree;
      for (int64_t s : samples) out[s] = log_value(log_tree, t, s);
    } else {
      std::vector<double> values(samples.size());
      Exact exact(*this, t, samples);
      exact.forest(program, first).forward(values.data());
      for (size_t i = 0; i < samples.size(); ++i) out[samples[i]] = Real(values[i]);
    }
  }

  void exact_backward(int64_t t, const std::vector<int64_t>& samples, const Real* seed, bool as_flows, std::vector<double>& flows, Real* dense_gradient, std::vector<Exact>& parts) const {
    if constexpr (std::is_same_v<Real, double>) {
      std::unique_ptr<LogTree<Real>> log_tree;
      for (int64_t s : samples) log_backward(log_tree, t, s, seed[s], flows, dense_gradient);
    } else {
      std::vector<double> seeds;
      for (int64_t s : samples) seeds.push_back(seed[s]);
      Exact exact(*this, t, samples);
      exact.dense_gradient.resize(exact.dense.size());
      exact.forest(program, first).backward(seeds.data(), exact.sectors, exact.dense_gradient.data(), as_flows);
      for (int64_t row = 0, i = 0; row < program.dense_rows(); ++row)
        for (int64_t s : samples) dense_gradient[row * data.samples + s] += Real(exact.dense_gradient[i++]);
      parts.push_back(std::move(exact));
    }
  }

  LogTree<Real>& prepared(std::unique_ptr<LogTree<Real>>& log_tree, int64_t t) const {
    if (!log_tree) {
      log_tree = std::make_unique<LogTree<Real>>(program, tree(t), true, 0, tree(t).weights);
      log_normalise_nodes(program.nodes.data() + tree(t).first, 0, tree(t).nodes, logits, *log_tree);
    }
    return *log_tree;
  }
  Sample<Real> sample(int64_t index) const { return {data.codes, data.code_bytes, data.dense, data.samples, index}; }

  double log_value(std::unique_ptr<LogTree<Real>>& log_tree, int64_t t, int64_t index) const {
    LogTree<Real>& slow = prepared(log_tree, t);
    std::vector<double> values(slow.values_size());
    slow.forward(sample(index), values.data(), 0, tree(t).nodes);
    return slow.root_value(values.data());
  }

  void log_backward(std::unique_ptr<LogTree<Real>>& log_tree, int64_t t, int64_t index, double seed, std::vector<double>& flows, Real* dense_gradient) const {
    LogTree<Real>& slow = prepared(log_tree, t);
    std::vector<double> values(slow.values_size()), node_flows(slow.values_size());
    slow.forward(sample(index), values.data(), 0, tree(t).nodes);
    if (slow.root_value(values.data()) == minus_infinity) return;
    flows.resize(tree(t).weights);
    *slow.root_flow(node_flows.data()) = seed;
    slow.backward(sample(index), values.data(), node_flows.data(), 0, tree(t).nodes, flows.data(), dense_gradient);
  }

  std::vector<Partial> combine(std::vector<std::vector<Partial>>& partials) const {
    std::vector<Partial> result;
    for (auto& of_thread : partials)
      for (auto& partial : of_thread) {
        if (result.empty() || result.back().tree != partial.tree) {
          result.push_back(std::move(partial));
          continue;
        }
        Partial& total = result.back();
        for (int64_t i = 0; i < tree(total.tree).weights; ++i) total.gradient.get()[i] += partial.gradient.get()[i];
        total.flows.resize(std::max(total.flows.size(), partial.flows.size()));
        for (size_t i = 0; i < partial.flows.size(); ++i) total.flows[i] += partial.flows[i];
      }
    return result;
  }

  void finish(const Node& node, const Real* weights, const Buffer<Real>& gradient, const std::vector<double>& flows, bool as_flows, const std::vector<Sectors<Real>>& gradients) const {
    const auto& kind = gradients[node.kind];
    kernel.finish(weights, gradient.get() + node.weight, gradient_factor<Real>(node), flows.empty() ? nullptr : flows.data() + node.weight, node.rows, node.columns, as_flows, kind.at(node), kind.columns);
  }

  // A tree whose blocks were shared by several threads.
  void finish_shared(const Partial& total, bool as_flows, const std::vector<Sectors<Real>>& gradients) const {
    const int64_t start = tree(total.tree).first, count = tree(total.tree).nodes;
    run_threads(threads, [&](int thread) {
      Buffer<Real> weights(int64_t(program.rows) * std::max(program.rows, program.max_size) + weight_slack);
      for (int64_t u = start + count * thread / threads; u < start + count * (thread + 1) / threads; ++u) {
        normalise_node(program.nodes[u], logits, weights.get());
        finish(program.nodes[u], weights.get(), total.gradient, total.flows, as_flows, gradients);
      }
    });
  }
};

// Nodes of one tree, some at a time; values, scales and pending gradients stay here between calls.
template <class Real> class State {
  using Integer = typename Format<Real>::Integer;

 public:
  using Number = Real;

  State(const Program& program, int64_t tree_index, int64_t samples, bool tape, bool log_space, int threads)
      : program(program), tree(program.trees[tree_index]), samples(samples), tape(tape), log_space(log_space), threads(threads),
        blocks(samples, kernel.lanes, kernel.vector_multiple, kernel.lanes * sizeof(Real), program.rows, tape ? tree.places : tree.slots, threads) {
    if (log_space) {
      log_values.resize(samples * int64_t(tape ? tree.places : tree.slots) * program.rows);
      if (tape) log_flows.resize(log_values.size());
      return;
    }
    place_size = Workspace<Real>::places_size(program, tape ? tree.places : tree.slots, blocks);
    places = Buffer<Real>(place_size * blocks.count);
    gradient_size = tape ? int64_t(tree.gradient_slots) * program.rows * blocks.width : 0;
    gradients = Buffer<Real>(gradient_size * blocks.count);
    exponent = Buffer<Integer>(blocks.width * blocks.count);
    exponent.fill(0);
  }

  // Evaluates nodes [first, last), the next ones in order.
  void forward(const std::vector<Sectors<const Real>>& logits, const Data<Real>& data, int64_t first, int64_t last) {
    EXPECT(first == evaluated && last > first && last <= tree.nodes, "nodes that start at " + std::to_string(evaluated) + " and end at most at " + std::to_string(tree.nodes) + "; first node", first);
    check_part(logits, data, first, last);
    evaluated = last;
    if (samples == 0) return;
    if (log_space) return log_forward(logits, data, first, last);
    Weights weights = normalise(logits, first, last);
    over_blocks([&](int, Workspace<Real>& workspace, int64_t k) {
      Block<Real> b = block(data, k, workspace, weights.start);
      kernel.forward(b, first, last);
    });
  }

  // (samples) log-values and flags, after the root
  void values(Real* out, unsigned char* flagged) const {
    EXPECT(evaluated == tree.nodes && pending == tree.nodes, "all nodes evaluated (" + std::to_string(tree.nodes) + ")", evaluated);
    if (log_space) {
      LogTree<Real> slow(program, tree, tape, 0, 0);
      for (int64_t s = 0; s < samples; ++s) out[s] = Real(slow.root_value(log_values.data() + s * slow.values_size())), flagged[s] = 0;
      return;
    }
    Data<Real> no_data{nullptr, 1, nullptr, samples, {}};
    Workspace<Real> workspace(program, 0, 0, blocks);
    for (int64_t k = 0; k < blocks.count; ++k) {
      Block<Real> b = block(no_data, k, workspace, nullptr);
      kernel.values(b, tree.leaves, out + b.first, flagged + b.first);
    }
  }

  // Backward through nodes [first, last), the next ones in reverse order; seed (samples) is used with the root.
  void backward(const std::vector<Sectors<const Real>>& logits, const Data<Real>& data, const Real* seed, int64_t first, int64_t last, const std::vector<Sectors<Real>>& gradients,
                Real* dense_gradient, bool as_flows) {
    EXPECT(tape, "a state with a tape", tape);
    EXPECT(evaluated == tree.nodes, "all nodes evaluated (" + std::to_string(tree.nodes) + ")", evaluated);
    EXPECT(last == pending && first >= 0 && first < last, "nodes that end at " + std::to_string(pending) + "; last node", last);
    check_part(logits, data, first, last);
    if (samples > 0) {
      if (log_space) log_backward(logits, data, seed, first, last, gradients, dense_gradient, as_flows);
      else linear_backward(logits, data, seed, first, last, gradients, dense_gradient, as_flows);
    }
    pending = first;
  }

  const Program& program;
  const Tree& tree;
  const int64_t samples;

 private:
  struct Weights {
    Buffer<Real> buffer;
    Real* start;  // of the whole tree, of which only the part exists
  };

  const bool tape, log_space;
  const int threads;
  const Functions<Real>& kernel = functions<Real>();
  Blocks blocks;
  int64_t place_size = 0, gradient_size = 0, evaluated = 0, pending = tree.nodes;
  Buffer<Real> places, gradients;
  Buffer<Integer> exponent;
  std::vector<double> log_values, log_flows;

  const Node* nodes() const { return program.nodes.data() + tree.first; }

  void check_part(const std::vector<Sectors<const Real>>& logits, const Data<Real>& data, int64_t first, int64_t last) const {
    EXPECT(data.samples == samples, std::to_string(samples) + " samples", data.samples);
    for (int64_t u = first; u < last; ++u) {
      const Node& node = nodes()[u];
      check_sectors(node, logits);
      for (int i = 0; i < node.children; ++i) {
        int64_t child = program.children[node.first_child + i];
        EXPECT(nodes()[child].type == INNER || child >= first, "leaves in the same part as their parent (node " + std::to_string(u) + "); part starts after leaf", child);
      }
    }
  }

  int64_t weights_begin(int64_t first) const { return nodes()[first].weight; }
  int64_t weights_end(int64_t last) const { return last < tree.nodes ? nodes()[last].weight : tree.weights; }

  Weights normalise(const std::vector<Sectors<const Real>>& logits, int64_t first, int64_t last) {
    Weights weights{Buffer<Real>(weights_end(last) - weights_begin(first) + weight_slack), nullptr};
    weights.start = weights.buffer.get() - weights_begin(first);
    run_threads(threads, [&](int thread) {
      int64_t count = last - first;
      for (int64_t u = first + count * thread / threads; u < first + count * (thread + 1) / threads; ++u)
        normalise_node(nodes()[u], logits, weights.start + nodes()[u].weight);
    });
    return weights;
  }

  template <class F> void over_blocks(F&& f) const {
    run_threads(threads, [&](int thread) {
      int64_t begin = blocks.count * thread / threads, end = blocks.count * (thread + 1) / threads;
      if (begin == end) return;
      Workspace<Real> workspace(program, 0, 0, blocks);
      for (int64_t k = begin; k < end; ++k) f(thread, workspace, k);
    });
  }

  Block<Real> block(const Data<Real>& data, int64_t k, Workspace<Real>& workspace, const Real* weights) const {
    Block<Real> b = make_block(program, tree, data, blocks, k, tape);
    b.weights = weights;
    b.places = places.get() + k * place_size, b.gradients = gradients.get() + k * gradient_size, b.scratch = workspace.scratch.get();
    b.exponent = exponent.get() + k * blocks.width;
    b.risky = true;
    return b;
  }

  void linear_backward(const std::vector<Sectors<const Real>>& logits, const Data<Real>& data, const Real* seed, int64_t first, int64_t last, const std::vector<Sectors<Real>>& gradients,
                       Real* dense_gradient, bool as_flows) {
    if (last == tree.nodes) set_seed(seed);
    Weights weights = normalise(logits, first, last);
    std::vector<Buffer<Real>> gradient(std::min<int64_t>(threads, blocks.count));
    for (auto& g : gradient) g = Buffer<Real>(weights.buffer.size), g.fill(0);
    // a thread with blocks takes the next buffer: thread -> number of busy threads before it
    over_blocks([&](int thread, Workspace<Real>& workspace, int64_t k) {
      Block<Real> b = block(data, k, workspace, weights.start);
      b.weight_gradient = gradient[busy_before(thread)].get() - weights_begin(first), b.dense_gradient = dense_gradient;
      RoundSubnormals here;
      kernel.backward(b, first, last);
    });
    for (size_t t = 1; t < gradient.size(); ++t)
      for (int64_t i = 0; i < weights.buffer.size; ++i) gradient[0].get()[i] += gradient[t].get()[i];
    finish(first, last, weights.start, gradient[0].get() - weights_begin(first), nullptr, as_flows, gradients);
  }

  int64_t busy_before(int thread) const {
    int64_t busy = 0;
    for (int t = 0; t < thread; ++t) busy += blocks.count * t / threads < blocks.count * (t + 1) / threads;
    return busy;
  }

  void set_seed(const Real* seed) {
    std::vector<Real> ignored(samples);
    std::vector<unsigned char> flagged(samples);
    values(ignored.data(), flagged.data());
    Data<Real> no_data{nullptr, 1, nullptr, samples, {}};
    Workspace<Real> workspace(program, 0, 0, blocks);
    for (int64_t k = 0; k < blocks.count; ++k) {
      Block<Real> b = block(no_data, k, workspace, nullptr);
      kernel.seed(b, seed + b.first, flagged.data() + b.first);
    }
  }

  void finish(int64_t first, int64_t last, const Real* weights, const Real* gradient, const double* flows, bool as_flows, const std::vector<Sectors<Real>>& gradients) const {
    run_threads(threads, [&](int thread) {
      int64_t count = last - first;
      for (int64_t u = first + count * thread / threads; u < first + count * (thread + 1) / threads; ++u) {
        const Node& node = nodes()[u];
        const auto& kind = gradients[node.kind];
        kernel.finish(weights + node.weight, gradient + node.weight, gradient_factor<Real>(node), flows ? flows + node.weight : nullptr, node.rows, node.columns, as_flows, kind.at(node), kind.columns);
      }
    });
  }

  Sample<Real> sample(const Data<Real>& data, int64_t index) const { return {data.codes, data.code_bytes, data.dense, data.samples, index}; }

  void log_forward(const std::vector<Sectors<const Real>>& logits, const Data<Real>& data, int64_t first, int64_t last) {
    LogTree<Real> slow(program, tree, tape, weights_begin(first), weights_end(last));
    log_normalise_nodes(nodes(), first, last, logits, slow);
    for (int64_t s = 0; s < samples; ++s) slow.forward(sample(data, s), log_values.data() + s * slow.values_size(), first, last);
  }

  void log_backward(const std::vector<Sectors<const Real>>& logits, const Data<Real>& data, const Real* seed, int64_t first, int64_t last, const std::vector<Sectors<Real>>& gradients,
                    Real* dense_gradient, bool as_flows) {
    LogTree<Real> slow(program, tree, tape, weights_begin(first), weights_end(last));
    log_normalise_nodes(nodes(), first, last, logits, slow);
    Weights weights = normalise(logits, first, last);
    std::vector<double> storage(weights.buffer.size);
    double* flows = storage.data() - weights_begin(first);
    for (int64_t s = 0; s < samples; ++s) {
      double* values = log_values.data() + s * slow.values_size();
      double* pending_flows = log_flows.data() + s * slow.values_size();
      if (last == tree.nodes) *slow.root_flow(pending_flows) = slow.root_value(values) == minus_infinity ? 0.0 : double(seed[s]);
      slow.backward(sample(data, s), values, pending_flows, first, last, flows, dense_gradient);
    }
    Buffer<Real> zero(weights.buffer.size);
    zero.fill(0);
    finish(first, last, weights.start, zero.get() - weights_begin(first), flows, as_flows, gradients);
  }
};

}  // namespace hyperspn
