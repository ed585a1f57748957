// Products of matrices of any size, in tiles that stay in registers. Here the columns of the result are the vector
// dimension.
#pragma once
#include "vectors.hpp"

namespace hyperspn {
namespace {

constexpr int tile_vectors = many_registers ? 24 : 12;  // of a tile of the result
constexpr int panel_vectors = many_registers ? 4 : 2;   // vectors in a row of a panel
constexpr int panel_depth = 256;                        // rows of a panel that are used at a time

// Entry (i, j) is data[i * row_step + j * column_step].
struct Matrix {
  const Real* data;
  int64_t row_step, column_step;
  const Real* at(int64_t i, int64_t j) const { return data + i * row_step + j * column_step; }
};

// out (+)= left * right: `rows` rows of left, `depth` rows of right, each of `width` vectors
template <int rows, int width>
void product_tile(const Matrix& left, const Real* right, int64_t right_step, int64_t depth, bool add, Real* out,
                  int64_t out_step) {
  constexpr int groups = (rows + 4) / 5;
  V total[rows][width] = {};
  if (add)
    repeat<rows>([&](auto i) INLINE {
      repeat<width>([&](auto q) INLINE { total[i][q] = load(out + i * out_step + q * lanes); });
    });
  // five rows are addressed from one register and two steps that the compiler shall not multiply out
  int64_t step = left.row_step * sizeof(Real), three_steps = 3 * step;
  const char* group[groups];
  repeat<groups>([&](auto g) INLINE { group[g] = (const char*)left.at(5 * g, 0); });
  for (int64_t d = 0; d < depth; ++d, right += right_step) {
    V x[width];
    repeat<width>([&](auto q) INLINE { x[q] = load(right + q * lanes); });
    asm("" : "+r"(step), "+r"(three_steps));
    repeat<rows>([&](auto i) INLINE {
      constexpr int row = i % 5;
      const Real factor = *(const Real*)(group[i / 5] + (row == 3 ? three_steps : row * step));
      repeat<width>([&](auto q) INLINE { total[i][q] += factor * x[q]; });
    });
    repeat<groups>([&](auto g) INLINE { group[g] += left.column_step * sizeof(Real); });
  }
  repeat<rows>([&](auto i) INLINE {
    repeat<width>([&](auto q) INLINE { store(out + i * out_step + q * lanes, total[i][q]); });
  });
}

// out (+)= left * right for a panel of at most panel_vectors vectors
inline void multiply_panel(const Matrix& left, int64_t rows, const Real* right, int64_t right_step, int64_t depth,
                           int width, bool add, Real* out, int64_t out_step) {
  with_constant<panel_vectors>(width, [&](auto w) {
    constexpr int most = tile_vectors / w;
    const Parts tiles(int(rows), most);
    for (int t = 0; t < tiles.count; ++t) {
      const int64_t begin = tiles.begin(t);
      const Matrix part{left.at(begin, 0), left.row_step, left.column_step};
      with_constant<most>(int(tiles.begin(t + 1) - begin), [&](auto m) {
        product_tile<m, w>(part, right, right_step, depth, add, out + begin * out_step, out_step);
      });
    }
  });
}

// The right factor of a product: row d has its vectors at data + d * step; or, transposed, column n has its numbers
// there, with n below `columns`.
struct Right {
  const Real* data;
  int64_t step;
  bool transposed = false;
  int columns = 0;

  // Copies rows [first, first + depth) of vectors [begin, begin + width) to a panel.
  void pack(int64_t first, int64_t depth, int begin, int width, Real* panel) const {
    for (int q = 0; q < width; ++q) {
      Real* out = panel + q * lanes;
      if (transposed)
        pack_transposed(first, depth, (begin + q) * lanes, out, int64_t(width) * lanes);
      else
        for (int64_t d = 0; d < depth; ++d)
          store(out + d * width * lanes, load(data + (first + d) * step + (begin + q) * lanes));
    }
  }

 private:
  void pack_transposed(int64_t first, int64_t depth, int column, Real* out, int64_t out_step) const {
    for (int64_t d = 0; d < depth; d += lanes) {
      V tile[lanes];
      for (int i = 0; i < lanes; ++i)
        tile[i] = column + i < columns ? load(data + (column + i) * step + first + d) : V{};
      transpose(tile);
      for (int64_t i = 0; i < lanes && d + i < depth; ++i) store(out + (d + i) * out_step, tile[i]);
    }
  }
};

constexpr int64_t panel_size = int64_t(panel_depth) * panel_vectors * lanes;

// out (+)= left * right, where left has `rows` rows and right `depth` rows of `vectors` vectors
inline void multiply(const Matrix& left, int64_t rows, const Right& right, int64_t depth, int vectors, bool add,
                     Real* out, int64_t out_step, Real* panel) {
  const Parts panels(vectors, panel_vectors);
  const bool direct = panels.count == 1 && !right.transposed;
  for (int p = 0; p < panels.count; ++p) {
    const int begin = panels.begin(p), width = panels.begin(p + 1) - begin;
    for (int64_t first = 0; first < depth; first += panel_depth) {
      const int64_t part = depth - first < panel_depth ? depth - first : panel_depth;
      if (!direct) right.pack(first, part, begin, width, panel);
      multiply_panel({left.at(0, first), left.row_step, left.column_step}, rows,
                     direct ? right.data + first * right.step : panel, direct ? right.step : int64_t(width) * lanes,
                     part, width, add || first > 0, out + begin * lanes, out_step);
    }
  }
}

}  // namespace
}  // namespace hyperspn
