// What the arithmetic needs to know, and the table of functions that every instruction set provides.
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

namespace hyperspn {

enum NodeType : int32_t { CATEGORICAL = 0, DENSE = 1, INNER = 2 };

struct Node {
  int32_t type, variable, rows, columns, kind, sector;
  int32_t slot, place;            // where the output lives without and with a tape
  int32_t gradient_slot;
  int32_t first_child, children;  // range in Program::children
  int64_t weight;                 // offset in the weights of the tree
};

template <class Real> struct Format;
template <> struct Format<float> {
  using Integer = int32_t;
  static constexpr int mantissa = 23, bias = 127;
  static constexpr int unit = 40;        // values are scaled to [2^unit, 2^(unit+1))
  static constexpr int seed = 20;        // seeds are multiplied by 2^seed
  static constexpr int tame = -55;       // log2 of the smallest weight with which products of two lose nothing
};
template <> struct Format<double> {
  using Integer = int64_t;
  static constexpr int mantissa = 52, bias = 1023;
  static constexpr int unit = 300, seed = 150, tame = -400;
};

// One block of samples of one tree. A row is `vectors` vectors of samples; a place has K rows, their scale and their loss.
template <class Real> struct Block {
  using Integer = typename Format<Real>::Integer;
  const Node* nodes;        // of the tree
  int64_t node_count;
  const int32_t* children;
  int rows, vectors, max_columns;
  const Real* weights;      // normalised, at Node::weight
  const void* codes;        // (variables, samples)
  int code_bytes;
  const unsigned char* missing;  // per variable: whether any code is -1
  const Real* dense;        // (dense rows, samples)
  const int32_t* dense_ptr;
  int64_t samples, first, valid;  // row length, the block's first sample, its number of samples
  bool tape;
  bool risky;               // whether values may be too small for Real
  Real* places;
  Real* gradients;          // per gradient slot K rows; the root's slot is 0
  Integer* exponent;        // value = root * 2^(exponent - unit * leaves)
  Real* scratch;
  Real* weight_gradient;    // like weights
  Real* dense_gradient;     // like dense
};

// Linear layers with ReLU between them: layer l maps widths[l] to widths[l + 1] values.
template <class Real> struct Layers {
  int count;
  std::vector<int> widths;
  std::vector<const Real*> weights, biases;  // (widths[l + 1], widths[l]) and (widths[l + 1])
};

template <class Real> struct Functions {
  int lanes, vector_multiple;
  // softmax of the rows of logits (row stride given; `readable` numbers can be read from there on); returns the smallest weight, -1 for NaN or a row of -inf
  Real (*normalise)(const Real* logits, int64_t readable, int64_t stride, int rows, int columns, Real* weights);
  void (*forward)(const Block<Real>&, int64_t first, int64_t last);
  // flagged: the samples that must be evaluated again, more exactly
  void (*values)(const Block<Real>&, int leaves, Real* logvalue, unsigned char* flagged);
  void (*seed)(const Block<Real>&, const Real* seeds, const unsigned char* flagged);
  void (*backward)(const Block<Real>&, int64_t first, int64_t last);
  // F = W (factor gradient) + flows (may be null); out = F, or F - W rowsum(F)
  void (*finish)(const Real* weights, const Real* gradient, Real factor, const double* flows, int rows, int columns, bool as_flows, Real* out, int64_t stride);
  // rows [first, last), at most network_vectors vectors of them; parameters: the gradients of all weights and biases, layer by layer
  void (*network_forward)(const Layers<Real>&, const Real* in, int64_t first, int64_t last, Real* out, Real* scratch);
  void (*network_backward)(const Layers<Real>&, const Real* in, const Real* gradient, int64_t first, int64_t last, Real* in_gradient, Real* parameters, Real* scratch);
};

constexpr int network_vectors = 8;

constexpr int weight_slack = 16;  // vectors of weights may be read beyond the last node's

// Rows of a place: values, scale, loss.
inline int64_t place_rows(int rows) { return int64_t(rows) + 2; }

// Rows of scratch that a block needs.
inline int64_t scratch_rows(int rows, int max_children, int max_columns) {
  return int64_t(rows) * 3 + 2 * int64_t(max_columns) + 4 + 2 * int64_t(rows) + max_children * place_rows(rows);
}

#define HYPERSPN_DECLARE(isa)                     \
  namespace isa {                                 \
  extern const Functions<float> float_functions;  \
  extern const Functions<double> double_functions; \
  }
HYPERSPN_DECLARE(baseline)
#ifdef HYPERSPN_X86
HYPERSPN_DECLARE(avx2)
HYPERSPN_DECLARE(avx512)
#endif
#undef HYPERSPN_DECLARE

}  // namespace hyperspn
