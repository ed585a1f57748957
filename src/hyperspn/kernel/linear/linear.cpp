// The arithmetic of linear space: one instruction set, one precision.
#include "network.hpp"
#include "nodes.hpp"
#include "wide_bells.hpp"
#include "wide_nodes.hpp"

namespace hyperspn {
namespace {

template <class Forward>
void forward(const Block<Real>& b, int64_t first, int64_t last) {
  const Forward forward(b);
  for (int64_t u = first; u < last; ++u)
    if (b.nodes[u].type == INNER || u + 1 == b.node_count) forward.node(b.nodes[u]);
}

template <class Backward>
void backward(const Block<Real>& b, int64_t first, int64_t last) {
  const Backward backward(b);
  for (int64_t u = last - 1; u >= first; --u)
    if (b.nodes[u].type == INNER || u + 1 == b.node_count) backward.node(b.nodes[u]);
}

inline float logarithm(float x) { return logf(x); }
inline double logarithm(double x) { return log(x); }

// log(root / 2^unit) + (exponent + unit - unit * leaves) log 2
void values(const Block<Real>& b, int leaves, Real* values, unsigned char* flagged) {
  const double log_two = 0.693147180559945309417232;
  const Node& root = b.nodes[b.node_count - 1];
  const Frame frame(b);
  const Real *x = (const Real*)frame.place(root), *lost = (const Real*)frame.losses(root);
  const Real unit = power_of_two(-Form::unit), acceptable = power_of_two(Form::unit - Form::mantissa - 3);
  for (int64_t s = 0; s < b.valid; ++s) {
    double e = double(b.exponents[s]) + Form::unit - double(Form::unit) * leaves;
    values[s] = Real(double(logarithm(x[s] * unit)) + e * log_two);
    flagged[s] = !(x[s] * unit >= 1) || (b.risky && !(lost[s] <= acceptable));
  }
}

// seed / root, times the root's scale
void seed(const Block<Real>& b, const Real* seeds, const unsigned char* flagged) {
  const Node& node = b.nodes[b.node_count - 1];
  const Frame frame(b);
  const Real *root = (const Real*)frame.place(node), *factor = (const Real*)frame.scales(node);
  for (int64_t s = 0; s < int64_t(b.vectors) * lanes; ++s)
    b.gradients[s] = s < b.valid && !flagged[s] ? seeds[s] * b.gradient_unit / root[s] * factor[s] : Real(0);
}

int64_t wide_scratch(int rows, int max_children, int max_columns, int64_t width) {
  return wide_reserve(max_columns, width) + scratch_size(rows, max_children, max_columns, width);
}

}  // namespace

#define JOIN(a, b) a##b
#define NAME(real, layers) JOIN(real, layers)

namespace KERNEL_ISA {
extern const Arithmetic<Real> NAME(KERNEL_REAL, _narrow), NAME(KERNEL_REAL, _wide);
const Arithmetic<Real> NAME(KERNEL_REAL, _narrow) = {
    lanes,
    vector_multiple,
    8,
    has_lookups ? lanes : 0,
    as_it_is,
    scratch_size,
    normalize,
    nullptr,
    nullptr,
    likelihoods,
    forward<Forward>,
    backward<Backward>,
    values,
    seed,
    finish,
    network_forward,
    network_backward,
};
const Arithmetic<Real> NAME(KERNEL_REAL, _wide) = {
    lanes,
    vector_multiple,
    128 / lanes,
    0,
    padded_rows,
    wide_scratch,
    normalize_transposed,
    normalize_bells,
    finish_bells,
    likelihoods,
    forward<WideForward>,
    backward<WideBackward>,
    values,
    seed,
    finish_transposed,
    network_forward,
    network_backward,
};
}  // namespace KERNEL_ISA

}  // namespace hyperspn
