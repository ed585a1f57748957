// Bells in wide layers: rows are the vector dimension, and no logit is ever in memory.
#pragma once
#include "transposed.hpp"

namespace hyperspn {
namespace {

// Of some rows, a vector of them: u = first + j step at place j.
struct BellGroup {
  V first, step, height;
  const Real* others;  // logits of other distributions, `stride` apart
  int64_t stride;

  BellGroup(const Node& node, const Real* bells, int row) : stride(bell_stride(node.rows)) {
    first = load(bells + row), step = load(bells + stride + row), height = load(bells + 2 * stride + row);
    others = bells + 3 * stride + row;
  }
  V at(int j) const { return first + Real(j) * step; }

  // A bound for all logits, which the largest one comes near.
  V largest_logit(int hats, int count) const {
    const V last = at(hats - 1), nearest = first > 0 ? first : (last < 0 ? last : V{});
    V top = height - Real(0.5) * nearest * nearest;
    for (int j = 0; j < count; ++j) top = largest(load(others + j * stride), top);
    return top;
  }
};

inline Real normalize_bells(const Node& node, int hats, const Real* bells, Real* weights) {
  const int64_t step = weight_step(node.rows);
  const Real unit = is_looked_up(node) ? power_of_two(Form::unit) : Real(1);
  V low = broadcast(1);
  for (int o = 0; o < node.rows; o += lanes) {
    const BellGroup group(node, bells, o);
    const V shift = group.largest_logit(hats, node.columns - hats), top = group.height - shift;
    Real* out = weights + o;
    V total{};
    for (int j = 0; j < hats; ++j, out += step) {
      const V u = group.at(j), e = exponential(top - Real(0.5) * u * u);
      total += e;
      store(out, e);
    }
    for (int j = hats; j < node.columns; ++j, out += step) {
      const V e = exponential(load(group.others + (j - hats) * group.stride) - shift);
      total += e;
      store(out, e);
    }
    const I used = lane() + o < node.rows;
    for (int i = 0; i < lanes; ++i)
      if (used[i] && !(total[i] > 0)) return -1;
    const V factor = used ? 1 / total : V{};
    for (int j = 0; j < node.columns; ++j) {
      const V w = load(weights + o + j * step) * factor;
      low = smallest(low, used ? w : broadcast(1));
      store(weights + o + j * step, w * unit);
    }
  }
  return reduce(low, smallest);
}

// From the gradient of weights to the sums that `Bell::add_gradient` takes, of the gradients or of flows, and those of
// other distributions.
inline void finish_bells(const Node& node, int hats, const Real* bells, const Real* weights, const Real* gradient,
                         Real gradient_unit, bool as_flows, Real* out) {
  const int64_t step = weight_step(node.rows);
  const Real factor = 1 / gradient_unit, unit = is_looked_up(node) ? power_of_two(-Form::unit) : Real(1);
  for (int o = 0; o < node.rows; o += lanes) {
    const BellGroup group(node, bells, o);
    V flows[3] = {}, shares[3] = {};  // sums of flows and of weights times 1, u and u^2
    for (int j = 0; j < hats; ++j) {
      const V u = group.at(j), w = load(weights + o + j * step), f = w * load(gradient + o + j * step) * factor;
      flows[0] += f, flows[1] += f * u, flows[2] += f * u * u;
      shares[0] += w, shares[1] += w * u, shares[2] += w * u * u;
    }
    auto flow = [&](int j) { return load(weights + o + j * step) * load(gradient + o + j * step) * factor; };
    V total = flows[0];
    for (int j = hats; j < node.columns; ++j) total += flow(j);
    total *= as_flows ? Real(0) : unit;
    for (int k = 0; k < 3; ++k) store(out + k * group.stride + o, flows[k] - shares[k] * total);
    for (int j = hats; j < node.columns; ++j)
      store(out + (3 + j - hats) * group.stride + o, flow(j) - load(weights + o + j * step) * total);
  }
}

}  // namespace
}  // namespace hyperspn
