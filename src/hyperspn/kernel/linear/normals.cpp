// Log-likelihoods of numbers under normal distributions and point masses: one instruction set, one precision.
#include "../normals.hpp"

#include "intervals.hpp"

namespace hyperspn {
namespace {

// Some samples of a column.
struct Cells {
  static constexpr int most = 8;
  V low[most], high[most], width[most], log_width[most], offset[most];
  V filler[most];  // where there is no cell: 0 if the value is missing, else -inf
  I known[most];
  bool has_width[most];
  Integer point[most * lanes];
  int vectors;

  Cells(const NormalColumns<Real>& columns, int variable, int64_t first, int64_t last)
      : vectors(int((last - first + lanes - 1) / lanes)) {
    for (int64_t s = 0; s < int64_t(vectors) * lanes; ++s)
      read(columns, (first + s < last ? first + s : last - 1) * columns.variables + variable, s, first + s < last);
    for (int v = 0; v < vectors; ++v) {
      width[v] = high[v] - low[v];
      const I is_wide = (I)(width[v] > 0);
      has_width[v] = any(is_wide);
      log_width[v] = has_width[v] ? where(is_wide, logarithm_of(where(is_wide, width[v], broadcast(1))), V{}) : V{};
    }
  }

 private:
  void read(const NormalColumns<Real>& columns, int64_t at, int64_t s, bool is_sample) {
    const int64_t v = s / lanes, l = s % lanes;
    const bool missing = columns.missing[at], is_known = is_sample && !missing && columns.low[at] == columns.low[at];
    low[v][l] = is_known ? columns.low[at] : 0, high[v][l] = is_known ? columns.high[at] : 0;
    offset[v][l] = is_known ? columns.offset[at] : 0;
    known[v][l] = is_known ? -1 : 0;
    filler[v][l] = missing ? Real(0) : -Real(INFINITY);
    point[s] = missing ? -2 : Integer(columns.point[at]);
  }
};

// One distribution, in the precision of the vectors.
struct Standard {
  Real mean, inverse, log_std;

  explicit Standard(const Normal& normal)
      : mean(Real(normal.mean)), inverse(Real(1 / normal.std)), log_std(Real(log(normal.std))) {}
  V score(V z) const { return (z - mean) * inverse; }
  Interval interval(const Cells& cells, int v) const {
    return Interval(score(cells.low[v]), score(cells.high[v]), cells.width[v] * inverse);
  }
  V log_likelihood(const Cells& cells, int v) const {
    if (cells.has_width[v]) {
      const Interval interval = this->interval(cells, v);
      return interval.log_mass(cells.log_width[v] - log_std);
    }
    const V z = score(cells.low[v]);
    return Real(-0.5) * z * z - (log_std + log_sqrt_two_pi);
  }
};

void forward(const NormalColumns<Real>& columns, int variable, int64_t first, int64_t last, Real* out,
             Real* largest_out) {
  const Cells cells(columns, variable, first, last);
  const int64_t row = columns.row_ptr[variable], rows = columns.row_ptr[variable + 1] - row;
  V top[Cells::most];
  for (int v = 0; v < cells.vectors; ++v) top[v] = broadcast(-Real(INFINITY));
  auto each = [&](int64_t j, const auto& f) {
    alignas(VECTOR_BYTES) Real line[Cells::most * lanes];
    for (int v = 0; v < cells.vectors; ++v) {
      const V x = f(v);
      top[v] = largest(top[v], x);
      store(line + v * lanes, x);
    }
    memcpy(out + (row + j) * columns.samples + first, line, sizeof(Real) * (last - first));
  };
  for (int j = 0; j < columns.members; ++j) {
    const Standard normal(columns.normals[int64_t(variable) * columns.members + j]);
    each(j, [&](int v) {
      return where(cells.known[v], normal.log_likelihood(cells, v) + cells.offset[v], cells.filler[v]);
    });
  }
  const Real* points = columns.point_log_likelihoods + int64_t(variable) * columns.points;
  for (int64_t j = columns.members; j < rows; ++j)
    each(j, [&](int v) {
      V x;
      for (int l = 0; l < lanes; ++l) {
        const Integer point = cells.point[v * lanes + l];
        x[l] = point == -2 ? Real(0) : point == j - columns.members ? points[point] : -Real(INFINITY);
      }
      return x;
    });
  for (int64_t s = first; s < last; ++s) {
    const Real x = top[(s - first) / lanes][(s - first) % lanes];
    largest_out[s] = x == -Real(INFINITY) ? 0 : x;
  }
  for (int64_t j = 0; j < rows; ++j)
    for (int64_t s = first; s < last; ++s) out[(row + j) * columns.samples + s] -= largest_out[s];
}

// d log p / d mean and d log p / d std, both times std.
//
// With the densities of the interval's ends divided by its mass, n at the inner one and f at the outer one, they are
// n - f (turned around: f - n) and inner n - outer f = inner (n - f) - width f.
struct Slopes {
  V mean, std;

  Slopes(const Standard& normal, const Cells& cells, int v, V log_likelihood) {
    const V z = normal.score(cells.low[v]);
    mean = z, std = z * z - 1;
    if (!cells.has_width[v]) return;
    const Interval interval = normal.interval(cells, v);
    const V log_mass = log_likelihood - cells.offset[v];
    const V near = exponential(Real(-0.5) * interval.inner * interval.inner - log_sqrt_two_pi - log_mass);
    const V share = one_minus_exponential(interval.drop());
    const I is_wide = (I)(interval.width > 0);
    const V difference = near * share;
    mean = where(is_wide, where(interval.turned, -difference, difference), mean);
    std = where(is_wide, interval.inner * difference - interval.width * near * (1 - share), std);
  }
};

// Numbers of a row, and zeros beyond the last.
V load_some(const Real* x, int64_t count) {
  if (count >= lanes) return load(x);
  V some{};
  memcpy(&some, x, sizeof(Real) * count);
  return some;
}

void backward(const NormalColumns<Real>& columns, int variable, const Real* out, const Real* largest_out,
              const Real* gradient, double* parameters) {
  const int64_t row = columns.row_ptr[variable];
  for (int64_t first = 0; first < columns.samples; first += Cells::most * lanes) {
    const int64_t last = first + Cells::most * lanes < columns.samples ? first + Cells::most * lanes : columns.samples;
    const Cells cells(columns, variable, first, last);
    for (int j = 0; j < columns.members; ++j) {
      const Normal& from = columns.normals[int64_t(variable) * columns.members + j];
      const Standard normal(from);
      V of_mean{}, of_std{};
      for (int v = 0; v < cells.vectors; ++v) {
        const int64_t s = first + int64_t(v) * lanes, at = (row + j) * columns.samples + s, count = last - s;
        const V log_likelihood = load_some(out + at, count) + load_some(largest_out + s, count);
        const Slopes slopes(normal, cells, v, log_likelihood);
        const V g = load_some(gradient + at, count);
        of_mean += where(cells.known[v], g * slopes.mean, V{});
        of_std += where(cells.known[v], g * slopes.std, V{});
      }
      auto add = [](V a, V b) { return a + b; };
      parameters[2 * j] += double(reduce(of_mean, add)) / from.std;
      parameters[2 * j + 1] += double(reduce(of_std, add)) / from.std;
    }
  }
}

}  // namespace

#define JOIN(a, b) a##b
#define TABLE_OF(real) JOIN(real, _normals)

namespace KERNEL_ISA {
extern const NormalArithmetic<Real> TABLE_OF(KERNEL_REAL);
const NormalArithmetic<Real> TABLE_OF(KERNEL_REAL) = {Cells::most * lanes, forward, backward};
}  // namespace KERNEL_ISA

}  // namespace hyperspn
