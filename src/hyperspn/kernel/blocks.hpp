// Memory, and how the samples of a tree are cut into blocks that fit into the caches.
#pragma once
#include <algorithm>
#include <cstdlib>
#include <memory>
#include <new>
#include <utility>

#include "program.hpp"

namespace hyperspn {

// Uninitialized memory, aligned for vectors.
template <class T>
class Buffer {
 public:
  Buffer() = default;
  explicit Buffer(int64_t size) : size(size) {
    if (size == 0) return;
    data.reset(static_cast<T*>(std::aligned_alloc(64, (size * sizeof(T) + 63) / 64 * 64)));
    if (!data) throw std::bad_alloc();
  }
  Buffer(Buffer&& other) noexcept : size(std::exchange(other.size, 0)), data(std::move(other.data)) {}
  Buffer& operator=(Buffer&& other) noexcept {
    size = std::exchange(other.size, 0), data = std::move(other.data);
    return *this;
  }
  T* get() const { return data.get(); }
  void fill(T x) { std::fill(data.get(), data.get() + size, x); }
  int64_t size = 0;

 private:
  struct Free {
    void operator()(T* p) const { std::free(p); }
  };
  std::unique_ptr<T, Free> data;
};

// How the samples are cut into blocks.
struct Blocks {
  int vectors = 0;
  int64_t width = 0, count = 0;

  Blocks() = default;

  // `places` live at once; at least `wanted` blocks if there are enough samples. The values of a node and its children
  // should fit into the nearest caches, those of all places into the level-2 cache; but sums over few vectors do not
  // pay.
  template <class Real>
  Blocks(const Arithmetic<Real>& arithmetic, int64_t samples, int rows, int places, int64_t wanted) {
    const int64_t near = 80 << 10, far = 1600 << 10, fewest = arithmetic.fewest_vectors;
    const int64_t lanes = arithmetic.lanes, multiple = arithmetic.vector_multiple;
    const int64_t row_bytes = place_rows(rows) * lanes * sizeof(Real);
    const int64_t total = std::max<int64_t>(1, (samples + lanes - 1) / lanes);
    int64_t most = std::max(std::min(near / (4 * row_bytes), far / (places * row_bytes)), fewest);
    most = std::min(most, (total + wanted - 1) / wanted);
    most = std::max<int64_t>(most / multiple, 1) * multiple;
    const int64_t blocks = (total + most - 1) / most;
    vectors = int(((total + blocks - 1) / blocks + multiple - 1) / multiple * multiple);
    width = vectors * lanes;
    count = (samples + width - 1) / width;
  }
};

// The values of blocks, their pending gradients and their exponents.
template <class Real>
struct Memory {
  using Integer = typename Format<Real>::Integer;
  int64_t place_size = 0, gradient_size = 0, width = 0;  // of one block
  Buffer<Real> places, gradients;
  Buffer<Integer> exponents;

  Memory() = default;
  Memory(int rows, int place_count, int gradient_slots, int64_t width, int64_t blocks)
      : place_size(place_count * place_rows(rows) * width),
        gradient_size(int64_t(gradient_slots) * rows * width),
        width(width),
        places(place_size * blocks),
        gradients(gradient_size * blocks),
        exponents(width * blocks) {
    exponents.fill(0);
  }

  void attach(Block<Real>& b, int64_t k) const {
    b.places = places.get() + k * place_size;
    b.gradients = gradients.get() + k * gradient_size;
    b.exponents = exponents.get() + k * width;
  }
};

}  // namespace hyperspn
