// The Python interface: checks what comes in, releases the GIL, calls the kernel. It takes numpy arrays only, because
// for other arrays Python code would run here, and lose an interrupt that comes at that moment.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <optional>
#include <utility>
#include <variant>

#include "bindings.hpp"
#include "bound_batch.hpp"
#include "instruction_set.hpp"
#include "network.hpp"
#include "walk.hpp"

namespace hyperspn {
namespace {

Program* make_program(const Integers& tree_ptr, const Integers& type, const Integers& variable, const Integers& size,
                      const Integers& kind, const Integers& sector, const Integers& child_ptr, const Integers& children,
                      const Integers& slot, const Integers& dense_ptr, int rows, int variables, int sparse,
                      const std::vector<std::tuple<double, double, int>>& grids, const std::vector<double>& starts) {
  IntegerArrays arrays{copied(tree_ptr), copied(type),      copied(variable), copied(size), copied(kind),
                       copied(sector),   copied(child_ptr), copied(children), copied(slot), copied(dense_ptr)};
  std::vector<Grid> of_kinds;
  for (const auto& [first, step, count] : grids) of_kinds.push_back({first, step, count, starts});
  return new Program(std::move(arrays), rows, variables, sparse, std::move(of_kinds));
}

// A walk in the precision of its batch, with the values that it finds.
class PyWalk {
 public:
  PyWalk(const PyBatch& from, int64_t first_tree, int64_t last_tree, bool tape, int threads) {
    check_threads(threads);
    std::visit(
        [&](auto& batch) {
          using In = std::decay_t<decltype(*batch->likelihoods.get())>;
          auto walk = std::make_unique<Walking<In>>(*batch, first_tree, last_tree, tape, threads);
          const std::vector<size_t> shape{size_t(last_tree - first_tree), size_t(batch->samples)};
          values_array = make_array<In>(shape, false, &walk->values);
          state = std::move(walk);
        },
        from.batch);
  }

  void forward(const Arrays& logits, const std::vector<int64_t>& bases, int64_t first, int64_t last) {
    std::visit(
        [&](auto& state) {
          auto sectors = read_logits<typename std::decay_t<decltype(*state)>::Number>(state->program(), logits, bases);
          nb::gil_scoped_release release;
          state->walk.forward(sectors, {first, last}, state->values);
        },
        state);
  }

  bool finished() const {
    return std::visit([](auto& state) { return state->walk.finished(); }, state);
  }

  nb::object values() const {
    EXPECT(finished(), "a finished walk", finished());
    return values_array;
  }

  nb::object backward(const Arrays& logits, const std::vector<int64_t>& bases, int64_t first, int64_t last,
                      const Array& seeds, bool flows) {
    return std::visit(
        [&](auto& state) -> nb::object {
          using In = typename std::decay_t<decltype(*state)>::Number;
          const Program& program = state->program();
          const auto sectors = read_logits<In>(program, logits, bases);
          const int64_t samples = state->batch.samples;
          expect_shape(seeds, {state->walk.trees(), samples}, "seeds");
          const In* numbers = typed<In>(seeds, "seeds");
          Gradients<In> out{{}, nullptr};
          nb::list arrays;
          for (const auto& kind : sectors) {
            In* data;
            arrays.append(make_array<In>({size_t(kind.count), size_t(kind.rows), size_t(kind.columns)}, true, &data));
            out.sectors.push_back({data, kind.count, kind.rows, kind.columns, kind.base, kind.grid});
          }
          nb::object dense = nb::none();
          if (program.dense_rows() > 0)
            dense = make_array<In>({size_t(program.dense_rows()), size_t(samples)}, true, &out.dense);
          {
            nb::gil_scoped_release release;
            state->walk.backward(sectors, {first, last}, numbers, flows, out);
          }
          return nb::make_tuple(arrays, dense);
        },
        state);
  }

 private:
  template <class In>
  struct Walking {
    using Number = In;
    const Batch<In>& batch;
    Walk<In> walk;
    In* values = nullptr;

    Walking(const Batch<In>& batch, int64_t first_tree, int64_t last_tree, bool tape, int threads)
        : batch(batch), walk(batch, first_tree, last_tree, tape, threads) {}
    const Program& program() const { return batch.program; }
  };

  std::variant<std::unique_ptr<Walking<float>>, std::unique_ptr<Walking<double>>> state;
  nb::object values_array;
};

// Checks the arrays of a network: weights (out, in) and biases (out) of each layer, each layer's inputs the outputs of
// the one before.
template <class Real>
RowNetwork<Real> read_network(const Array& in, const Arrays& weights, const Arrays& biases) {
  EXPECT(in.ndim() == 2, "rows with 2 dimensions", in.ndim());
  EXPECT(!weights.empty() && weights.size() == biases.size(),
         "as many biases as weights (" + std::to_string(weights.size()) + "), and at least one", biases.size());
  RowNetwork<Real> network;
  network.widths.push_back(int(in.shape(1)));
  for (size_t l = 0; l < weights.size(); ++l) {
    EXPECT(weights[l].ndim() == 2 && weights[l].shape(0) > 0, "weights with 2 dimensions", weights[l].ndim());
    expect_shape(weights[l], {int64_t(weights[l].shape(0)), network.widths.back()}, "weights");
    expect_shape(biases[l], {int64_t(weights[l].shape(0))}, "biases");
    network.weights.push_back(typed<Real>(weights[l], "weights"));
    network.biases.push_back(typed<Real>(biases[l], "biases"));
    network.widths.push_back(int(weights[l].shape(0)));
  }
  return network;
}

nb::object network_forward(const Array& in, const Arrays& weights, const Arrays& biases, int threads) {
  return with_dtype(in.dtype(), [&](auto zero) {
    using Real = decltype(zero);
    const RowNetwork<Real> network = read_network<Real>(in, weights, biases);
    const Real* rows = typed<Real>(in, "rows");
    Real* out;
    nb::object result = make_array<Real>({in.shape(0), weights.back().shape(0)}, false, &out);
    nb::gil_scoped_release release;
    network.forward(rows, in.shape(0), out, check_threads(threads));
    return result;
  });
}

nb::object network_backward(const Array& in, const Arrays& weights, const Arrays& biases, const Array& gradient,
                            int threads) {
  return with_dtype(in.dtype(), [&](auto zero) -> nb::object {
    using Real = decltype(zero);
    const RowNetwork<Real> network = read_network<Real>(in, weights, biases);
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
    return nb::make_tuple(result, weight_arrays, bias_arrays);
  });
}

}  // namespace
}  // namespace hyperspn

NB_MODULE(_kernel, m) {
  using namespace nanobind::literals;
  using namespace hyperspn;
  nb::set_leak_warnings(false);  // circuits may outlive the interpreter
  nb::class_<Program>(m, "Program")
      .def(nb::new_(&make_program), "tree_ptr"_a, "type"_a, "variable"_a, "size"_a, "kind"_a, "sector"_a, "child_ptr"_a,
           "children"_a, "slot"_a, "dense_ptr"_a, "rows"_a, "variables"_a, "sparse"_a, "grids"_a, "starts"_a);
  nb::class_<PyBatch>(m, "Batch")
      .def(
          nb::init<const Program&, Array, std::optional<Array>, std::optional<PySparseRows>, const std::string&, int>(),
          "program"_a, "codes"_a, "log_likelihoods"_a.none(), "sparse"_a.none(), "dtype"_a, "threads"_a,
          nb::keep_alive<1, 2>());
  nb::class_<PyWalk>(m, "Walk")
      .def(nb::init<const PyBatch&, int64_t, int64_t, bool, int>(), "batch"_a, "first_tree"_a, "last_tree"_a, "tape"_a,
           "threads"_a, nb::keep_alive<1, 2>())
      .def("forward", &PyWalk::forward, "written"_a, "bases"_a, "first"_a, "last"_a)
      .def("finished", &PyWalk::finished)
      .def("values", &PyWalk::values)
      .def("backward", &PyWalk::backward, "written"_a, "bases"_a, "first"_a, "last"_a, "seeds"_a, "flows"_a);
  m.def("network_forward", &network_forward, "rows"_a, "weights"_a, "biases"_a, "threads"_a = 1);
  m.def("network_backward", &network_backward, "rows"_a, "weights"_a, "biases"_a, "gradient"_a, "threads"_a = 1);
  bind_descent(m);
  m.def("round_subnormals", &round_subnormals, "on"_a, "threads"_a);
  m.def("instruction_set", &instruction_set);
  m.def("instruction_sets", &instruction_sets);
  m.attr("CATEGORICAL") = int(CATEGORICAL);
  m.attr("DENSE") = int(DENSE);
  m.attr("INNER") = int(INNER);
  m.attr("SPARSE") = int(SPARSE);
}
