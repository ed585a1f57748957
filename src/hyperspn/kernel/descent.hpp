// From roots down to leaves: through one input of each sum, drawn or the best one, to one distribution per variable.
#pragma once
#include "arithmetic.hpp"

namespace hyperspn {

enum class Choose { PRIOR, POSTERIOR, BEST };

// What was chosen for some travelers, (travelers, columns), and where the leaves of a program write to.
struct Members {
  int64_t* data;
  int64_t columns;
  const int32_t *of_codes, *of_dense, *of_sparse;  // the column of each variable
};

// Travelers in one tree, each with the sample of the batch that it belongs to, and the key of its random numbers.
template <class Real>
struct Party {
  const Node* nodes;  // of the tree
  int64_t node_count;
  const int32_t *children, *parents;  // parents counted from the first node
  int rows, max_columns, vectors;     // rows K; a row is `vectors` vectors of travelers
  Choose choose;
  const Real *weights, *logs;  // normalized, and their logarithms; those of a node begin at Node::weight
  const void* codes;           // (variables, row_length)
  int code_bytes;
  const Real* dense;  // logarithms, (dense rows, row_length)
  const int32_t* dense_ptr;
  const int32_t* members_at;  // (sparse rows, row_length), see Block
  const Real* shares;
  const int32_t* sparse_ptr;
  int64_t row_length;

  int64_t valid;
  int64_t *travelers, *samples;
  uint64_t* keys;
  Members members;

  Real* inputs;     // per place K rows: logarithms of the inputs of a sum
  Real* values;     // log-values at the root
  Real* scratch;    // 2 K + 2 max_columns + 1 rows
  int32_t* states;  // per node: the output through which a traveler comes
};

// On one instruction set.
template <class Real>
struct DescentArithmetic {
  int lanes;
  // Weights of a node from its logits: those of PRIOR are cumulative, those of BEST, for categories, the largest
  // logarithm of each row. Returns whether all rows have a finite logit, and no NaN or +inf.
  bool (*normalize)(const Node&, const Real* logits, int64_t stride, Choose, Real* weights, Real* logs);
  void (*up)(const Party<Real>&);    // inputs and values
  void (*down)(const Party<Real>&);  // members, from the inputs unless PRIOR
};

template <class Real>
const DescentArithmetic<Real>& descent_arithmetic();  // on the instruction set in use

}  // namespace hyperspn
