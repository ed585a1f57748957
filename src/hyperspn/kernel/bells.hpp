// Bells: the logits of sums over distributions that stand in a row, made from what is written for them, and their
// gradients led back to it. The formula is that of `bell_logits` in weights/bells.py.
#pragma once
#include <cmath>

#include "batch.hpp"

namespace hyperspn {

constexpr int mean_and_width = 2;  // are written before the logits of other distributions; the bell's own comes last

// One sum over the places t of a grid: logit = height - u^2 / 2 with u = (t - mean) / width, which takes equal steps.
struct Bell {
  double width, slope, first, step;  // slope: d width / d written; first and step of u
  bool moves, widens;                // whether mean and width are within their bounds

  template <class In>
  Bell(const In* written, const Grid& grid, int row) {
    constexpr double farthest = 20, widest = 5, narrowest = 0.5;
    const double mean = std::clamp<double>(written[0], -farthest, farthest) + grid.starts[row];
    slope = 0.5 * std::exp(std::min<double>(written[1], widest));
    width = narrowest * grid.step + slope;
    first = (grid.first - mean) / width, step = grid.step / width;
    moves = std::abs(written[0]) <= farthest, widens = written[1] <= widest;
  }

  double height(double logit) const {
    constexpr double log_root_two_pi = 0.91893853320467274178;
    return logit + std::log(step) - log_root_two_pi;
  }

  template <class Real>
  void logits(Real height, int count, Real* out) const {
    const Real from = Real(first), by = Real(step);
    for (int j = 0; j < count; ++j) {
      const Real u = from + Real(j) * by;
      out[j] = height - Real(0.5) * u * u;
    }
  }

  // Adds what the gradients g of the logits mean for mean, width and logit, from the sums of g, g u and g u^2.
  template <class Real, class In>
  void add_gradient(Real sum, Real first_moment, Real second_moment, int64_t numbers, In* out) const {
    out[0] += In(moves ? first_moment / width : 0);
    out[1] += In(widens ? (second_moment - sum) / width * slope : 0);
    out[numbers - 1] += In(sum);
  }
};

// The logits of a node, (rows, columns).
template <class Real, class In>
void write_logits(const Node& node, const Sectors<const In>& kind, Real* out) {
  const int hats = kind.hats(), others = node.columns - hats;
  const In* written = kind.at(node);
  for (int o = 0; o < node.rows; ++o, written += kind.columns, out += node.columns) {
    if (hats) {
      const Bell bell(written, *kind.grid, o);
      bell.logits(Real(bell.height(written[kind.columns - 1])), hats, out);
    }
    std::copy_n(written + (hats ? mean_and_width : 0), others, out + hats);
  }
}

// Adds their gradients, (rows, columns), to those of what is written.
template <class Real, class In>
void add_gradient(const Node& node, const Sectors<const In>& kind, const Real* gradient, const Sectors<In>& to) {
  const int hats = kind.hats();
  const In* written = kind.at(node);
  In* out = to.at(node);
  for (int o = 0; o < node.rows; ++o, written += kind.columns, out += kind.columns, gradient += node.columns) {
    if (hats) {
      const Bell bell(written, *kind.grid, o);
      Real sums[3] = {};
      for (int j = 0; j < hats; ++j) {
        const Real u = Real(bell.first) + Real(j) * Real(bell.step), g = gradient[j];
        sums[0] += g, sums[1] += g * u, sums[2] += g * u * u;
      }
      bell.add_gradient(sums[0], sums[1], sums[2], kind.columns, out);
    }
    In* others = out + (hats ? mean_and_width : 0);
    for (int j = hats; j < node.columns; ++j) others[j - hats] += In(gradient[j]);
  }
}

// For wide layers, which make weights of bells themselves, number by number of all rows: first, step and height, then
// the logits of other distributions, (3 + others, bell_stride(rows)).
template <class Real, class In>
void write_bells(const Node& node, const Sectors<const In>& kind, Real* out) {
  const int64_t stride = bell_stride(node.rows);
  const int others = node.columns - kind.hats();
  const In* written = kind.at(node);
  std::fill_n(out, (3 + others) * stride, Real(0));
  for (int o = 0; o < node.rows; ++o, written += kind.columns) {
    const Bell bell(written, *kind.grid, o);
    out[o] = Real(bell.first), out[stride + o] = Real(bell.step);
    out[2 * stride + o] = Real(bell.height(written[kind.columns - 1]));
    for (int j = 0; j < others; ++j) out[(3 + j) * stride + o] = written[mean_and_width + j];
  }
}

// Adds gradients that came in the same order: the sums for `Bell::add_gradient`, then those of other distributions.
template <class Real, class In>
void add_bell_gradients(const Node& node, const Sectors<const In>& kind, const Real* sums, const Sectors<In>& to) {
  const int64_t stride = bell_stride(node.rows);
  const int others = node.columns - kind.hats();
  const In* written = kind.at(node);
  In* out = to.at(node);
  for (int o = 0; o < node.rows; ++o, written += kind.columns, out += kind.columns) {
    const Bell bell(written, *kind.grid, o);
    bell.add_gradient(sums[o], sums[stride + o], sums[2 * stride + o], kind.columns, out);
    for (int j = 0; j < others; ++j) out[mean_and_width + j] += In(sums[(3 + j) * stride + o]);
  }
}

}  // namespace hyperspn
