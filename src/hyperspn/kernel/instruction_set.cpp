#include "instruction_set.hpp"

#include <algorithm>
#include <cstdlib>
#include <stdexcept>

#include "arithmetic.hpp"
#include "descent.hpp"

namespace hyperspn {

#define DECLARE(isa)                                          \
  namespace isa {                                             \
  extern const Arithmetic<float> float_narrow, float_wide;    \
  extern const Arithmetic<double> double_narrow, double_wide; \
  extern const DescentArithmetic<float> float_descent;        \
  extern const DescentArithmetic<double> double_descent;      \
  }
DECLARE(baseline)
#ifdef HYPERSPN_X86
DECLARE(avx2)
DECLARE(avx512)
#endif

std::vector<std::string> instruction_sets() {
  std::vector<std::string> names;
#ifdef HYPERSPN_X86
  __builtin_cpu_init();
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  const bool avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
                      __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl");
  if (avx2 && avx512) names.push_back("avx512");
  if (avx2) names.push_back("avx2");
#endif
  names.push_back("baseline");
  return names;
}

static std::string choose() {
  const std::vector<std::string> names = instruction_sets();
  const char* forced = std::getenv("HYPERSPN_ISA");
  if (!forced || !*forced) return names[0];
  std::string all;
  for (const auto& name : names) {
    if (name == forced) return name;
    all += (all.empty() ? "" : ", ") + name;
  }
  throw std::invalid_argument("expected HYPERSPN_ISA to be one of " + all + ", found " + forced);
}

const std::string& instruction_set() {
  static const std::string name = choose();
  return name;
}

#ifdef HYPERSPN_X86
#define CHOOSE(table) \
  (instruction_set() == "avx512" ? avx512::table : instruction_set() == "avx2" ? avx2::table : baseline::table)
#else
#define CHOOSE(table) baseline::table
#endif

// From which number of rows on layers are wide, as benchmarks/layers.py finds it: always that can be, but later above
// leaves that narrow layers look up in a vector. HYPERSPN_WIDE names another number.
static int first_wide(bool lookups) {
  static const char* forced = std::getenv("HYPERSPN_WIDE");
  if (forced && *forced) return std::max(std::atoi(forced), narrowest_wide);
  return lookups ? 48 : narrowest_wide;
}

template <>
const Arithmetic<float>& linear_space<float>(int rows, int largest_leaf) {
  const Arithmetic<float>& narrow = CHOOSE(float_narrow);
  return rows < first_wide(largest_leaf < narrow.lookups) ? narrow : CHOOSE(float_wide);
}
template <>
const Arithmetic<double>& linear_space<double>(int rows, int largest_leaf) {
  const Arithmetic<double>& narrow = CHOOSE(double_narrow);
  return rows < first_wide(largest_leaf < narrow.lookups) ? narrow : CHOOSE(double_wide);
}
template <>
const DescentArithmetic<float>& descent_arithmetic<float>() {
  return CHOOSE(float_descent);
}
template <>
const DescentArithmetic<double>& descent_arithmetic<double>() {
  return CHOOSE(double_descent);
}

}  // namespace hyperspn
