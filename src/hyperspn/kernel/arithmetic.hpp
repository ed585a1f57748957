// What the arithmetic knows of a tree and of a block of samples, and the table of functions that it consists of.
#pragma once
#include <cstdint>

namespace hyperspn {

// A leaf is read as one code, as the likelihoods of all its distributions, or as those few that are not 0.
enum NodeType : int32_t { CATEGORICAL = 0, DENSE = 1, INNER = 2, SPARSE = 3 };

struct Node {
  int32_t type, variable, rows, columns, kind, sector;
  int32_t slot, place;  // where the values live without and with a tape
  int32_t gradient_slot;
  int32_t first_child, children;  // range in Program::children
  int64_t weight;                 // where its weights begin among those of the tree
};

// Whether the values of a leaf are looked up in its weights, or summed of few of them.
inline bool is_looked_up(const Node& node) { return node.type == CATEGORICAL || node.type == SPARSE; }

template <class Real>
struct Format;
template <>
struct Format<float> {
  using Integer = int32_t;
  static constexpr int mantissa = 23, bias = 127;
  static constexpr int unit = 40;   // values are scaled to [2^unit, 2^(unit+1))
  static constexpr int seed = 8;    // gradients are multiplied by 2^seed
  static constexpr int tame = -55;  // log2 of the smallest weight with which products of two lose nothing
};
template <>
struct Format<double> {
  using Integer = int64_t;
  static constexpr int mantissa = 52, bias = 1023;
  static constexpr int unit = 300, seed = 30, tame = -400;
};

// Some samples of one tree, in rows: a place has K rows of values, one of scales and one of losses. K is the size of a
// layer, or a little more.
template <class Real>
struct Block {
  const Node* nodes;  // of the tree
  int64_t node_count;
  const int32_t* children;
  int layer_size, rows, vectors, max_columns;  // rows K; a row is `vectors` vectors of samples

  const Real* weights;  // normalized; those of a node begin at Node::weight - weights_begin
  Real* weight_gradient;
  int64_t weights_begin;

  const void* codes;  // (variables, row_length)
  int code_bytes;
  const unsigned char* missing;  // per variable: whether any code is -1
  const Real* dense;             // (dense rows, row_length)
  Real* dense_gradient;
  const int32_t* dense_ptr;
  const int32_t*
      members;         // (sparse rows, row_length): of a variable one row after the other, -1 in its first if missing
  const Real* shares;  // their likelihoods; the first 0 of a variable is the last that counts
  const int32_t* sparse_ptr;
  int64_t row_length, first, valid;  // the block's first sample in a row, and its number of samples

  bool tape;
  bool risky;  // whether values may be too small for Real
  Real* places;
  Real* gradients;                            // per gradient slot K rows; the root's slot is 0
  typename Format<Real>::Integer* exponents;  // per sample: value = root * 2^(exponent - unit * leaves)
  Real* scratch;
  Real gradient_unit;  // gradients are multiplied by this power of two
};

// Linear layers with ReLU between them: layer l maps widths[l] to widths[l + 1] values.
template <class Real>
struct Layers {
  int count;
  const int* widths;
  const Real *const *weights, *const *biases;  // (widths[l + 1], widths[l]) and (widths[l + 1])
};

// Linear space in either precision on each instruction set, or log space: the walk over the trees is the same.
template <class Real>
struct Arithmetic {
  int lanes, vector_multiple;
  int fewest_vectors;  // of samples in a block, if there are so many
  int lookups;         // leaves of fewer values are looked up in a vector
  // Rows that are set aside for that many.
  int (*padded)(int rows);
  // Numbers of scratch that a block needs.
  int64_t (*scratch)(int rows, int max_children, int max_columns, int64_t width);
  // Softmax of the rows of a node's logits, of which `readable` numbers can be read. Returns the smallest weight, or -1
  // if a row has NaN, +inf or nothing finite.
  Real (*normalize)(const Node&, const Real* logits, int64_t readable, int64_t stride, Real* weights);
  // The same for a node of bells over that many distributions of a grid (see `write_bells`), and with `finish`; null
  // for an arithmetic that needs their logits.
  Real (*normalize_bells)(const Node&, int hats, const Real* bells, Real* weights);
  void (*finish_bells)(const Node&, int hats, const Real* bells, const Real* weights, const Real* gradient,
                       Real gradient_unit, bool as_flows, Real* out);
  // Turns log-likelihoods into what `Block::dense` holds.
  void (*likelihoods)(Real* x, int64_t count);
  // Nodes [first, last), and the same in reverse.
  void (*forward)(const Block<Real>&, int64_t first, int64_t last);
  void (*backward)(const Block<Real>&, int64_t first, int64_t last);
  // The log-values at the root of a tree of that many leaves; flags the samples that this arithmetic is too small for.
  void (*values)(const Block<Real>&, int leaves, Real* values, unsigned char* flagged);
  // Puts the gradient at the root in its place: 0 for flagged samples.
  void (*seed)(const Block<Real>&, const Real* seeds, const unsigned char* flagged);
  // From the gradient of a node's weights to F = w dL/dw, or to the gradient of the logits, F - w rowsum(F).
  void (*finish)(const Node&, const Real* weights, const Real* gradient, Real gradient_unit, bool as_flows, Real* out,
                 int64_t stride);
  // Rows [first, last), at most `network_vectors` vectors; `parameters` are the gradients of all weights and biases,
  // layer by layer.
  void (*network_forward)(const Layers<Real>&, const Real* in, int64_t first, int64_t last, Real* out, Real* scratch);
  void (*network_backward)(const Layers<Real>&, const Real* in, const Real* gradient, int64_t first, int64_t last,
                           Real* in_gradient, Real* parameters, Real* scratch);
};

// On the instruction set in use, for layers of that many rows above leaves of at most `largest_leaf` values: with
// samples as the vector dimension (narrow layers), or with rows (wide layers).
template <class Real>
const Arithmetic<Real>& linear_space(int rows, int largest_leaf);
constexpr int narrowest_wide = 8;  // layers with fewer rows are never wide
extern const Arithmetic<double> log_space;

constexpr int network_vectors = 8;
constexpr int weight_slack = 16;  // numbers that may be read beyond the last weight

// Rows of a node's bells are set aside for whole vectors.
inline int64_t bell_stride(int rows) { return (int64_t(rows) + 15) / 16 * 16; }

// Rows of a place: values, scale, loss.
inline int64_t place_rows(int rows) { return int64_t(rows) + 2; }

// How narrow layers and log space need it.
inline int as_it_is(int rows) { return rows; }
inline int64_t scratch_size(int rows, int max_children, int max_columns, int64_t width) {
  return (5 * int64_t(rows) + 2 * int64_t(max_columns) + 4 + max_children * place_rows(rows)) * width;
}

}  // namespace hyperspn
