// The Python interface of descend.hpp.
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "bindings.hpp"
#include "bound_batch.hpp"
#include "descend.hpp"

namespace hyperspn {
namespace {

using Longs = nb::ndarray<const int64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

void check_trees(const Program& program, int64_t first, int64_t last) {
  EXPECT(first >= 0 && first < last && last <= int64_t(program.trees.size()),
         "trees (first, last) within 0 and " + std::to_string(program.trees.size()) + "; last", last);
}

nb::object best_values(const PyBatch& from, const Arrays& logits, const std::vector<int64_t>& bases, int64_t first,
                       int64_t last, int threads) {
  return std::visit(
      [&](auto& batch) -> nb::object {
        using Real = std::decay_t<decltype(*batch->likelihoods.get())>;
        check_trees(batch->program, first, last);
        EXPECT(batch->program.sparse_columns.empty(), "no sparse variables for the best values",
               batch->program.sparse_columns.size());
        const auto sectors = read_logits<Real>(batch->program, logits, bases);
        Real* out;
        nb::object result = make_array<Real>({size_t(last - first), size_t(batch->samples)}, false, &out);
        nb::gil_scoped_release release;
        Descent<Real>(*batch, sectors, Choose::BEST, check_threads(threads)).values(first, last, out);
        return result;
      },
      from.batch);
}

Choose choose_of(const std::string& name) {
  if (name == "prior") return Choose::PRIOR;
  if (name == "posterior") return Choose::POSTERIOR;
  if (name == "best") return Choose::BEST;
  throw std::invalid_argument("expected prior, posterior or best, found " + name);
}

void check_travelers(const Longs& trees, const Longs& samples, const Longs& keys, int64_t trees_count,
                     int64_t samples_count) {
  EXPECT(samples.size() == trees.size() && keys.size() == trees.size(),
         "samples and keys for " + std::to_string(trees.size()) + " travelers", samples.size());
  for (size_t i = 0; i < trees.size(); ++i) {
    EXPECT(trees.data()[i] >= 0 && trees.data()[i] < trees_count, "one of the trees", trees.data()[i]);
    EXPECT(samples_count == 0 || (samples.data()[i] >= 0 && samples.data()[i] < samples_count), "one of the samples",
           samples.data()[i]);
  }
}

// Writes what is chosen for travelers in these trees to members, (travelers, variables).
void descend(const PyBatch& from, const Arrays& logits, const std::vector<int64_t>& bases, int64_t first, int64_t last,
             const std::string& choose, const Longs& trees, const Longs& samples, const Longs& keys,
             const Integers& code_columns, const Integers& dense_columns, const Integers& sparse_columns,
             nb::ndarray<int64_t, nb::ndim<2>, nb::c_contig, nb::device::cpu> members, int threads) {
  std::visit(
      [&](auto& batch) {
        using Real = std::decay_t<decltype(*batch->likelihoods.get())>;
        const Program& program = batch->program;
        const Choose how = choose_of(choose);
        check_trees(program, first, last);
        check_travelers(trees, samples, keys, program.trees.size(), how == Choose::PRIOR ? 0 : batch->samples);
        EXPECT(how == Choose::PRIOR || batch->samples > 0 || trees.size() == 0, "samples", batch->samples);
        EXPECT(members.shape(0) == trees.size(), "a row of members for each traveler", members.shape(0));
        EXPECT(code_columns.size() == program.categories.size(), "a column for each variable with codes",
               code_columns.size());
        EXPECT(dense_columns.size() + 1 == program.dense_ptr.size(), "a column for each dense variable",
               dense_columns.size());
        EXPECT(sparse_columns.size() == program.sparse_columns.size(), "a column for each sparse variable",
               sparse_columns.size());
        EXPECT(how != Choose::BEST || sparse_columns.size() == 0, "no sparse variables for the best members",
               sparse_columns.size());
        for (const Integers& columns : {code_columns, dense_columns, sparse_columns})
          for (size_t i = 0; i < columns.size(); ++i)
            EXPECT(columns.data()[i] >= 0 && size_t(columns.data()[i]) < members.shape(1), "one of the columns",
                   columns.data()[i]);
        const auto sectors = read_logits<Real>(program, logits, bases);
        const Members out{members.data(), int64_t(members.shape(1)), code_columns.data(), dense_columns.data(),
                          sparse_columns.data()};
        nb::gil_scoped_release release;
        Descent<Real>(*batch, sectors, how, check_threads(threads))
            .members(first, last, trees.data(), samples.data(), keys.data(), trees.size(), out);
      },
      from.batch);
}

}  // namespace

void bind_descent(nb::module_& m) {
  using namespace nanobind::literals;
  m.def("best_values", &best_values, "batch"_a, "written"_a, "bases"_a, "first_tree"_a, "last_tree"_a, "threads"_a = 1);
  m.def("descend", &descend, "batch"_a, "written"_a, "bases"_a, "first_tree"_a, "last_tree"_a, "choose"_a, "trees"_a,
        "samples"_a, "keys"_a, "code_columns"_a, "dense_columns"_a, "sparse_columns"_a, "members"_a, "threads"_a = 1);
}

}  // namespace hyperspn
