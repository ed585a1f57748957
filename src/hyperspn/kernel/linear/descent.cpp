// Upward in log space and down again: one instruction set, one precision.
#include "../descent.hpp"

#include "logarithm.hpp"

namespace hyperspn {
namespace {

constexpr Real minus_infinity = -Real(INFINITY);

bool normalize(const Node& node, const Real* logits, int64_t stride, Choose choose, Real* weights, Real* logs) {
  for (int o = 0; o < node.rows; ++o, logits += stride, logs += node.columns) {
    Real top = minus_infinity;
    for (int j = 0; j < node.columns; ++j) top = logits[j] > top ? logits[j] : top;
    for (int j = 0; j < node.columns; ++j) logs[j] = logits[j] - top;
    Real* row = weights + int64_t(o) * node.columns;
    memcpy(row, logs, sizeof(Real) * node.columns);
    likelihoods(row, node.columns);
    double total = 0;
    for (int j = 0; j < node.columns; ++j) total += row[j];
    if (!(total > 0 && total < INFINITY)) return false;
    const Real shift = Real(log(total)), factor = Real(1 / total);
    double sum = 0;
    for (int j = 0; j < node.columns; ++j) {
      logs[j] -= shift, sum += row[j];
      row[j] = choose == Choose::PRIOR ? Real(sum / total) : row[j] * factor;
    }
    if (choose == Choose::BEST && node.type == CATEGORICAL) weights[o] = -shift;
  }
  return true;
}

// A number in [0, 1) that is as good as random, for each traveler and node.
inline double uniform(uint64_t key, uint64_t node) {
  uint64_t x = key + (node + 1) * 0x9e3779b97f4a7c15;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  x = (x ^ (x >> 31)) * 0xd6e8feb86659fd93;
  return double((x ^ (x >> 32)) >> 11) * 0x1p-53;
}

struct Way {
  const Party<Real>& p;
  const int K, vectors;
  const int64_t width;
  V *out, *terms;
  I* index;

  explicit Way(const Party<Real>& party)
      : p(party), K(p.rows), vectors(p.vectors), width(int64_t(vectors) * lanes), out((V*)p.scratch) {
    terms = out + int64_t(K) * vectors;
    index = (I*)(terms + int64_t(K > p.max_columns ? K : p.max_columns) * vectors);
  }

  bool is_root(const Node& node) const { return &node == p.nodes + p.node_count - 1; }
  int64_t number(const Node& node) const { return &node - p.nodes; }
  const Real* weights(const Node& node) const { return p.weights + node.weight; }
  const Real* logs(const Node& node) const { return p.logs + node.weight; }
  V* inputs(const Node& node) const { return (V*)p.inputs + int64_t(node.place) * K * vectors; }
  int32_t* states(const Node& node) const { return p.states + number(node) * width; }

  template <class Code>
  void read_codes_as(const Node& node, Integer* codes) const {
    const Code* row = static_cast<const Code*>(p.codes) + node.variable * p.row_length;
    for (int64_t s = 0; s < width; ++s) codes[s] = row[p.samples[s]];
  }
  void read_codes(const Node& node) const {
    p.code_bytes == 1 ? read_codes_as<int8_t>(node, (Integer*)index) : read_codes_as<int32_t>(node, (Integer*)index);
  }
  // The logarithms of a leaf's likelihoods, in the place of terms.
  const V* read_dense(const Node& node) const {
    const Real* in = p.dense + p.dense_ptr[node.variable] * p.row_length;
    for (int j = 0; j < node.columns; ++j, in += p.row_length) {
      Real* row = (Real*)(terms + int64_t(j) * vectors);
      for (int64_t s = 0; s < width; ++s) row[s] = in[p.samples[s]];
    }
    return terms;
  }
  // Of a sparse leaf: whether nothing is known of a traveler's value, and f(member, likelihood) for all that are not 0.
  bool is_missing(const Node& node, int64_t s) const {
    return p.members_at[p.sparse_ptr[node.variable] * p.row_length + p.samples[s]] < 0;
  }
  template <class F>
  void over_shares(const Node& node, int64_t s, const F& f) const {
    for (int64_t row = p.sparse_ptr[node.variable]; row < p.sparse_ptr[node.variable + 1]; ++row) {
      const int64_t at = row * p.row_length + p.samples[s];
      if (p.shares[at] == 0) return;
      f(p.members_at[at], double(p.shares[at]));
    }
  }
  static Real at(const V* rows, int64_t width, int64_t j, int64_t s) { return ((const Real*)rows)[j * width + s]; }
};

struct Up : Way {
  using Way::Way;

  // out[o] = log sum_j exp(logs[o, j] + in[j]) of one traveler, however small the terms are
  Real log_sum(const Real* logs, const V* in, int columns, int64_t s) const {
    double top = minus_infinity, total = 0;
    for (int j = 0; j < columns; ++j) top = fmax(top, double(logs[j]) + at(in, width, j, s));
    if (top == minus_infinity) return minus_infinity;
    for (int j = 0; j < columns; ++j) total += exp(double(logs[j]) + at(in, width, j, s) - top);
    return Real(top + log(total));
  }

  // The same of all, from the exponentials of inputs of which the largest is 0.
  void sums(const Node& node, const V* in, V* exponentials) const {
    const Real lost = power_of_two(Form::mantissa + 2 - Form::bias) * node.columns;
    for (int64_t t = 0; t < int64_t(node.columns) * vectors; ++t) exponentials[t] = exponential(in[t]);
    for (int o = 0; o < node.rows; ++o) {
      const Real* w = weights(node) + int64_t(o) * node.columns;
      for (int v = 0; v < vectors; ++v) {
        V total{};
        for (int j = 0; j < node.columns; ++j) total += w[j] * exponentials[int64_t(j) * vectors + v];
        V& result = out[int64_t(o) * vectors + v];
        result = logarithm_of(total);
        if (reduce(total, smallest) >= lost) continue;
        for (int l = 0; l < lanes; ++l)
          if (!(total[l] >= lost))
            result[l] = log_sum(logs(node) + int64_t(o) * node.columns, in, node.columns, int64_t(v) * lanes + l);
      }
    }
  }

  // out[o] = max_j logs[o, j] + in[j]
  template <int count>
  void maxima(const Node& node, const V* in, int first) const {
    for (int o = 0; o < node.rows; ++o) {
      const Real* w = logs(node) + int64_t(o) * node.columns;
      V top[count];
      repeat<count>([&](auto q) INLINE { top[q] = broadcast(minus_infinity); });
      for (int j = 0; j < node.columns; ++j)
        repeat<count>([&](auto q) INLINE { top[q] = largest(top[q], in[int64_t(j) * vectors + first + q] + w[j]); });
      repeat<count>([&](auto q) INLINE { out[int64_t(o) * vectors + first + q] = top[q]; });
    }
  }
  void maxima(const Node& node, const V* in) const {
    int v = 0;
    for (; v + 4 <= vectors; v += 4) maxima<4>(node, in, v);
    for (; v < vectors; ++v) maxima<1>(node, in, v);
  }

  void look_up(const Node& node) const {
    read_codes(node);
    for (int o = 0; o < node.rows; ++o) {
      const Real unknown = p.choose == Choose::BEST ? weights(node)[o] : 0;
      const Real* w = logs(node) + int64_t(o) * node.columns;
      V* row = out + int64_t(o) * vectors;
      if (has_lookups && node.columns < lanes) {
        const V table = lane() < node.columns ? load(w) : broadcast(unknown);
        for (int v = 0; v < vectors; ++v) row[v] = permute(table, index[v]);
      } else {
        const Integer* codes = (const Integer*)index;
        for (int64_t s = 0; s < width; ++s) ((Real*)row)[s] = codes[s] < 0 ? unknown : w[codes[s]];
      }
    }
  }

  // out[o] = log sum_i share_i w[o, member_i]
  void mix(const Node& node) const {
    for (int o = 0; o < node.rows; ++o) {
      const int64_t row = int64_t(o) * node.columns;
      for (int64_t s = 0; s < width; ++s) {
        Real& result = ((Real*)(out + int64_t(o) * vectors))[s];
        result = is_missing(node, s) ? 0 : Real(log_share(node, logs(node) + row, s));
      }
    }
  }
  double log_share(const Node& node, const Real* logs, int64_t s) const {
    double top = minus_infinity, total = 0;
    over_shares(node, s, [&](int member, double share) { top = fmax(top, logs[member] + log(share)); });
    if (top == minus_infinity) return top;
    over_shares(node, s, [&](int member, double share) { total += share * exp(logs[member] - top); });
    return top + log(total);
  }

  // From the inputs of a sum, of which the largest becomes 0, to its outputs.
  void inner(const Node& node) const {
    V *in = inputs(node), *total = (V*)p.values;
    for (int v = 0; v < vectors; ++v) {
      V top = in[v];
      for (int j = 1; j < K; ++j) top = largest(top, in[int64_t(j) * vectors + v]);
      top = where((I)(top == minus_infinity), V{}, top);
      for (int j = 0; j < K; ++j) in[int64_t(j) * vectors + v] -= top;
      total[v] += top;
    }
    p.choose == Choose::BEST ? maxima(node, in) : sums(node, in, terms);
  }

  void leaf(const Node& node) const {
    if (node.type == CATEGORICAL) return look_up(node);
    if (node.type == SPARSE) return mix(node);
    const V* in = read_dense(node);
    p.choose == Choose::BEST ? maxima(node, in) : sums(node, in, terms + int64_t(p.max_columns) * vectors);
  }

  void run() const {
    int places = 0;
    for (int64_t u = 0; u < p.node_count; ++u) places += p.nodes[u].place >= 0;
    memset((void*)p.inputs, 0, sizeof(V) * places * K * vectors);
    memset((void*)p.values, 0, sizeof(V) * vectors);
    for (int64_t u = 0; u < p.node_count; ++u) {
      const Node& node = p.nodes[u];
      node.type == INNER ? inner(node) : leaf(node);
      V* target = is_root(node) ? (V*)p.values : inputs(p.nodes[p.parents[u]]);
      for (int64_t t = 0; t < int64_t(node.rows) * vectors; ++t) target[t] += out[t];
    }
  }
};

struct Down : Way {
  using Way::Way;

  // The first index at which a running sum exceeds `share` of the total.
  template <class F>
  static int drawn(int columns, double share, const F& term) {
    double total = 0, running = 0;
    for (int j = 0; j < columns; ++j) total += term(j);
    int last = 0;
    for (int j = 0; j < columns; ++j) {
      const double x = term(j);
      running += x;
      if (x > 0) last = j;
      if (running > share * total) return j;
    }
    return last;
  }

  // The same by halves, in cumulative weights.
  static int first_above(const Real* cumulative, int columns, double share) {
    const double level = share * cumulative[columns - 1];
    int first = 0, last = columns - 1;
    while (first < last) {
      const int middle = (first + last) / 2;
      if (cumulative[middle] > level)
        last = middle;
      else
        first = middle + 1;
    }
    return first;
  }

  static int best(int columns, const Real* logs, const V* in, int64_t width, int64_t s) {
    int winner = 0;
    Real top = minus_infinity;
    for (int j = 0; j < columns; ++j) {
      const Real x = logs[j] + (in ? at(in, width, j, s) : 0);
      if (x > top) top = x, winner = j;
    }
    return winner;
  }

  // One input of the sum through which the traveler comes; `in` and their exponentials if they count.
  int choice(const Node& node, const V* in, const V* exponentials, int64_t s) const {
    const int64_t row = int64_t(states(node)[s]) * node.columns;
    const Real *w = weights(node) + row, *log_w = logs(node) + row;
    if (p.choose == Choose::BEST) return best(node.columns, log_w, in, width, s);
    const double share = uniform(p.keys[s], number(node));
    if (p.choose == Choose::PRIOR) return first_above(w, node.columns, share);
    if (!in) return drawn(node.columns, share, [&](int j) { return double(w[j]); });
    double total = 0;
    for (int j = 0; j < node.columns; ++j) total += double(w[j]) * at(exponentials, width, j, s);
    if (total >= power_of_two(Form::mantissa + 2 - Form::bias) * node.columns)
      return drawn(node.columns, share, [&](int j) { return double(w[j]) * at(exponentials, width, j, s); });
    double top = minus_infinity;
    for (int j = 0; j < node.columns; ++j) top = fmax(top, double(log_w[j]) + at(in, width, j, s));
    return drawn(node.columns, share, [&](int j) { return exp(double(log_w[j]) + at(in, width, j, s) - top); });
  }

  void choices(const Node& node, const V* in, V* exponentials, int32_t* chosen) const {
    if (in && p.choose == Choose::POSTERIOR)
      for (int64_t t = 0; t < int64_t(node.columns) * vectors; ++t) exponentials[t] = exponential(in[t]);
    for (int64_t s = 0; s < p.valid; ++s) chosen[s] = choice(node, in, exponentials, s);
  }

  // One of the few distributions under which the traveler's value is possible.
  int member(const Node& node, int64_t s) const {
    const Real* log_w = logs(node) + int64_t(states(node)[s]) * node.columns;
    double top = minus_infinity, total = 0, running = 0;
    over_shares(node, s, [&](int member, double share) { top = fmax(top, log_w[member] + log(share)); });
    over_shares(node, s, [&](int member, double share) { total += share * exp(log_w[member] - top); });
    const double level = uniform(p.keys[s], number(node)) * total;
    int chosen = 0;
    bool is_found = false;
    over_shares(node, s, [&](int member, double share) {
      running += share * exp(log_w[member] - top);
      if (!is_found) chosen = member;
      is_found = is_found || running > level;
    });
    return chosen;
  }

  void leaf(const Node& node, int32_t* chosen) const {
    const bool coded = node.type == CATEGORICAL, is_prior = p.choose == Choose::PRIOR;
    const V* in = node.type != DENSE || is_prior ? nullptr : read_dense(node);
    choices(node, in, terms + int64_t(p.max_columns) * vectors, chosen);
    if (node.type == SPARSE && !is_prior)
      for (int64_t s = 0; s < p.valid; ++s)
        if (!is_missing(node, s)) chosen[s] = member(node, s);
    if (coded && !is_prior) {
      read_codes(node);
      for (int64_t s = 0; s < p.valid; ++s)
        if (((const Integer*)index)[s] >= 0) chosen[s] = int32_t(((const Integer*)index)[s]);
    }
    const Members& to = p.members;
    const int32_t* columns = coded ? to.of_codes : node.type == SPARSE ? to.of_sparse : to.of_dense;
    const int32_t column = columns[node.variable];
    for (int64_t s = 0; s < p.valid; ++s) p.members.data[p.travelers[s] * p.members.columns + column] = chosen[s];
  }

  void run() const {
    memset((void*)states(p.nodes[p.node_count - 1]), 0, sizeof(int32_t) * width);
    for (int64_t u = p.node_count - 1; u >= 0; --u) {
      const Node& node = p.nodes[u];
      int32_t* chosen = (int32_t*)out;
      if (node.type != INNER) {
        leaf(node, chosen);
        continue;
      }
      choices(node, p.choose == Choose::PRIOR ? nullptr : inputs(node), terms, chosen);
      for (int i = 0; i < node.children; ++i)
        memcpy(states(p.nodes[p.children[node.first_child + i]]), chosen, sizeof(int32_t) * p.valid);
    }
  }
};

void up(const Party<Real>& party) { Up(party).run(); }
void down(const Party<Real>& party) { Down(party).run(); }

}  // namespace

#define JOIN(a, b) a##b
#define TABLE_OF(real) JOIN(real, _descent)

namespace KERNEL_ISA {
extern const DescentArithmetic<Real> TABLE_OF(KERNEL_REAL);
const DescentArithmetic<Real> TABLE_OF(KERNEL_REAL) = {lanes, normalize, up, down};
}  // namespace KERNEL_ISA

}  // namespace hyperspn
