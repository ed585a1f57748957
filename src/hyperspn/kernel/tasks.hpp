// Trees and their samples, shared out among threads.
#pragma once
#include <algorithm>
#include <vector>

#include "blocks.hpp"

namespace hyperspn {

// Nodes of a tree.
struct Part {
  int64_t first, last;

  Part slice(int i, int count) const {
    return {first + (last - first) * i / count, first + (last - first) * (i + 1) / count};
  }
};

// A tree, and the samples of a batch on which it is evaluated.
struct Task {
  int64_t tree;                  // counted from the first one at hand
  int64_t count;                 // of samples
  std::vector<int64_t> samples;  // which ones; empty: all, as they are

  bool all() const { return samples.empty(); }
  int64_t sample(int64_t i) const { return all() ? i : samples[i]; }
};
using Tasks = std::vector<Task>;

// Blocks [begin, end) of a task; alone: all of them.
struct Share {
  size_t task;
  int64_t begin, end;
  bool alone;
};

// Shares of about equal cost for every thread, the same in every run; `costs` of one block of each task.
inline std::vector<std::vector<Share>> shared_out(const std::vector<Blocks>& blocks, const std::vector<int64_t>& costs,
                                                  int threads) {
  int64_t total = 0, before = 0;
  for (size_t t = 0; t < blocks.size(); ++t) total += costs[t] * blocks[t].count;
  std::vector<std::vector<Share>> shares(threads);
  for (size_t t = 0; t < blocks.size(); ++t) {
    const int64_t count = blocks[t].count;
    auto block_at = [&](int64_t cost) {
      return std::clamp<int64_t>((cost - before + costs[t] / 2) / costs[t], 0, count);
    };
    for (int thread = 0; thread < threads; ++thread) {
      int64_t begin = block_at(total * thread / threads), end = block_at(total * (thread + 1) / threads);
      if (begin < end) shares[thread].push_back({t, begin, end, end - begin == count});
    }
    before += costs[t] * count;
  }
  return shares;
}

}  // namespace hyperspn
