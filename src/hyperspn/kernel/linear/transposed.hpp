// Softmax for wide layers: their weights are kept transposed, (columns, rows), so that rows are the vector dimension;
// those of leaves that are looked up are multiplied by 2^unit.
#pragma once
#include "softmax.hpp"

namespace hyperspn {
namespace {

constexpr int whole_vectors(int count) { return (count + lanes - 1) / lanes; }
constexpr int64_t weight_step(int rows) { return int64_t(whole_vectors(rows)) * lanes; }

// Some rows of a matrix, a square of vectors at a time.
struct RowGroup {
  const int count, columns;  // count <= lanes

  // f(tile, j, number of columns): tile[i] holds column j + i
  template <class F>
  void read(const Real* data, int64_t stride, const F& f) const {
    for (int j = 0; j < columns; j += lanes) {
      const int width = columns - j < lanes ? columns - j : lanes;
      V tile[lanes] = {};
      for (int i = 0; i < count; ++i)
        if (width == lanes)
          tile[i] = load(data + i * stride + j);
        else
          memcpy(&tile[i], data + i * stride + j, sizeof(Real) * width);
      transpose(tile);
      f(tile, j, width);
    }
  }

  // f(j) gives column j
  template <class F>
  void write(Real* data, int64_t stride, const F& f) const {
    for (int j = 0; j < columns; j += lanes) {
      const int width = columns - j < lanes ? columns - j : lanes;
      V tile[lanes] = {};
      for (int i = 0; i < width; ++i) tile[i] = f(j + i);
      transpose(tile);
      for (int i = 0; i < count; ++i)
        if (width == lanes)
          store(data + i * stride + j, tile[i]);
        else
          memcpy(data + i * stride + j, &tile[i], sizeof(Real) * width);
    }
  }
};

// weights[j] = exp(logit j - shift); returns the sums, and the largest absolute value of a logit
inline V transposed_exponentials(const RowGroup& rows, const Real* logits, int64_t stride, V shift, Real* weights,
                                 int64_t step, V& top) {
  V total{};
  rows.read(logits, stride, [&](const V* tile, int j, int width) {
    for (int i = 0; i < width; ++i) {
      top = largest(largest(top, tile[i]), -tile[i]);
      const V e = exponential(tile[i] - shift);
      total += e;
      store(weights + (j + i) * step, e);
    }
  });
  return total;
}

inline V largest_logits(const RowGroup& rows, const Real* logits, int64_t stride) {
  V top = broadcast(-INFINITY);
  rows.read(logits, stride, [&](const V* tile, int, int width) {
    for (int i = 0; i < width; ++i) top = largest(tile[i], top);
  });
  return top;
}

// Returns the smallest weight, or -1 if a row has no sum.
inline Real normalize_rows(const RowGroup& rows, const Real* logits, int64_t stride, Real unit, Real* weights,
                           int64_t step) {
  const Real bound = 15;
  V top{};
  V total = transposed_exponentials(rows, logits, stride, V{}, weights, step, top);
  const bool bounded = reduce(top, largest) < bound;
  if (!bounded)
    total = transposed_exponentials(rows, logits, stride, largest_logits(rows, logits, stride), weights, step, top);
  const I used = lane() < rows.count;
  for (int i = 0; i < rows.count; ++i)
    if (!(total[i] > 0)) return -1;
  const V factor = used ? 1 / total : V{};
  V low = broadcast(1);
  for (int j = 0; j < rows.columns; ++j) {
    const V w = load(weights + j * step) * factor;
    low = smallest(low, used ? w : broadcast(1));
    store(weights + j * step, w * unit);
  }
  return bounded ? exponential(V{} - 2 * bound)[0] / rows.columns : reduce(low, smallest);
}

inline Real normalize_transposed(const Node& node, const Real* logits, int64_t, int64_t stride, Real* weights) {
  const Real unit = is_looked_up(node) ? power_of_two(Form::unit) : Real(1);
  Real low = 1;
  for (int o = 0; o < node.rows && low >= 0; o += lanes) {
    const RowGroup rows{node.rows - o < lanes ? node.rows - o : lanes, node.columns};
    const Real smallest = normalize_rows(rows, logits + o * stride, stride, unit, weights + o, weight_step(node.rows));
    low = smallest < low ? smallest : low;
  }
  return low;
}

inline void finish_transposed(const Node& node, const Real* weights, const Real* gradient, Real gradient_unit,
                              bool as_flows, Real* out, int64_t stride) {
  const Real factor = 1 / gradient_unit, unit = is_looked_up(node) ? power_of_two(-Form::unit) : Real(1);
  const int64_t step = weight_step(node.rows);
  for (int o = 0; o < node.rows; o += lanes) {
    const RowGroup rows{node.rows - o < lanes ? node.rows - o : lanes, node.columns};
    auto flow = [&](int j) { return load(weights + j * step + o) * load(gradient + j * step + o) * factor; };
    V total{};
    for (int j = 0; j < node.columns && !as_flows; ++j) total += flow(j);
    total *= unit;
    rows.write(out + o * stride, stride, [&](int j) { return flow(j) - load(weights + j * step + o) * total; });
  }
}

}  // namespace
}  // namespace hyperspn
