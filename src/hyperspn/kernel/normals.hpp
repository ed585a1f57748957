// Numbers under normal distributions and point masses: log-likelihoods, and the gradients of means and deviations.
#pragma once
#include <cstdint>

namespace hyperspn {

struct Normal {
  double mean, std;
};

// Columns of cells of normal scores. Of a cell with both ends the same the density of this score counts, of one with
// ends NaN only the point mass.
template <class Real>
struct NormalColumns {
  int64_t samples;
  int variables, members, points;
  const Real *low, *high, *offset;    // (samples, variables)
  const int64_t* point;               // (samples, variables), -1 for none
  const bool* missing;                // (samples, variables)
  const Real* point_log_likelihoods;  // (variables, points)
  const Normal* normals;              // (variables, members)
  const int32_t* row_ptr;             // (variables + 1): the rows of a variable, normals first, then its points
};

// On one instruction set.
template <class Real>
struct NormalArithmetic {
  int64_t most;  // samples at once
  // Log-likelihoods (rows, samples) of samples [first, last) of a column, minus the largest of each, (samples).
  void (*forward)(const NormalColumns<Real>&, int variable, int64_t first, int64_t last, Real* out, Real* largest);
  // From the gradients of all log-likelihoods, and the results of `forward`, to those of means and deviations,
  // (members, 2).
  void (*backward)(const NormalColumns<Real>&, int variable, const Real* out, const Real* largest, const Real* gradient,
                   double* parameters);
};

template <class Real>
const NormalArithmetic<Real>& normal_arithmetic();  // on the instruction set in use

}  // namespace hyperspn
