// Networks of linear layers with ReLU between them: here the rows are the vector dimension.
#pragma once
#include "tiles.hpp"

namespace hyperspn {
namespace {

struct Network {
  static constexpr int vectors = network_vectors;
  static constexpr int64_t block = int64_t(vectors) * lanes;

  const Layers<Real>& layers;
  V* ones;
  int64_t total_width;

  Network(const Layers<Real>& layers, Real* scratch) : layers(layers), ones((V*)scratch), total_width(0) {
    for (int l = 0; l <= layers.count; ++l) total_width += layers.widths[l];
    for (int v = 0; v < vectors; ++v) ones[v] = broadcast(1);
  }

  // The inputs of layer l, or the outputs of the last: (width, block)
  V* values(int l) const {
    int64_t before = 1;
    for (int i = 0; i < l; ++i) before += layers.widths[i];
    return ones + before * vectors;
  }
  V* gradients(int l) const { return values(l) + total_width * vectors; }

  // (rows, width) from first on <-> (width, block)
  static void read(const Real* in, int64_t first, int64_t last, int width, V* out) {
    Real* to = (Real*)out;
    for (int j = 0; j < width; ++j) {
      for (int64_t r = first; r < last; ++r) to[j * block + r - first] = in[r * width + j];
      for (int64_t r = last - first; r < block; ++r) to[j * block + r] = 0;
    }
  }
  static void write(const V* in, int64_t first, int64_t last, int width, Real* out) {
    const Real* from = (const Real*)in;
    for (int64_t r = first; r < last; ++r)
      for (int j = 0; j < width; ++j) out[r * width + j] = from[j * block + r - first];
  }

  void forward(const Real* in, int64_t first, int64_t last, int count) const {
    read(in, first, last, layers.widths[0], values(0));
    for (int l = 0; l < count; ++l) {
      const int rows = layers.widths[l + 1], columns = layers.widths[l];
      const V floor = l + 1 < layers.count ? V{} : broadcast(-INFINITY);
      V* out = values(l + 1);
      sum(layers.weights[l], columns, 1, values(l), rows, columns, out, vectors);
      for (int i = 0; i < rows; ++i, out += vectors)
        for (int v = 0; v < vectors; ++v) out[v] = largest(out[v] + layers.biases[l][i], floor);
    }
  }

  // The gradients of layer l's weights and biases, and of its inputs.
  void step_back(int l, Real* weights) const {
    const int rows = layers.widths[l + 1], columns = layers.widths[l];
    const V *gradient = gradients(l + 1), *in = values(l);
    V* in_gradient = gradients(l);
    outer(gradient, in, rows, columns, vectors, weights);
    outer(gradient, ones, rows, 1, vectors, weights + int64_t(rows) * columns);
    sum(layers.weights[l], 1, columns, gradient, columns, rows, in_gradient, vectors);
    if (l == 0) return;
    for (int64_t t = 0; t < int64_t(columns) * vectors; ++t) in_gradient[t] = in[t] > 0 ? in_gradient[t] : V{};
  }
};

inline void network_forward(const Layers<Real>& layers, const Real* in, int64_t first, int64_t last, Real* out,
                            Real* scratch) {
  Network network(layers, scratch);
  network.forward(in, first, last, layers.count);
  network.write(network.values(layers.count), first, last, layers.widths[layers.count], out);
}

inline void network_backward(const Layers<Real>& layers, const Real* in, const Real* gradient, int64_t first,
                             int64_t last, Real* in_gradient, Real* parameters, Real* scratch) {
  Network network(layers, scratch);
  network.forward(in, first, last, layers.count - 1);
  network.read(gradient, first, last, layers.widths[layers.count], network.gradients(layers.count));
  Real* end = parameters;
  for (int l = 0; l < layers.count; ++l) end += int64_t(layers.widths[l + 1]) * (layers.widths[l] + 1);
  for (int l = layers.count - 1; l >= 0; --l)
    network.step_back(l, end -= int64_t(layers.widths[l + 1]) * (layers.widths[l] + 1));
  network.write(network.gradients(0), first, last, layers.widths[0], in_gradient);
}

}  // namespace
}  // namespace hyperspn
