// Exponentials of many numbers, and the softmax that makes weights of logits.
#pragma once
#include "vectors.hpp"

namespace hyperspn {
namespace {

// exp(x) for x below 80, to full precision; 0 below the normal range, NaN for NaN.
inline V exponential(V x) {
  constexpr bool single = sizeof(Real) == 4;
  constexpr int degree = single ? 7 : 13;
  const Real lowest = single ? Real(-87.3) : Real(-708.3);
  const V clamped = x < lowest ? V{} + lowest : x;
  const Real shift = single ? Real(12582912.0) : Real(6755399441055744.0);  // 1.5 * 2^mantissa: rounds to an integer
  const V shifted = clamped * Real(1.44269504088896340736) + shift;
  const V n = shifted - shift;
  const Real log_two = single ? Real(0.693359375) : Real(0.693147180369123816490);
  const Real rest = single ? Real(-2.12194440e-4) : Real(1.90821492927058770002e-10);
  const V r = (clamped - n * log_two) - n * rest;
  Real coefficient[degree + 1] = {1};
  for (int i = 1; i <= degree; ++i) coefficient[i] = coefficient[i - 1] / i;
  V total = V{} + coefficient[degree];
  for (int i = degree - 1; i >= 0; --i) total = total * r + coefficient[i];
  const V power = (V)((((I)shifted - (I)(V{} + shift)) + Form::bias) << Form::mantissa);
  return x < lowest ? V{} : total * power;
}

inline void likelihoods(Real* x, int64_t count) {
  const int64_t whole = count / lanes * lanes;
  for (int64_t t = 0; t < whole; t += lanes) store(x + t, exponential(load(x + t)));
  if (whole == count) return;
  V rest{};
  memcpy(&rest, x + whole, sizeof(Real) * (count - whole));
  rest = exponential(rest);
  memcpy(x + whole, &rest, sizeof(Real) * (count - whole));
}

// weights = exp(logits), or exp(logits - largest of the row) if not all are between -bound and bound; returns whether
// they are. `readable` numbers can be read from logits on.
inline bool exponentials(const Real* logits, int64_t readable, int64_t stride, int rows, int columns, Real bound,
                         Real* weights) {
  const int64_t total = int64_t(rows) * columns, padded = (total + lanes - 1) / lanes * lanes;
  const Real* in = logits;
  if ((rows > 1 && stride != columns) || readable < padded) {
    for (int i = 0; i < rows; ++i) memcpy(weights + int64_t(i) * columns, logits + i * stride, sizeof(Real) * columns);
    for (int64_t t = total; t < padded; ++t) weights[t] = 0;
    in = weights;
  }
  V top{};
  for (int64_t t = 0; t < total; t += lanes) {
    V x = load(in + t);
    top = largest(largest(top, x), -x);
    store(weights + t, exponential(x));
  }
  if (reduce(top, largest) < bound) return true;
  for (int i = 0; i < rows; ++i) {
    const Real* row = logits + i * stride;
    Real shift = row[0];
    for (int j = 1; j < columns; ++j) shift = row[j] > shift ? row[j] : shift;
    for (int j = 0; j < columns; ++j) weights[int64_t(i) * columns + j] = row[j] - shift;
  }
  for (int64_t t = 0; t < total; t += lanes) store(weights + t, exponential(load(weights + t)));
  return false;
}

// f(row length), with a constant where it is small.
template <class F>
void with_length(int columns, const F& f) {
  if (columns <= 8)
    with_constant<8>(columns, f);
  else
    f(columns);
}

inline Real normalize(const Node& node, const Real* logits, int64_t readable, int64_t stride, Real* weights) {
  const int rows = node.rows, columns = node.columns;
  const Real bound = 15;
  const bool bounded = exponentials(logits, readable, stride, rows, columns, bound, weights);
  Real smallest = 1;
  bool valid = true;
  with_length(columns, [&](auto length) {
    for (int i = 0; i < rows; ++i) {
      Real* row = weights + int64_t(i) * length;
      Real sum = 0;
      for (int j = 0; j < length; ++j) sum += row[j];
      valid = valid & (sum > 0);
      Real factor = 1 / sum;
      for (int j = 0; j < length; ++j) row[j] *= factor;
    }
  });
  if (!valid) return -1;
  if (bounded) return exponential(V{} - 2 * bound)[0] / columns;
  for (int64_t t = 0; t < int64_t(rows) * columns; ++t) smallest = weights[t] < smallest ? weights[t] : smallest;
  return smallest;
}

inline void finish(const Node& node, const Real* weights, const Real* gradient, Real gradient_unit, bool as_flows,
                   Real* out, int64_t stride) {
  const Real factor = (is_looked_up(node) ? power_of_two(Form::unit) : 1) / gradient_unit;
  with_length(node.columns, [&](auto length) {
    for (int i = 0; i < node.rows; ++i) {
      const Real *w = weights + int64_t(i) * length, *g = gradient + int64_t(i) * length;
      Real* row = out + i * stride;
      Real total = 0;
      for (int j = 0; j < length; ++j) {
        row[j] = w[j] * g[j] * factor;
        total += row[j];
      }
      if (!as_flows)
        for (int j = 0; j < length; ++j) row[j] -= w[j] * total;
    }
  });
}

}  // namespace
}  // namespace hyperspn
