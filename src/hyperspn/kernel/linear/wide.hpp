// Wide layers: a sample's values follow each other, rows are the vector dimension, and a sum is a product of matrices.
//
// K is the number of rows, padded to whole vectors; what is beyond the last row is 0. Only the root has one number per
// sample, as in narrow layers.
#pragma once
#include "leaves.hpp"
#include "matrices.hpp"
#include "transposed.hpp"

namespace hyperspn {
namespace {

// An odd number of vectors where samples would otherwise fall into the same sets of the nearest cache.
inline int padded_rows(int rows) {
  const int vectors = whole_vectors(rows);
  return (vectors * sizeof(V) % 2048 == 0 ? vectors + 1 : vectors) * lanes;
}

// Panels of weights, one vector per sample, and likelihoods and their gradients, sample by sample.
inline int64_t wide_reserve(int max_columns, int64_t width) {
  return panel_size + (lanes + 2 * int64_t(max_columns)) * width;
}

// The values of a child: a row per sample, or a row per category.
struct Factor {
  const Real* data;
  int64_t step;
  const Integer* codes = nullptr;
  const Real* missing = nullptr;

  const V* row(int64_t s) const {
    if (!codes) return (const V*)(data + s * step);
    return (const V*)(codes[s] < 0 ? missing : data + codes[s] * step);
  }
};

// f(count), with a constant where it is small.
template <class F>
void with_count(int count, const F& f) {
  if (count <= 4)
    with_constant<4>(count, f);
  else
    f(count);
}

struct Wide : Leaves {
  const int64_t samples;
  const int parts;  // vectors of a sample's values
  Real *panel, *narrow, *likelihoods, *likelihood_gradients, *all_ones;

  explicit Wide(const Block<Real>& block)
      : Leaves(block, wide_reserve(block.max_columns, int64_t(block.vectors) * lanes)),
        samples(int64_t(block.vectors) * lanes),
        parts(whole_vectors(block.layer_size)) {
    panel = b.scratch, narrow = panel + panel_size, likelihoods = narrow + lanes * samples;
    likelihood_gradients = likelihoods + b.max_columns * samples;
    all_ones = (Real*)tables;
    for (int j = 0; j < K; ++j) all_ones[j] = j < b.layer_size ? power_of_two(Form::unit) : 0;
  }

  int64_t columns_step(const Node& node) const { return weight_step(node.columns); }

  // ---- sums: out[s] = W in[s], and what leads back ----

  void sums(const Node& node, const Real* in, int64_t in_step, int64_t count, Real* out, int64_t out_step) const {
    multiply({in, in_step, 1}, count, {weights(node), weight_step(node.rows)}, node.columns, whole_vectors(node.rows),
             false, out, out_step, panel);
  }
  void sums_backward(const Node& node, const Real* gradient, int64_t step, int64_t count, Real* out,
                     int64_t out_step) const {
    multiply({gradient, step, 1}, count, {weights(node), weight_step(node.rows), true, node.columns}, node.rows,
             whole_vectors(node.columns), false, out, out_step, panel);
  }
  void add_weight_gradient(const Node& node, const Real* in, int64_t in_step, const Real* gradient, int64_t step,
                           int64_t count) const {
    multiply({in, 1, in_step}, node.columns, {gradient, step}, count, whole_vectors(node.rows), true,
             weight_gradient(node), weight_step(node.rows), panel);
  }

  // ---- leaves ----

  // (columns, samples) -> (samples, columns), and back
  void read_rows(const Node& node) const {
    read_likelihoods(node);
    const int64_t step = columns_step(node);
    for (int64_t s = 0; s < samples; s += lanes)
      RowGroup{lanes, node.columns}.write(likelihoods + s * step, step,
                                          [&](int j) { return load((Real*)likelihood + j * samples + s); });
  }
  void write_rows(const Node& node) const {
    const int64_t step = columns_step(node);
    for (int64_t s = 0; s < samples; s += lanes)
      RowGroup{lanes, node.columns}.read(likelihood_gradients + s * step, step, [&](const V* tile, int j, int width) {
        for (int i = 0; i < width; ++i) store((Real*)likelihood_gradient + (j + i) * samples + s, tile[i]);
      });
    write_likelihood_gradient(node);
  }

  Factor value(const Node& node, V* buffer, I* codes) const {
    if (node.type == INNER) return {(Real*)place(node), K};
    if (node.type == CATEGORICAL) {
      read_codes(node, codes);
      return {weights(node), weight_step(node.rows), (Integer*)codes, all_ones};
    }
    const int64_t step = node.rows == 1 ? lanes : K;
    if (node.type == SPARSE) return mix_rows(node, (Real*)buffer, step);
    read_rows(node);
    sums(node, likelihoods, columns_step(node), samples, (Real*)buffer, step);
    return {(Real*)buffer, step};
  }

  // f(s, member, share) for all of a sparse leaf that are not 0
  template <class F>
  void over_shares(const Node& node, int64_t s, const F& f) const {
    for (int64_t row = b.sparse_ptr[node.variable]; row < b.sparse_ptr[node.variable + 1]; ++row) {
      const int64_t at = row * b.row_length + b.first + s;
      if (b.shares[at] == 0) return;
      f(b.members[at], b.shares[at]);
    }
  }
  bool is_missing(const Node& node, int64_t s) const {
    return s >= b.valid || b.members[b.sparse_ptr[node.variable] * b.row_length + b.first + s] < 0;
  }

  // out[s] = sum_i share_i W[member_i]
  Factor mix_rows(const Node& node, Real* out, int64_t step) const {
    with_count(step < K ? 1 : parts, [&](auto count) {
      for (int64_t s = 0; s < samples; ++s) {
        V* to = (V*)(out + s * step);
        const bool missing = is_missing(node, s);
        for (int v = 0; v < count; ++v) to[v] = missing ? ((const V*)all_ones)[v] : V{};
        if (missing) continue;
        over_shares(node, s, [&](int32_t member, Real share) {
          const V* row = (const V*)(weights(node) + member * weight_step(node.rows));
          for (int v = 0; v < count; ++v) to[v] += row[v] * share;
        });
      }
    });
    return {out, step};
  }
  void add_by_member(const Node& node, const Real* gradient, int64_t step) const {
    with_count(step < K ? 1 : parts, [&](auto count) {
      for (int64_t s = 0; s < b.valid; ++s) {
        if (is_missing(node, s)) continue;
        over_shares(node, s, [&](int32_t member, Real share) {
          V* row = (V*)(weight_gradient(node) + member * weight_step(node.rows));
          for (int v = 0; v < count; ++v) row[v] += ((const V*)(gradient + s * step))[v] * share;
        });
      }
    });
  }

  void wide_leaf_backward(const Node& node, const Real* gradient, int64_t step) const {
    if (node.type == SPARSE) return add_by_member(node, gradient, step);
    if (node.type == CATEGORICAL) {
      read_codes(node, index);
      return add_by_category((Integer*)index, gradient, step, weight_gradient(node), weight_step(node.rows), nullptr);
    }
    read_rows(node);
    add_weight_gradient(node, likelihoods, columns_step(node), gradient, step, samples);
    sums_backward(node, gradient, step, samples, likelihood_gradients, columns_step(node));
    write_rows(node);
  }

  // out[code] += gradient[s]; those without a code to `missing`, if there is such a row
  void add_by_category(const Integer* codes, const Real* gradient, int64_t step, Real* out, int64_t out_step,
                       Real* missing) const {
    with_count(step < K ? 1 : parts, [&](auto count) {
      for (int64_t s = 0; s < b.valid; ++s) {
        Real* row = codes[s] < 0 ? missing : out + codes[s] * out_step;
        if (!row) continue;
        for (int v = 0; v < count; ++v) ((V*)row)[v] += ((const V*)(gradient + s * step))[v];
      }
    });
  }

  // ---- products of children ----

  void multiply_factors(const Factor& x, const Factor& y, V* out) const {
    with_count(parts, [&](auto count) {
      for (int64_t s = 0; s < samples; ++s) {
        const V *a = x.row(s), *c = y.row(s);
        V* to = (V*)((Real*)out + s * K);
        for (int v = 0; v < count; ++v) to[v] = a[v] * c[v];
      }
    });
  }

  void copy_rows(const Factor& x, V* out) const {
    with_count(parts, [&](auto count) {
      for (int64_t s = 0; s < samples; ++s)
        for (int v = 0; v < count; ++v) ((V*)((Real*)out + s * K))[v] = x.row(s)[v];
    });
  }

  // Prefixes of the product are rescaled by scale_down(prefix, factor, i); with a tape they stay.
  template <class F>
  Factor product_of(const Node& node, const F& scale_down) const {
    Factor running = value(child(node, 0), prefix_at(0), index);
    for (int i = 1; i < node.children; ++i) {
      const bool last = i + 1 == node.children;
      V* out = last ? product : prefix_at(i);
      multiply_factors(running, value(child(node, i), leaf, other_index), out);
      running = {(Real*)out, K};
      if (!last) scale_down(out, out + int64_t(K) * vectors, i);
    }
    return running;
  }

  // Rows that can be multiplied with a matrix.
  const Real* in_rows(const Factor& factor) const {
    if (!factor.codes) return factor.data;
    copy_rows(factor, product);
    return (Real*)product;
  }

  // ---- scales ----

  // As `rescale`, for `groups` times `lanes` samples.
  template <class F>
  void rescale_rows(V* x, int groups, V* factor, const F& factor_of) const {
    const I used = lane() < b.layer_size - (parts - 1) * lanes;
    with_count(parts, [&](auto count) {
      for (int g = 0; g < groups; ++g) {
        V top[lanes], low[lanes];
        Real* rows = (Real*)x + int64_t(g) * lanes * K;
        repeat<lanes>([&](auto i) INLINE {
          const V* row = (V*)(rows + i * K);
          V high = row[count - 1], least = used ? high : broadcast(INFINITY);
          for (int v = 0; v + 1 < count; ++v) high = largest(high, row[v]), least = smallest(least, row[v]);
          top[i] = high, low[i] = least;
        });
        const V highest = combine_lanes<lanes, lanes>(top, largest);
        factor[g] = factor_of(highest, b.risky ? combine_lanes<lanes, lanes>(low, smallest) : highest, g);
        for (int i = 0; i < lanes; ++i) {
          V* row = (V*)(rows + i * K);
          const Real f = ((Real*)factor)[g * lanes + i];
          for (int v = 0; v < count; ++v) row[v] *= f;
        }
      }
    });
  }
  void add_losses(const Node& node) const {
    if (!b.risky || node.type != INNER) return;
    for (int v = 0; v < vectors; ++v) lost[v] += losses(node)[v];
  }

  // ---- nodes above one categorical leaf, which take as many values as it has categories ----

  bool has_categories(const Node& node) const {
    return node.type == INNER && node.children == 1 && !is_root(node) && child(node, 0).type == CATEGORICAL &&
           child(node, 0).columns < samples;
  }
  // The leaf's values, one row per category and one for missing.
  Real* category_rows(const Node& leaf) const {
    const Real* weight = weights(leaf);
    for (int c = 0; c < leaf.columns; ++c, weight += weight_step(leaf.rows))
      memcpy((Real*)product + c * int64_t(K), weight, sizeof(V) * parts);
    memcpy((Real*)product + leaf.columns * int64_t(K), all_ones, sizeof(V) * parts);
    return (Real*)product;
  }
};

}  // namespace
}  // namespace hyperspn
