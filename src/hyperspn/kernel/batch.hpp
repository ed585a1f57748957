// What goes into a forest and what comes out: samples, unnormalized weights, gradients.
#pragma once
#include <string>
#include <type_traits>
#include <vector>

#include "blocks.hpp"
#include "threads.hpp"

namespace hyperspn {

// One kind of sectors, sector `base` first: logits, or bells (see bells.hpp), (count, rows, columns).
template <class Number>
struct Sectors {
  Number* data;
  int64_t count, rows, columns, base;
  const Grid* grid;  // of bells
  int hats() const { return grid ? grid->count : 0; }
  Number* at(const Node& node) const { return data + (node.sector - base) * rows * columns; }
  int64_t readable(const Node& node) const { return (count - (node.sector - base)) * rows * columns; }
  // Logits of this very type, if the sector holds such.
  template <class Real>
  std::conditional_t<std::is_const_v<Number>, const Real, Real>* plain(const Node& node) const {
    if constexpr (std::is_same_v<std::remove_const_t<Number>, Real>)
      if (!grid) return at(node);
    return nullptr;
  }
};

template <class In>
using Logits = std::vector<Sectors<const In>>;  // per kind

template <class In>
struct Gradients {
  std::vector<Sectors<In>> sectors;  // like the logits, zero where nothing is added
  In* dense;                         // (dense rows, samples)
};

template <class In>
void check_sector(const Node& node, const Logits<In>& logits) {
  const auto& kind = logits[node.kind];
  auto of_kind = [&] { return " of kind " + std::to_string(node.kind); };
  EXPECT(node.sector >= kind.base && node.sector - kind.base < kind.count,
         "one of " + std::to_string(kind.count) + " sectors" + of_kind() + " from " + std::to_string(kind.base),
         node.sector);
  const int columns = kind.grid ? node.columns - kind.grid->count + 3 : node.columns;
  EXPECT(!kind.grid || (node.type != INNER && columns >= 3 && columns == kind.columns),
         "bells" + of_kind() + " with " + std::to_string(columns) + " numbers in a row", kind.columns);
  EXPECT(node.rows <= kind.rows && columns <= kind.columns,
         "logits" + of_kind() + " with at least " + std::to_string(node.rows) + " rows and " + std::to_string(columns) +
             " columns, rows x columns",
         kind.rows * kind.columns);
}

// The likelihoods of sparse leaves that are not 0, and to which distributions they belong: both (rows, samples), the
// rows of a variable one after the other. A missing value has -1 as its first member; a likelihood of 0 ends the
// others.
template <class In>
struct SparseRows {
  const int32_t* members = nullptr;
  const In* shares = nullptr;
  std::vector<int32_t> ptr = {0};  // per variable

  int width(int variable) const { return ptr[variable + 1] - ptr[variable]; }
};

// The samples, checked once: categories as codes, of which -1 is a missing one, log-likelihoods of dense leaves, and
// likelihoods of sparse ones.
template <class In>
class Batch {
 public:
  Batch(const Program& program, const void* codes, int code_bytes, const In* log_likelihoods, SparseRows<In> rows,
        int64_t samples, int threads)
      : program(program),
        codes(codes),
        code_bytes(code_bytes),
        log_likelihoods(log_likelihoods),
        sparse(std::move(rows)),
        samples(samples),
        missing(program.categories.size()),
        likelihoods(log_likelihoods ? program.dense_rows() * samples : 0) {
    if (code_bytes == 1)
      check_codes(static_cast<const int8_t*>(codes));
    else
      check_codes(static_cast<const int32_t*>(codes));
    check_members();
    const int64_t size = likelihoods.size;
    if (size == 0) return;
    run_threads(threads, [&](int thread) {
      const int64_t first = size * thread / threads, last = size * (thread + 1) / threads;
      std::copy(log_likelihoods + first, log_likelihoods + last, likelihoods.get() + first);
      linear_space<In>(program.rows, program.largest_leaf).likelihoods(likelihoods.get() + first, last - first);
    });
  }

  const Program& program;
  const void* const codes;  // (variables, samples)
  const int code_bytes;
  const In* const log_likelihoods;  // (dense rows, samples)
  const SparseRows<In> sparse;
  const int64_t samples;
  std::vector<unsigned char> missing;  // per variable: whether any code is -1
  Buffer<In> likelihoods;              // as linear space takes them

  // The most numbers that a leaf sums over, if it is not categorical.
  int max_columns() const {
    int most = program.max_columns;
    for (size_t v = 0; v < program.sparse_columns.size(); ++v) most = std::max(most, sparse.width(int(v)));
    return most;
  }

 private:
  void check_members() const {
    EXPECT(sparse.ptr.size() == program.sparse_columns.size() + 1, "sparse_ptr of length sparse variables + 1",
           sparse.ptr.size());
    for (size_t v = 0; v < program.sparse_columns.size(); ++v) {
      EXPECT(sparse.width(int(v)) >= 1, "rows of sparse variable " + std::to_string(v), sparse.width(int(v)));
      const int64_t first = sparse.ptr[v] * samples, last = sparse.ptr[v + 1] * samples;
      int32_t low = 0, high = 0;
      for (int64_t i = first; i < last; ++i) {
        low = std::min(low, i < first + samples ? sparse.members[i] : 2 * sparse.members[i]);
        high = std::max(high, sparse.members[i]);
      }
      EXPECT(low >= -1, "members from 0, or -1 as the first, in sparse variable " + std::to_string(v), low);
      EXPECT(high < program.sparse_columns[v],
             "members below " + std::to_string(program.sparse_columns[v]) + " in sparse variable " + std::to_string(v),
             high);
    }
  }
  template <class Code>
  void check_codes(const Code* row) {
    for (size_t v = 0; v < program.categories.size(); ++v, row += samples) {
      if (program.categories[v] == 0) continue;
      auto where = [&] { return " in variable " + std::to_string(v); };
      Code low = 0, high = 0;
      for (int64_t s = 0; s < samples; ++s) low = std::min(low, row[s]), high = std::max(high, row[s]);
      EXPECT(low >= -1, "codes from -1" + where(), low);
      EXPECT(high < program.categories[v], "codes below " + std::to_string(program.categories[v]) + where(), high);
      missing[v] = low < 0;
    }
  }
};

}  // namespace hyperspn
