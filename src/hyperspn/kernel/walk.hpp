// Values and gradients of whole trees, or of one tree part by part: as exactly as it takes.
#pragma once
#include "pass.hpp"

namespace hyperspn {

// Some samples go through several passes. This is the one place that decides on it: first linear space in the precision
// of the input, then, for samples that are too small for float, in double precision, then log space.
template <class In>
std::unique_ptr<AnyPass<In>> make_pass(size_t level, const Batch<In>& batch, int64_t first_tree, Tasks tasks, Keep keep,
                                       int threads) {
  const int rows = batch.program.rows, leaf = batch.program.largest_leaf;
  if (level == 0)
    return std::make_unique<Pass<In, In>>(batch, linear_space<In>(rows, leaf), first_tree, std::move(tasks), keep,
                                          threads);
  const bool in_double = level == 1 && std::is_same_v<In, float>;
  const Arithmetic<double>& arithmetic = in_double ? linear_space<double>(rows, leaf) : log_space;
  return std::make_unique<Pass<double, In>>(batch, arithmetic, first_tree, std::move(tasks), keep, threads);
}

// Trees [first_tree, last_tree) of the batch's program. Either all at once, forward or backward; or one tree part by
// part, forward until it is `finished`, perhaps several times, and then, if it has a tape, backward.
template <class In>
class Walk {
 public:
  Walk(const Batch<In>& batch, int64_t first_tree, int64_t last_tree, bool tape, int threads)
      : batch(batch), first_tree(first_tree), last_tree(last_tree), tape(tape), threads(threads) {
    const int64_t count = batch.program.trees.size();
    EXPECT(first_tree >= 0 && first_tree < last_tree && last_tree <= count,
           "trees (first, last) within 0 and " + std::to_string(count) + "; last", last_tree);
    for (int64_t t = first_tree; t < last_tree; ++t) nodes += batch.program.trees[t].nodes;
    pending = nodes;
  }

  bool finished() const { return done; }
  int64_t trees() const { return last_tree - first_tree; }

  // The next nodes in order; values (trees, samples) are complete when the walk is finished.
  void forward(const Logits<In>& logits, Part part, In* values) {
    EXPECT(!done, "a walk that is not finished", done);
    EXPECT(part.first == evaluated && part.last > part.first && part.last <= nodes,
           "nodes from " + std::to_string(evaluated) + " to at most " + std::to_string(nodes) + "; first", part.first);
    check(logits, part);
    if (is_whole(part)) {
      over_passes([&](AnyPass<In>& pass) { return pass.forward(logits, part, values); });
      done = true;
      return;
    }
    EXPECT(trees() == 1, "one tree to go through in parts", trees());
    if (passes.empty()) start_pass(all_samples());
    Tasks flagged;
    if (batch.samples > 0) flagged = passes.back()->forward(logits, part, values);
    evaluated = part.last;
    if (part.last < nodes) return;
    done = flagged.empty();
    if (!done) start_pass(std::move(flagged)), evaluated = 0;
  }

  // The next nodes in reverse order; seeds (trees, samples). Gradients are added to.
  void backward(const Logits<In>& logits, Part part, const In* seeds, bool as_flows, const Gradients<In>& out) {
    EXPECT(part.last == pending && part.first >= 0 && part.first < part.last,
           "nodes that end at " + std::to_string(pending) + "; last", part.last);
    check(logits, part);
    if (is_whole(part)) {
      over_passes([&](AnyPass<In>& pass) { return pass.backward(logits, part, seeds, as_flows, out); });
      return;
    }
    EXPECT(done && tape, "a finished walk with a tape", done && tape);
    if (batch.samples > 0)
      for (auto& pass : passes) pass->backward(logits, part, seeds, as_flows, out);
    pending = part.first;
  }

 private:
  const Batch<In>& batch;
  const int64_t first_tree, last_tree;
  const bool tape;
  const int threads;
  int64_t nodes = 0, evaluated = 0, pending = 0;
  bool done = false;
  std::vector<std::unique_ptr<AnyPass<In>>> passes;  // of a tree in parts

  bool is_whole(Part part) const { return part.first == 0 && part.last == nodes; }

  Tasks all_samples() const {
    Tasks tasks;
    if (batch.samples > 0)
      for (int64_t t = 0; t < trees(); ++t) tasks.push_back({t, batch.samples, {}});
    return tasks;
  }

  void start_pass(Tasks tasks) {
    if (batch.samples == 0) return;
    const Keep keep = tape ? Keep::TAPE : Keep::VALUES;
    passes.push_back(make_pass(passes.size(), batch, first_tree, std::move(tasks), keep, threads));
  }

  // f(pass) returns what the next pass has to evaluate again.
  template <class F>
  void over_passes(const F& f) const {
    Tasks tasks = all_samples();
    for (size_t level = 0; !tasks.empty(); ++level)
      tasks = f(*make_pass(level, batch, first_tree, std::move(tasks), Keep::NOTHING, threads));
  }

  void check(const Logits<In>& logits, Part part) const {
    const Program& program = batch.program;
    const Node* first = program.nodes.data() + program.trees[first_tree].first;
    for (int64_t u = part.first; u < part.last; ++u) {
      check_sector(first[u], logits);
      for (int i = 0; part.first > 0 && i < first[u].children; ++i) {
        const int64_t child = program.children[first[u].first_child + i];
        EXPECT(first[child].type == INNER || child >= part.first,
               "leaves in the same part as their parent (node " + std::to_string(u) + "); part starts after leaf",
               child);
      }
    }
  }
};

}  // namespace hyperspn
