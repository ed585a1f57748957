// Travelers down the trees of a batch.
#pragma once
#include "bells.hpp"
#include "descent.hpp"
#include "tasks.hpp"

namespace hyperspn {

// Travelers through the trees of a batch, one tree after the other; the same for every number of threads.
template <class Real>
class Descent {
 public:
  Descent(const Batch<Real>& batch, const Logits<Real>& logits, Choose choose, int threads)
      : batch(batch), program(batch.program), logits(logits), choose(choose), threads(threads) {}

  // Log-values of all samples, BEST with one input for each sum: (trees, samples).
  void values(int64_t first_tree, int64_t last_tree, Real* out) {
    std::vector<int64_t> all(batch.samples);
    for (int64_t s = 0; s < batch.samples; ++s) all[s] = s;
    for (int64_t t = first_tree; t < last_tree; ++t, out += batch.samples)
      over_parties(program.trees[t], all, [&](Party<Real>& party) {
        std::copy_n(party.travelers, party.valid, party.samples);
        pad(party);
        arithmetic.up(party);
        for (int64_t i = 0; i < party.valid; ++i) out[party.travelers[i]] = party.values[i];
      });
  }

  // Of each traveler its tree, its sample (unless PRIOR) and its key.
  void members(int64_t first_tree, int64_t last_tree, const int64_t* trees, const int64_t* samples, const int64_t* keys,
               int64_t travelers, const Members& out) {
    std::vector<std::vector<int64_t>> of_tree(last_tree - first_tree);
    for (int64_t i = 0; i < travelers; ++i)
      if (trees[i] >= first_tree && trees[i] < last_tree) of_tree[trees[i] - first_tree].push_back(i);
    for (int64_t t = first_tree; t < last_tree; ++t)
      over_parties(program.trees[t], of_tree[t - first_tree], [&](Party<Real>& party) {
        for (int64_t i = 0; i < party.valid; ++i) {
          party.samples[i] = samples ? samples[party.travelers[i]] : 0;
          party.keys[i] = uint64_t(keys[party.travelers[i]]);
        }
        pad(party);
        party.members = out;
        if (choose != Choose::PRIOR) arithmetic.up(party);
        arithmetic.down(party);
      });
  }

 private:
  const Batch<Real>& batch;
  const Program& program;
  const Logits<Real>& logits;
  const Choose choose;
  const int threads;
  const DescentArithmetic<Real>& arithmetic = descent_arithmetic<Real>();
  Buffer<Real> weights, logs;
  std::vector<int32_t> parents;

  // f(party) for some travelers of a tree after the others.
  template <class F>
  void over_parties(const Tree& tree, const std::vector<int64_t>& travelers, const F& f) {
    if (travelers.empty()) return;
    prepare(tree);
    const int vectors = vectors_of(tree, travelers.size());
    const int64_t width = int64_t(vectors) * arithmetic.lanes, parties = (travelers.size() + width - 1) / width;
    run_threads(int(std::min<int64_t>(threads, parties)), [&](int thread) {
      Memory memory(program, tree, width, choose);
      Party<Real> party = make_party(tree, vectors, memory);
      for (int64_t k = thread; k < parties; k += std::min<int64_t>(threads, parties)) {
        party.valid = std::min<int64_t>(width, travelers.size() - k * width);
        std::copy_n(travelers.data() + k * width, party.valid, party.travelers);
        f(party);
      }
    });
  }

  struct Memory {
    Buffer<Real> inputs, values, scratch;
    Buffer<int32_t> states;
    std::vector<int64_t> travelers, samples;
    std::vector<uint64_t> keys;

    Memory(const Program& program, const Tree& tree, int64_t width, Choose choose)
        : inputs(choose == Choose::PRIOR ? 0 : int64_t(tree.places) * program.rows * width),
          values(width),
          scratch((2 * int64_t(program.rows) + 2 * program.max_columns + 1) * width),
          states(tree.nodes * width),
          travelers(width),
          samples(width),
          keys(width) {}
  };

  // Inputs should fit into the level-2 cache.
  int vectors_of(const Tree& tree, int64_t travelers) const {
    const int64_t most = 8, near = 1 << 20,
                  bytes = int64_t(tree.places) * program.rows * arithmetic.lanes * sizeof(Real);
    const int64_t needed = (travelers + arithmetic.lanes - 1) / arithmetic.lanes;
    return int(std::clamp<int64_t>(std::min(needed, near / bytes), 1, most));
  }

  Party<Real> make_party(const Tree& tree, int vectors, Memory& memory) const {
    Party<Real> party{};
    party.nodes = program.nodes.data() + tree.first, party.node_count = tree.nodes;
    party.children = program.children.data(), party.parents = parents.data();
    party.rows = program.rows, party.max_columns = program.max_columns, party.vectors = vectors;
    party.choose = choose, party.weights = weights.get(), party.logs = logs.get();
    party.codes = batch.codes, party.code_bytes = batch.code_bytes;
    party.dense = batch.log_likelihoods, party.dense_ptr = program.dense_ptr.data(), party.row_length = batch.samples;
    party.members_at = batch.sparse.members, party.shares = batch.sparse.shares;
    party.sparse_ptr = batch.sparse.ptr.data();
    party.travelers = memory.travelers.data(), party.samples = memory.samples.data(), party.keys = memory.keys.data();
    party.inputs = memory.inputs.get(), party.values = memory.values.get();
    party.scratch = memory.scratch.get(), party.states = memory.states.get();
    return party;
  }

  void pad(Party<Real>& party) const {
    for (int64_t i = party.valid; i < int64_t(party.vectors) * arithmetic.lanes; ++i)
      party.samples[i] = party.samples[party.valid - 1];
  }

  void prepare(const Tree& tree) {
    const Node* first = program.nodes.data() + tree.first;
    parents.assign(tree.nodes, -1);
    for (int64_t u = 0; u < tree.nodes; ++u)
      for (int i = 0; i < first[u].children; ++i) parents[program.children[first[u].first_child + i]] = int32_t(u);
    if (weights.size < tree.weights + weight_slack)
      weights = Buffer<Real>(tree.weights + weight_slack), logs = Buffer<Real>(tree.weights + weight_slack);
    run_threads(threads, [&](int thread) {
      const Part part = Part{0, tree.nodes}.slice(thread, threads);
      for (int64_t u = part.first; u < part.last; ++u) normalize(first[u]);
    });
  }

  void normalize(const Node& node) const {
    check_sector(node, logits);
    const Sectors<const Real>& kind = logits[node.kind];
    Real* log_weights = logs.get() + node.weight;
    if (kind.grid) write_logits(node, kind, log_weights);
    if (!arithmetic.normalize(node, kind.grid ? log_weights : kind.at(node), kind.grid ? node.columns : kind.columns,
                              choose, weights.get() + node.weight, log_weights))
      throw std::invalid_argument(
          "expected logits without NaN or +inf and with a finite one in every row, found otherwise in sector " +
          std::to_string(node.sector) + " of kind " + std::to_string(node.kind));
  }
};

}  // namespace hyperspn
