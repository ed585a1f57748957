// Small matrix products that stay in registers: sums with weights, and the gradients of these.
#pragma once
#include "vectors.hpp"

namespace hyperspn {
namespace {

constexpr int max_rows = 8;                             // tile of a sum: max_rows x wide(rows) vectors
constexpr int max_outer = many_registers ? 5 : 3;       // tile of a weight gradient
constexpr int max_categories = many_registers ? 4 : 2;  // tile of a look-up's gradient: max_rows x max_categories
constexpr int wide(int rows) { return rows <= 6 ? vector_multiple : vector_multiple / 2; }

// What a sum runs over: values in memory, look-ups, or a product of two of these. at(j, v): row j, vector v.
struct Values {
  const V* x;
  int vectors;
  V at(int j, int v) const { return x[int64_t(j) * vectors + v]; }
};
struct Lookup {
  const V* tables;  // one per row
  const I* index;
  V at(int j, int v) const { return permute(tables[j], index[v]); }
};
template <class A, class B>
struct Product {
  A a;
  B b;
  V at(int j, int v) const { return a.at(j, v) * b.at(j, v); }
};

// total[i] = sum_j weight[i * row_stride + j * column_stride] in[j]; then(v, total) for every wide(rows) vectors from v
template <int rows, class In, class Then>
void sum_tile(const Real* weight, int64_t row_stride, int64_t column_stride, const In& in, int columns, int vectors,
              const Then& then) {
  constexpr int width = wide(rows);
  for (int v = 0; v < vectors; v += width) {
    V total[rows][width], x[width];
    repeat<width>([&](auto q) INLINE { x[q] = in.at(0, v + q); });
    repeat<rows>([&](auto i) INLINE {
      Real w = weight[i * row_stride];
      repeat<width>([&](auto q) INLINE { total[i][q] = w * x[q]; });
    });
    for (int j = 1; j < columns; ++j) {
      repeat<width>([&](auto q) INLINE { x[q] = in.at(j, v + q); });
      repeat<rows>([&](auto i) INLINE {
        Real w = weight[i * row_stride + j * column_stride];
        repeat<width>([&](auto q) INLINE { total[i][q] += w * x[q]; });
      });
    }
    then(v, total);
  }
}

// out[i] = sum_j weight[i * row_stride + j * column_stride] in[j]
inline void sum(const Real* weight, int64_t row_stride, int64_t column_stride, const V* in, int rows, int columns,
                V* out, int vectors) {
  Parts tiles(rows, max_rows);
  for (int t = 0; t < tiles.count; ++t) {
    int begin = tiles.begin(t);
    with_constant<max_rows>(tiles.begin(t + 1) - begin, [&](auto n) {
      auto write = [&](int v, auto& total) INLINE {
        repeat<n>([&](auto i) INLINE {
          repeat<wide(n)>([&](auto q) INLINE { out[int64_t(begin + i) * vectors + v + q] = total[i][q]; });
        });
      };
      sum_tile<n>(weight + begin * row_stride, row_stride, column_stride, Values{in, vectors}, columns, vectors, write);
    });
  }
}

// out[i * stride + j] += sum over samples of left[i] right[j]
template <int rows, int columns>
void outer_tile(const V* left, const V* right, int vectors, Real* out, int64_t stride) {
  V total[rows * columns] = {}, x[rows];
  for (int v = 0; v < vectors; ++v) {
    repeat<rows>([&](auto i) INLINE { x[i] = left[int64_t(i) * vectors + v]; });
    repeat<columns>([&](auto j) INLINE {
      V y = right[int64_t(j) * vectors + v];
      repeat<rows>([&](auto i) INLINE { total[i * columns + j] += x[i] * y; });
    });
  }
  add_lane_sums<rows, columns>(total, out, stride);
}

inline void outer(const V* left, const V* right, int rows, int columns, int vectors, Real* out) {
  Parts row_tiles(rows, max_outer), column_tiles(columns, max_outer);
  for (int s = 0; s < row_tiles.count; ++s)
    for (int t = 0; t < column_tiles.count; ++t) {
      int i = row_tiles.begin(s), j = column_tiles.begin(t);
      with_constant<max_outer>(row_tiles.begin(s + 1) - i, [&](auto m) {
        with_constant<max_outer>(column_tiles.begin(t + 1) - j, [&](auto n) {
          const V *tile = left + int64_t(i) * vectors, *others = right + int64_t(j) * vectors;
          outer_tile<m, n>(tile, others, vectors, out + int64_t(i) * columns + j, columns);
        });
      });
    }
}

// out[i * stride + c] += sum of gradient[i] over the samples whose index is first + c
template <int rows, int categories>
void category_tile(const V* gradient, const I* index, Integer first, int vectors, Real* out, int64_t stride) {
  V total[rows * categories] = {};
  for (int v = 0; v < vectors; ++v)
    repeat<categories>([&](auto c) INLINE {
      I match = index[v] == first + c;
      repeat<rows>([&](auto i)
                       INLINE { total[i * categories + c] += match ? gradient[int64_t(i) * vectors + v] : V{}; });
    });
  add_lane_sums<rows, categories>(total, out, stride);
}

// The same for all categories.
inline void category_sums(const V* gradient, const I* index, int rows, int categories, int vectors, Real* out,
                          int64_t stride) {
  Parts row_tiles(rows, max_rows), category_tiles(categories, max_categories);
  for (int s = 0; s < row_tiles.count; ++s)
    for (int t = 0; t < category_tiles.count; ++t) {
      int i = row_tiles.begin(s), c = category_tiles.begin(t);
      with_constant<max_rows>(row_tiles.begin(s + 1) - i, [&](auto m) {
        with_constant<max_categories>(category_tiles.begin(t + 1) - c, [&](auto n) {
          category_tile<m, n>(gradient + int64_t(i) * vectors, index, c, vectors, out + i * stride + c, stride);
        });
      });
    }
}

}  // namespace
}  // namespace hyperspn
