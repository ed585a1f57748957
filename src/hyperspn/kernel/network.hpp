// A network of linear layers with ReLU between them, on many rows: out = W_L relu(... relu(W_1 x + b_1) ...) + b_L.
#pragma once
#include <numeric>
#include <vector>

#include "blocks.hpp"
#include "threads.hpp"

namespace hyperspn {

template <class Real>
class RowNetwork {
 public:
  std::vector<int> widths;
  std::vector<const Real*> weights, biases;

  // in (rows, first width), out (rows, last width)
  void forward(const Real* in, int64_t rows, Real* out, int threads) const {
    over_blocks(rows, threads, [&](int, const Layers<Real>& layers, Real* scratch, int64_t first, int64_t last) {
      arithmetic.network_forward(layers, in, first, last, out, scratch);
    });
  }

  // gradients of the input (rows, first width), of the weights and of the biases, which are added to
  void backward(const Real* in, const Real* gradient, int64_t rows, Real* in_gradient,
                const std::vector<Real*>& weight_gradients, const std::vector<Real*>& bias_gradients,
                int threads) const {
    std::vector<std::vector<Real>> parts(threads, std::vector<Real>(parameters()));
    over_blocks(rows, threads, [&](int thread, const Layers<Real>& layers, Real* scratch, int64_t first, int64_t last) {
      arithmetic.network_backward(layers, in, gradient, first, last, in_gradient, parts[thread].data(), scratch);
    });
    for (const auto& part : parts) add(part.data(), weight_gradients, bias_gradients);
  }

 private:
  const Arithmetic<Real>& arithmetic = linear_space<Real>(1, 1);

  int64_t parameters() const {
    int64_t total = 0;
    for (size_t l = 0; l < weights.size(); ++l) total += int64_t(widths[l + 1]) * (widths[l] + 1);
    return total;
  }

  void add(const Real* part, const std::vector<Real*>& weight_gradients,
           const std::vector<Real*>& bias_gradients) const {
    for (size_t l = 0; l < weights.size(); ++l) {
      const int64_t size = int64_t(widths[l + 1]) * widths[l];
      for (int64_t i = 0; i < size; ++i) weight_gradients[l][i] += *part++;
      for (int i = 0; i < widths[l + 1]; ++i) bias_gradients[l][i] += *part++;
    }
  }

  template <class F>
  void over_blocks(int64_t rows, int threads, F&& f) const {
    const Layers<Real> layers{int(weights.size()), widths.data(), weights.data(), biases.data()};
    const int64_t block = int64_t(network_vectors) * arithmetic.lanes, blocks = (rows + block - 1) / block;
    const int64_t values = 1 + 2 * std::accumulate(widths.begin(), widths.end(), int64_t(0));
    run_threads(threads, [&](int thread) {
      Buffer<Real> scratch(values * block);
      for (int64_t k = blocks * thread / threads; k < blocks * (thread + 1) / threads; ++k)
        f(thread, layers, scratch.get(), k * block, std::min(rows, (k + 1) * block));
    });
  }
};

}  // namespace hyperspn
