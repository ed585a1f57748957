// One pass over whole trees, or over a part of one, in one arithmetic.
#pragma once
#include "gathered.hpp"
#include "weights.hpp"

namespace hyperspn {

// What stays in memory between the parts of a tree. Whole trees need nothing: a block goes through at once.
enum class Keep { NOTHING, VALUES, TAPE };

template <class In>
class AnyPass {
 public:
  virtual ~AnyPass() = default;
  // Evaluates the next nodes in order; at the root also values (trees, samples). Returns the samples that must be
  // evaluated more exactly.
  virtual Tasks forward(const Logits<In>&, Part, In* values) = 0;
  // The next nodes in reverse order, from seeds (trees, samples) to gradients. Whole trees are evaluated on the way,
  // and the samples returned that must be evaluated more exactly.
  virtual Tasks backward(const Logits<In>&, Part, const In* seeds, bool as_flows, const Gradients<In>&) = 0;
};

template <class Real, class In>
class Pass final : public AnyPass<In> {
 public:
  Pass(const Batch<In>& batch, const Arithmetic<Real>& arithmetic, int64_t first_tree, Tasks all, Keep keep,
       int threads)
      : batch(batch),
        program(batch.program),
        arithmetic(arithmetic),
        rows(arithmetic.padded(program.rows)),
        max_columns(arithmetic.padded(batch.max_columns())),
        first_tree(first_tree),
        tasks(std::move(all)),
        keep(keep),
        threads(threads) {
    if (keep == Keep::NOTHING) return;
    cut_into_blocks(keep == Keep::TAPE);
    kept = make_memory(keep == Keep::TAPE, blocks[0].width, blocks[0].count);
  }

  Tasks forward(const Logits<In>& logits, Part part, In* values) override {
    Call call = make_call(logits, part, keep == Keep::TAPE, nullptr);
    std::vector<Tasks> flagged(threads);
    over_shares(call, [&](Worker& worker, const Share& share) {
      const Task& task = tasks[share.task];
      for (int64_t k = share.begin; k < share.end; ++k) {
        Block<Real> b = make_block(call, worker, share, k);
        evaluate(call, worker, share, b);
        if (!call.reaches_root(share)) continue;
        for (int64_t i = 0; i < b.valid; ++i) values[at(task, worker.first + i)] = In(worker.values[i]);
        note_flagged(worker, task, b.valid, flagged[worker.thread]);
      }
    });
    return joined(flagged);
  }

  Tasks backward(const Logits<In>& logits, Part part, const In* seeds, bool as_flows,
                 const Gradients<In>& out) override {
    Call call = make_call(logits, part, true, seeds);
    std::vector<Tasks> flagged(threads);
    std::vector<std::vector<In>> dense(threads);  // of all threads but the first, which adds to the result
    over_shares(call, [&](Worker& worker, const Share& share) {
      const bool apart = worker.thread > 0 && tasks.size() > 1;
      if (apart) dense[worker.thread].resize(program.dense_rows() * batch.samples);
      In* dense_out = apart ? dense[worker.thread].data() : out.dense;
      const Weights<Real, In>& weights = call.weights[share.task];
      reserve(worker.gradient, weights.size);
      std::fill_n(worker.gradient.get(), weights.size, Real(0));
      for (int64_t k = share.begin; k < share.end; ++k)
        block_backward(call, worker, share, k, dense_out, flagged[worker.thread]);
      if (share.alone)
        weights.finish(weights.nodes, worker.normalized.buffer.get(), worker.gradient.get(), call.units[share.task],
                       as_flows, !tasks[share.task].all(), out.sectors);
      else
        call.partials[worker.thread].push_back({share.task, std::move(worker.gradient)});
    });
    for (const auto& part : dense)
      for (size_t i = 0; i < part.size(); ++i) out.dense[i] += part[i];
    finish_together(call, as_flows, out);
    return joined(flagged);
  }

 private:
  struct Normalized {
    Buffer<Real> buffer;
    bool risky = true;
  };
  struct Partial {  // what one thread adds to the gradient of a task
    size_t task;
    Buffer<Real> gradient;
  };

  // What one call needs to know.
  struct Call {
    bool tape;
    const In* seeds;
    std::vector<Weights<Real, In>> weights;      // per task
    std::vector<Real> units;                     // per task: the power of two that gradients are multiplied with
    std::vector<std::vector<Share>> shares;      // per thread
    std::vector<Normalized> together;            // per task, if several threads share it
    std::vector<std::vector<Partial>> partials;  // per thread

    bool reaches_root(const Share& share) const { return weights[share.task].reaches_root; }
  };

  // The memory of a thread.
  struct Worker {
    int thread = 0;
    Memory<Real> memory;  // of one block
    Buffer<Real> scratch, gradient;
    Gathered<Real> gathered;
    Normalized normalized;
    std::vector<Real> values, seeds;
    std::vector<unsigned char> flagged;
    int64_t first = 0;  // sample of the task in the block at hand
  };

  const Batch<In>& batch;
  const Program& program;
  const Arithmetic<Real>& arithmetic;
  const int rows, max_columns;  // padded
  const int64_t first_tree;
  const Tasks tasks;
  const Keep keep;
  const int threads;
  std::vector<Blocks> blocks;  // per task
  Memory<Real> kept;

  const Tree& tree(size_t task) const { return program.trees[first_tree + tasks[task].tree]; }
  int64_t at(const Task& task, int64_t i) const { return task.tree * batch.samples + task.sample(i); }
  static void reserve(Buffer<Real>& buffer, int64_t size) {
    if (buffer.size < size) buffer = Buffer<Real>(size);
  }

  template <class F>
  int most(F&& f) const {
    int result = 0;
    for (size_t t = 0; t < tasks.size(); ++t) result = std::max<int>(result, f(tree(t)));
    return result;
  }
  int most_places(bool tape) const {
    return most([=](const Tree& tree) { return tape ? tree.places : tree.slots; });
  }
  Memory<Real> make_memory(bool tape, int64_t width, int64_t count) const {
    const int gradient_slots = tape ? most([](const Tree& tree) { return tree.gradient_slots; }) : 0;
    return Memory<Real>(rows, most_places(tape), gradient_slots, width, count);
  }
  void cut_into_blocks(bool tape) {
    const int64_t wanted = (threads + tasks.size() - 1) / tasks.size();
    blocks.clear();
    for (const Task& task : tasks) blocks.emplace_back(arithmetic, task.count, rows, most_places(tape), wanted);
  }

  // ---- before and after the blocks ----

  Call make_call(const Logits<In>& logits, Part part, bool tape, const In* seeds) {
    if (keep == Keep::NOTHING) cut_into_blocks(tape);
    Call call{
        tape, seeds, {}, {}, {}, std::vector<Normalized>(tasks.size()), std::vector<std::vector<Partial>>(threads)};
    std::vector<int64_t> costs;
    for (size_t t = 0; t < tasks.size(); ++t) {
      call.weights.emplace_back(arithmetic, program, tree(t), part, logits);
      call.units.push_back(seeds ? unit_of(tasks[t], seeds) : Real(1));
      costs.push_back(tree(t).cost * blocks[t].vectors);
    }
    call.shares = shared_out(blocks, costs, threads);
    for (const auto& shares : call.shares)
      for (const Share& share : shares)
        if (!share.alone && call.together[share.task].buffer.size == 0) normalize_together(call, share.task);
    return call;
  }

  // The largest gradient at the root becomes about 2^seed, whatever the loss was multiplied with.
  Real unit_of(const Task& task, const In* seeds) const {
    In largest = 0;
    for (int64_t i = 0; i < task.count; ++i) largest = std::max(largest, std::abs(seeds[at(task, i)]));
    const int exponent = largest > 0 && std::isfinite(largest) ? std::ilogb(largest) : 0;
    const int most = 2 * Format<Real>::unit;
    return Real(std::ldexp(1.0, Format<Real>::seed - std::clamp(exponent, -most, most)));
  }

  bool is_risky(Real smallest) const {
    const bool tame = program.max_children <= 2 && smallest >= Real(std::ldexp(1.0, Format<Real>::tame));
    return keep != Keep::NOTHING || !tame;  // other parts may have smaller weights
  }

  void normalize_together(Call& call, size_t task) {
    const Weights<Real, In>& weights = call.weights[task];
    Normalized& normalized = call.together[task];
    normalized.buffer = Buffer<Real>(weights.size + weight_slack);
    std::vector<Real> smallest(threads);
    run_threads(threads, [&](int thread) {
      smallest[thread] = weights.normalize(weights.nodes.slice(thread, threads), normalized.buffer.get());
    });
    normalized.risky = is_risky(*std::min_element(smallest.begin(), smallest.end()));
  }

  template <class Body>
  void over_shares(Call& call, const Body& body) {
    run_threads(threads, [&](int thread) {
      if (call.shares[thread].empty()) return;
      Worker worker = make_worker(call, thread);
      for (const Share& share : call.shares[thread]) {
        const Weights<Real, In>& weights = call.weights[share.task];
        if (share.alone) {
          reserve(worker.normalized.buffer, weights.size + weight_slack);
          worker.normalized.risky = is_risky(weights.normalize(weights.nodes, worker.normalized.buffer.get()));
        }
        body(worker, share);
      }
    });
  }

  void finish_together(Call& call, bool as_flows, const Gradients<In>& out) const {
    for (size_t task = 0; task < tasks.size(); ++task) {
      std::vector<const Real*> parts;
      for (const auto& partials : call.partials)
        for (const Partial& partial : partials)
          if (partial.task == task) parts.push_back(partial.gradient.get());
      if (parts.empty()) continue;
      const Weights<Real, In>& weights = call.weights[task];
      Buffer<Real> total(weights.size);
      run_threads(threads, [&](int thread) {
        const Part nodes = weights.nodes.slice(thread, threads);
        for (int64_t i = weights.begin_of(nodes.first); i < weights.begin_of(nodes.last); ++i) {
          total.get()[i] = parts[0][i];
          for (size_t p = 1; p < parts.size(); ++p) total.get()[i] += parts[p][i];
        }
        weights.finish(nodes, call.together[task].buffer.get(), total.get(), call.units[task], as_flows,
                       !tasks[task].all(), out.sectors);
      });
    }
  }

  static Tasks joined(std::vector<Tasks>& parts) {
    Tasks result;
    for (Tasks& part : parts)
      for (Task& task : part) {
        if (result.empty() || result.back().tree != task.tree) {
          result.push_back(std::move(task));
          continue;
        }
        result.back().samples.insert(result.back().samples.end(), task.samples.begin(), task.samples.end());
        result.back().count += task.count;
      }
    return result;
  }

  // ---- one block ----

  Worker make_worker(const Call& call, int thread) const {
    Worker worker;
    worker.thread = thread;
    int64_t width = 0;
    bool gathers = false;
    for (const Share& share : call.shares[thread]) {
      width = std::max(width, blocks[share.task].width);
      gathers = gathers || !tasks[share.task].all();
    }
    if (keep == Keep::NOTHING) worker.memory = make_memory(call.tape, width, 1);
    worker.scratch = Buffer<Real>(arithmetic.scratch(rows, program.max_children, max_columns, width));
    if (gathers) worker.gathered = Gathered<Real>(batch, width);
    worker.values.resize(width), worker.seeds.resize(width), worker.flagged.resize(width);
    return worker;
  }

  Block<Real> make_block(const Call& call, Worker& worker, const Share& share, int64_t k) const {
    const Blocks& cut = blocks[share.task];
    const Task& task = tasks[share.task];
    const Normalized& normalized = share.alone ? worker.normalized : call.together[share.task];
    worker.first = k * cut.width;
    Block<Real> b{};
    b.nodes = program.nodes.data() + tree(share.task).first, b.node_count = tree(share.task).nodes;
    b.children = program.children.data();
    b.layer_size = program.rows, b.rows = rows, b.vectors = cut.vectors, b.max_columns = max_columns;
    b.weights = normalized.buffer.get(), b.weights_begin = call.weights[share.task].begin;
    b.code_bytes = batch.code_bytes, b.missing = batch.missing.data(), b.dense_ptr = program.dense_ptr.data();
    b.sparse_ptr = batch.sparse.ptr.data();
    b.valid = std::min(cut.width, task.count - worker.first);
    b.tape = call.tape, b.risky = normalized.risky, b.scratch = worker.scratch.get();
    b.gradient_unit = call.units[share.task];
    if (keep == Keep::NOTHING)
      worker.memory.attach(b, 0), worker.memory.exponents.fill(0);
    else
      kept.attach(b, k);
    read_samples(call, worker, share, b);
    return b;
  }

  void read_samples(const Call& call, Worker& worker, const Share& share, Block<Real>& b) const {
    if constexpr (std::is_same_v<Real, In>)
      if (tasks[share.task].all()) {
        b.codes = batch.codes, b.dense = batch.likelihoods.get();
        b.members = batch.sparse.members, b.shares = batch.sparse.shares;
        b.row_length = batch.samples, b.first = worker.first;
        return;
      }
    const int64_t width = blocks[share.task].width;
    worker.gathered.read(batch, arithmetic, tasks[share.task], worker.first, call.weights[share.task].nodes, width, b);
  }

  // Goes through the nodes; at the root also values and flags.
  void evaluate(const Call& call, Worker& worker, const Share& share, const Block<Real>& b) const {
    const Part nodes = call.weights[share.task].nodes;
    arithmetic.forward(b, nodes.first, nodes.last);
    if (call.reaches_root(share))
      arithmetic.values(b, tree(share.task).leaves, worker.values.data(), worker.flagged.data());
  }

  void note_flagged(const Worker& worker, const Task& task, int64_t valid, Tasks& flagged) const {
    for (int64_t i = 0; i < valid; ++i) {
      if (!worker.flagged[i]) continue;
      if (flagged.empty() || flagged.back().tree != task.tree) flagged.push_back({task.tree, 0, {}});
      flagged.back().samples.push_back(task.sample(worker.first + i));
      ++flagged.back().count;
    }
  }

  void block_backward(const Call& call, Worker& worker, const Share& share, int64_t k, In* dense,
                      Tasks& flagged) const {
    const Task& task = tasks[share.task];
    const Part nodes = call.weights[share.task].nodes;
    Block<Real> b = make_block(call, worker, share, k);
    b.weight_gradient = worker.gradient.get();
    if constexpr (std::is_same_v<Real, In>)
      if (task.all()) b.dense_gradient = dense;
    if (keep == Keep::NOTHING)
      evaluate(call, worker, share, b);
    else if (call.reaches_root(share))
      arithmetic.values(b, tree(share.task).leaves, worker.values.data(), worker.flagged.data());
    if (call.reaches_root(share)) {
      for (int64_t i = 0; i < b.valid; ++i) worker.seeds[i] = Real(call.seeds[at(task, worker.first + i)]);
      arithmetic.seed(b, worker.seeds.data(), worker.flagged.data());
      for (int64_t i = 0; i < b.valid; ++i) worker.flagged[i] &= worker.seeds[i] != 0;
      note_flagged(worker, task, b.valid, flagged);
    }
    {
      RoundSubnormals here;
      arithmetic.backward(b, nodes.first, nodes.last);
    }
    if (!task.all()) worker.gathered.write(batch, task, worker.first, nodes, b, dense);
  }
};

}  // namespace hyperspn
