// The Python interface: checks what comes in, releases the GIL, calls the engine.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/variant.h>
#include <nanobind/stl/vector.h>

#include <cstdlib>
#include <string>
#include <utility>
#include <variant>

#include "engine.hpp"
#include "network.hpp"

namespace nb = nanobind;

namespace hyperspn {
namespace {

using Array = nb::ndarray<nb::ro, nb::c_contig, nb::device::cpu>;
using Integers = nb::ndarray<const int32_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Optional = std::optional<Array>;
using Bases = std::optional<std::vector<int64_t>>;
using Range = std::optional<std::pair<int64_t, int64_t>>;

std::vector<std::string> supported() {
  std::vector<std::string> names;
#ifdef HYPERSPN_X86
  __builtin_cpu_init();
  bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  if (avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl"))
    names.push_back("avx512");
  if (avx2) names.push_back("avx2");
#endif
  names.push_back("baseline");
  return names;
}

std::string choose() {
  std::vector<std::string> names = supported();
  const char* forced = std::getenv("HYPERSPN_ISA");
  if (!forced || !*forced) return names[0];
  for (const auto& name : names)
    if (name == forced) return name;
  std::string all;
  for (const auto& name : names) all += (all.empty() ? "" : ", ") + name;
  throw std::invalid_argument("expected HYPERSPN_ISA to be one of " + all + ", found " + forced);
}

const std::string& instruction_set() {
  static const std::string name = choose();
  return name;
}

}  // namespace

#ifdef HYPERSPN_X86
#define HYPERSPN_CHOOSE(table) (instruction_set() == "avx512" ? avx512::table : instruction_set() == "avx2" ? avx2::table : baseline::table)
#else
#define HYPERSPN_CHOOSE(table) baseline::table
#endif
template <> const Functions<float>& functions<float>() { return HYPERSPN_CHOOSE(float_functions); }
template <> const Functions<double>& functions<double>() { return HYPERSPN_CHOOSE(double_functions); }

namespace {

std::vector<int32_t> copy(const Integers& array) { return {array.data(), array.data() + array.size()}; }

template <class Real> const Real* typed(const Array& array, const std::string& name) {
  if (array.dtype() != nb::dtype<Real>()) throw std::invalid_argument("expected " + name + " of the dtype of the first logits, found another");
  return static_cast<const Real*>(array.data());
}

void expect_shape(const Array& array, std::vector<int64_t> shape, const std::string& name) {
  std::string expected, found;
  bool same = array.ndim() == shape.size();
  for (size_t i = 0; i < shape.size(); ++i) expected += std::to_string(shape[i]) + ", ";
  for (size_t i = 0; i < array.ndim(); ++i) found += std::to_string(array.shape(i)) + ", ";
  for (size_t i = 0; same && i < shape.size(); ++i) same = int64_t(array.shape(i)) == shape[i];
  if (!same) throw std::invalid_argument("expected " + name + " of shape (" + expected + "), found (" + found + ")");
}

template <class Code> std::vector<unsigned char> check_codes(const Program& program, const Array& codes) {
  std::vector<unsigned char> missing(program.categories.size());
  const Code* row = static_cast<const Code*>(codes.data());
  int64_t samples = codes.shape(1);
  for (size_t v = 0; v < program.categories.size(); ++v, row += samples) {
    if (program.categories[v] == 0) continue;
    Code low = 0, high = 0;
    for (int64_t s = 0; s < samples; ++s) low = std::min(low, row[s]), high = std::max(high, row[s]);
    EXPECT(low >= -1, "codes from -1 in variable " + std::to_string(v), low);
    EXPECT(high < program.categories[v], "codes below " + std::to_string(program.categories[v]) + " in variable " + std::to_string(v), high);
    missing[v] = low < 0;
  }
  return missing;
}

template <class Real> Data<Real> read_data(const Program& program, const Array& codes, const Optional& dense) {
  EXPECT(codes.ndim() == 2, "codes with 2 dimensions (variables, samples)", codes.ndim());
  Data<Real> data{codes.data(), int(codes.itemsize()), nullptr, int64_t(codes.shape(1)), {}};
  expect_shape(codes, {int64_t(program.categories.size()), data.samples}, "codes");
  if (codes.dtype() == nb::dtype<int8_t>()) data.missing = check_codes<int8_t>(program, codes);
  else if (codes.dtype() == nb::dtype<int16_t>()) data.missing = check_codes<int16_t>(program, codes);
  else if (codes.dtype() == nb::dtype<int32_t>()) data.missing = check_codes<int32_t>(program, codes);
  else throw std::invalid_argument("expected codes of dtype int8, int16 or int32, found another");
  if (program.dense_rows() > 0) {
    EXPECT(dense.has_value(), "dense likelihoods with " + std::to_string(program.dense_rows()) + " rows", 0);
    expect_shape(*dense, {program.dense_rows(), data.samples}, "dense");
    data.dense = typed<Real>(*dense, "dense");
  }
  return data;
}

template <class Real> std::vector<Sectors<const Real>> read_logits(const Program& program, const std::vector<Array>& logits, const Bases& bases) {
  EXPECT(int(logits.size()) == program.kinds, std::to_string(program.kinds) + " arrays of logits", logits.size());
  if (bases) EXPECT(int(bases->size()) == program.kinds, std::to_string(program.kinds) + " sector bases", bases->size());
  std::vector<Sectors<const Real>> result;
  for (size_t q = 0; q < logits.size(); ++q) {
    EXPECT(logits[q].ndim() == 3, "logits with 3 dimensions (sectors, rows, columns)", logits[q].ndim());
    result.push_back({typed<Real>(logits[q], "logits"), int64_t(logits[q].shape(0)), int64_t(logits[q].shape(1)), int64_t(logits[q].shape(2)), bases ? (*bases)[q] : 0});
  }
  return result;
}

// A new numpy array that owns its memory.
template <class Real> nb::object make_array(const std::vector<size_t>& shape, bool zero, Real** data) {
  size_t size = 1;
  for (size_t n : shape) size *= n;
  size_t bytes = std::max<size_t>(size, 1) * sizeof(Real);
  *data = static_cast<Real*>(zero ? std::calloc(bytes, 1) : std::malloc(bytes));
  if (!*data) throw std::bad_alloc();
  nb::capsule owner(*data, [](void* p) noexcept { std::free(p); });
  return nb::cast(nb::ndarray<nb::numpy, Real>(*data, shape.size(), shape.data(), owner));
}

template <class Real> struct Gradients {
  nb::list arrays;
  std::vector<Sectors<Real>> sectors;
  nb::object dense = nb::none();
  Real* dense_data = nullptr;

  Gradients(const Program& program, const std::vector<Sectors<const Real>>& logits, int64_t samples) {
    for (const auto& kind : logits) {
      Real* data;
      arrays.append(make_array<Real>({size_t(kind.count), size_t(kind.rows), size_t(kind.columns)}, true, &data));
      sectors.push_back({data, kind.count, kind.rows, kind.columns, kind.base});
    }
    if (program.dense_rows() > 0) dense = make_array<Real>({size_t(program.dense_rows()), size_t(samples)}, true, &dense_data);
  }
  nb::object result() { return nb::make_tuple(arrays, dense); }
};

int check_threads(int threads) {
  EXPECT(threads >= 1 && threads <= 1024, "threads from 1 to 1024", threads);
  return threads;
}

std::pair<int64_t, int64_t> check_trees(const Program& program, const Range& trees) {
  int64_t count = program.trees.size();
  auto [first, last] = trees.value_or(std::pair<int64_t, int64_t>(0, count));
  EXPECT(first >= 0 && first <= last && last <= count, "trees (first, last) within 0 and " + std::to_string(count) + "; last", last);
  return {first, last};
}

// Calls f(Real()) with the dtype of the logits.
template <class F> nb::object with_dtype(const std::vector<Array>& logits, F&& f) {
  if (logits.empty()) throw std::invalid_argument("expected at least one array of logits, found none");
  if (logits[0].dtype() == nb::dtype<float>()) return f(float());
  if (logits[0].dtype() == nb::dtype<double>()) return f(double());
  throw std::invalid_argument("expected logits of dtype float32 or float64, found another");
}

nb::object forward(const Program& program, const std::vector<Array>& logits, const Array& codes, const Optional& dense, const Range& trees, int threads, const Bases& bases) {
  return with_dtype(logits, [&](auto zero) {
    using Real = decltype(zero);
    auto [first, last] = check_trees(program, trees);
    Data<Real> data = read_data<Real>(program, codes, dense);
    Forest<Real> forest(program, read_logits<Real>(program, logits, bases), data, first, last, check_threads(threads));
    Real* out;
    nb::object result = make_array<Real>({size_t(last - first), size_t(data.samples)}, false, &out);
    nb::gil_scoped_release release;
    forest.forward(out);
    return result;
  });
}

nb::object backward(const Program& program, const std::vector<Array>& logits, const Array& codes, const Optional& dense, const Array& seed, const Range& trees, int threads, bool flows, const Bases& bases) {
  return with_dtype(logits, [&](auto zero) {
    using Real = decltype(zero);
    auto [first, last] = check_trees(program, trees);
    Data<Real> data = read_data<Real>(program, codes, dense);
    expect_shape(seed, {last - first, data.samples}, "seed");
    const Real* seeds = typed<Real>(seed, "seed");
    auto sectors = read_logits<Real>(program, logits, bases);
    Gradients<Real> gradients(program, sectors, data.samples);
    Forest<Real> forest(program, sectors, data, first, last, check_threads(threads));
    {
      nb::gil_scoped_release release;
      forest.backward(seeds, gradients.sectors, gradients.dense_data, flows);
    }
    return gradients.result();
  });
}

// A State of either precision that keeps its program alive.
class Part {
 public:
  Part(const Program& program, int64_t tree, int64_t samples, const std::string& dtype, bool tape, bool log_space, int threads) {
    EXPECT(tree >= 0 && tree < int64_t(program.trees.size()), "a tree below " + std::to_string(program.trees.size()), tree);
    EXPECT(samples >= 0, "samples >= 0", samples);
    check_threads(threads);
    if (dtype == "float32") state = std::make_unique<State<float>>(program, tree, samples, tape, log_space, threads);
    else if (dtype == "float64") state = std::make_unique<State<double>>(program, tree, samples, tape, log_space, threads);
    else throw std::invalid_argument("expected dtype float32 or float64, found " + dtype);
  }

  void forward(const std::vector<Array>& logits, const Array& codes, const Optional& dense, int64_t first, int64_t last, const Bases& bases) {
    std::visit([&](auto& s) {
      using Real = typename std::decay_t<decltype(*s)>::Number;
      auto sectors = read_logits<Real>(s->program, logits, bases);
      Data<Real> data = read_data<Real>(s->program, codes, dense);
      nb::gil_scoped_release release;
      s->forward(sectors, data, first, last);
    }, state);
  }

  nb::object values() const {
    return std::visit([&](auto& s) -> nb::object {
      using Real = typename std::decay_t<decltype(*s)>::Number;
      Real* out;
      unsigned char* flags;
      nb::object values = make_array<Real>({size_t(s->samples)}, false, &out);
      nb::object flagged = make_array<unsigned char>({size_t(s->samples)}, false, &flags);
      s->values(out, flags);
      return nb::make_tuple(values, flagged);
    }, state);
  }

  nb::object backward(const std::vector<Array>& logits, const Array& codes, const Optional& dense, const Array& seed, int64_t first, int64_t last, bool flows, const Bases& bases) {
    return std::visit([&](auto& s) -> nb::object {
      using Real = typename std::decay_t<decltype(*s)>::Number;
      auto sectors = read_logits<Real>(s->program, logits, bases);
      Data<Real> data = read_data<Real>(s->program, codes, dense);
      expect_shape(seed, {s->samples}, "seed");
      const Real* seeds = typed<Real>(seed, "seed");
      Gradients<Real> gradients(s->program, sectors, s->samples);
      {
        nb::gil_scoped_release release;
        s->backward(sectors, data, seeds, first, last, gradients.sectors, gradients.dense_data, flows);
      }
      return gradients.result();
    }, state);
  }

 private:
  std::variant<std::unique_ptr<State<float>>, std::unique_ptr<State<double>>> state;
};

// Checks the arrays of a network: weights (out, in) and biases (out) of each layer, each layer's inputs the outputs of the one before.
template <class Real> RowNetwork<Real> read_network(const Array& in, const std::vector<Array>& weights, const std::vector<Array>& biases) {
  EXPECT(in.ndim() == 2, "rows with 2 dimensions", in.ndim());
  EXPECT(!weights.empty() && weights.size() == biases.size(), "as many biases as weights (" + std::to_string(weights.size()) + "), and at least one", biases.size());
  std::vector<int> widths{int(in.shape(1))};
  std::vector<const Real*> matrices, vectors;
  for (size_t l = 0; l < weights.size(); ++l) {
    EXPECT(weights[l].ndim() == 2 && weights[l].shape(0) > 0, "weights with 2 dimensions", weights[l].ndim());
    expect_shape(weights[l], {int64_t(weights[l].shape(0)), widths.back()}, "weights");
    expect_shape(biases[l], {int64_t(weights[l].shape(0))}, "biases");
    matrices.push_back(typed<Real>(weights[l], "weights")), vectors.push_back(typed<Real>(biases[l], "biases"));
    widths.push_back(int(weights[l].shape(0)));
  }
  return {std::move(widths), std::move(matrices), std::move(vectors)};
}

nb::object network_forward(const Array& in, const std::vector<Array>& weights, const std::vector<Array>& biases, int threads) {
  return with_dtype({in}, [&](auto zero) {
    using Real = decltype(zero);
    RowNetwork<Real> network = read_network<Real>(in, weights, biases);
    const Real* rows = typed<Real>(in, "rows");
    Real* out;
    nb::object result = make_array<Real>({in.shape(0), weights.back().shape(0)}, false, &out);
    nb::gil_scoped_release release;
    network.forward(rows, in.shape(0), out, check_threads(threads));
    return result;
  });
}

nb::object network_backward(const Array& in, const std::vector<Array>& weights, const std::vector<Array>& biases, const Array& gradient, int threads) {
  return with_dtype({in}, [&](auto zero) {
    using Real = decltype(zero);
    RowNetwork<Real> network = read_network<Real>(in, weights, biases);
    expect_shape(gradient, {int64_t(in.shape(0)), int64_t(weights.back().shape(0))}, "gradient");
    const Real *rows = typed<Real>(in, "rows"), *gradients = typed<Real>(gradient, "gradient");
    Real* in_gradient;
    nb::object result = make_array<Real>({in.shape(0), in.shape(1)}, false, &in_gradient);
    nb::list weight_arrays, bias_arrays;
    std::vector<Real*> weight_data(weights.size()), bias_data(weights.size());
    for (size_t l = 0; l < weights.size(); ++l) {
      weight_arrays.append(make_array<Real>({weights[l].shape(0), weights[l].shape(1)}, true, &weight_data[l]));
      bias_arrays.append(make_array<Real>({biases[l].shape(0)}, true, &bias_data[l]));
    }
    {
      nb::gil_scoped_release release;
      network.backward(rows, gradients, in.shape(0), in_gradient, weight_data, bias_data, check_threads(threads));
    }
    return nb::object(nb::make_tuple(result, weight_arrays, bias_arrays));
  });
}

Program* make_program(const Integers& tree_ptr, const Integers& type, const Integers& variable, const Integers& size, const Integers& kind, const Integers& sector, const Integers& child_ptr,
                      const Integers& children, const Integers& slot, int rows, int variables, int kinds, const std::optional<Integers>& dense_ptr) {
  Arrays arrays{copy(tree_ptr), copy(type), copy(variable), copy(size), copy(kind), copy(sector), copy(child_ptr), copy(children), copy(slot), {0}};
  if (dense_ptr) arrays.dense_ptr = copy(*dense_ptr);
  return new Program(std::move(arrays), rows, variables, kinds);
}

}  // namespace
}  // namespace hyperspn

NB_MODULE(_kernel, m) {
  nb::set_leak_warnings(false);  // circuits may outlive the interpreter
  using namespace nb::literals;
  using namespace hyperspn;
  nb::class_<Program>(m, "Program", "A forest of trees as int32 arrays; every index is checked here.")
      .def(nb::new_(&make_program), "tree_ptr"_a, "type"_a, "variable"_a, "size"_a, "kind"_a, "sector"_a, "child_ptr"_a, "children"_a, "slot"_a, "rows"_a, "variables"_a, "kinds"_a, "dense_ptr"_a = nb::none())
      .def_ro("rows", &Program::rows)
      .def_prop_ro("trees", [](const Program& p) { return p.trees.size(); })
      .def("slots", [](const Program& p, size_t tree) { return p.trees.at(tree).slots - 1; }, "tree"_a, "Slots of a tree, without the root's.");
  nb::class_<Part>(m, "State", "One tree on some samples, evaluated part by part.")
      .def(nb::init<const Program&, int64_t, int64_t, const std::string&, bool, bool, int>(), "program"_a, "tree"_a, "samples"_a, "dtype"_a = "float32", "tape"_a = false, "log_space"_a = false, "threads"_a = 1,
           nb::keep_alive<1, 2>())
      .def("forward", &Part::forward, "logits"_a, "codes"_a, "dense"_a.none(), "first"_a, "last"_a, "bases"_a = nb::none())
      .def("values", &Part::values, "(log-values, flags): flagged samples must be evaluated again by a State with log_space=True.")
      .def("backward", &Part::backward, "logits"_a, "codes"_a, "dense"_a.none(), "seed"_a, "first"_a, "last"_a, "flows"_a = false, "bases"_a = nb::none());
  m.def("forward", &forward, "program"_a, "logits"_a, "codes"_a, "dense"_a = nb::none(), "trees"_a = nb::none(), "threads"_a = 1, "bases"_a = nb::none());
  m.def("backward", &backward, "program"_a, "logits"_a, "codes"_a, "dense"_a.none(), "seed"_a, "trees"_a = nb::none(), "threads"_a = 1, "flows"_a = false, "bases"_a = nb::none());
  m.def("network_forward", &network_forward, "rows"_a, "weights"_a, "biases"_a, "threads"_a = 1);
  m.def("network_backward", &network_backward, "rows"_a, "weights"_a, "biases"_a, "gradient"_a, "threads"_a = 1);
  m.def("round_subnormals", &round_subnormals, "on"_a, "threads"_a, "Whether PyTorch's threads round subnormal numbers to zero from now on; returns whether this one did.");
  m.def("instruction_set", &instruction_set, "The instruction set in use.");
  m.def("instruction_sets", &supported, "The instruction sets of this machine, best first.");
  m.attr("CATEGORICAL") = int(CATEGORICAL);
  m.attr("DENSE") = int(DENSE);
  m.attr("INNER") = int(INNER);
}
