// A network of linear layers with ReLU between them, on many rows: out = W_L relu(... relu(W_1 x + b_1) ...) + b_L.
#pragma once
#include <vector>

#include "engine.hpp"

namespace hyperspn {

template <class Real> class RowNetwork {
 public:
  RowNetwork(std::vector<int> widths, std::vector<const Real*> weights, std::vector<const Real*> biases)
      : layers{int(weights.size()), std::move(widths), std::move(weights), std::move(biases)} {}

  // in (rows, first width), out (rows, last width)
  void forward(const Real* in, int64_t rows, Real* out, int threads) const {
    over_blocks(rows, threads, [&](int, Buffer<Real>& scratch, int64_t first, int64_t last) { kernel.network_forward(layers, in, first, last, out, scratch.get()); });
  }

  // gradients of the input (rows, first width), of the weights and of the biases, which are added to
  void backward(const Real* in, const Real* gradient, int64_t rows, Real* in_gradient, const std::vector<Real*>& weights, const std::vector<Real*>& biases, int threads) const {
    std::vector<std::vector<Real>> parts(threads, std::vector<Real>(parameters()));
    over_blocks(rows, threads, [&](int thread, Buffer<Real>& scratch, int64_t first, int64_t last) {
      kernel.network_backward(layers, in, gradient, first, last, in_gradient, parts[thread].data(), scratch.get());
    });
    for (const auto& part : parts) add(part.data(), weights, biases);
  }

 private:
  Layers<Real> layers;
  const Functions<Real>& kernel = functions<Real>();

  int64_t parameters() const {
    int64_t total = 0;
    for (int l = 0; l < layers.count; ++l) total += int64_t(layers.widths[l + 1]) * (layers.widths[l] + 1);
    return total;
  }

  void add(const Real* part, const std::vector<Real*>& weights, const std::vector<Real*>& biases) const {
    for (int l = 0; l < layers.count; ++l) {
      int64_t size = int64_t(layers.widths[l + 1]) * layers.widths[l];
      for (int64_t i = 0; i < size; ++i) weights[l][i] += *part++;
      for (int i = 0; i < layers.widths[l + 1]; ++i) biases[l][i] += *part++;
    }
  }

  template <class F> void over_blocks(int64_t rows, int threads, F&& f) const {
    const int64_t block = int64_t(network_vectors) * kernel.lanes, blocks = (rows + block - 1) / block;
    run_threads(threads, [&](int thread) {
      int64_t values = 2;
      for (int width : layers.widths) values += 3 * width;
      Buffer<Real> scratch(values * block);
      for (int64_t k = blocks * thread / threads; k < blocks * (thread + 1) / threads; ++k) f(thread, scratch, k * block, std::min(rows, (k + 1) * block));
    });
  }
};

}  // namespace hyperspn
