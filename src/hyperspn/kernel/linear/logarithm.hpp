// The logarithm of many numbers.
#pragma once
#include "softmax.hpp"

namespace hyperspn {
namespace {

constexpr bool single = sizeof(Real) == 4;

inline V where(I mask, V a, V b) { return mask ? a : b; }

// log(x) of a positive normal number x = 2^e f, with f from sqrt(1/2) to sqrt(2): log f = 2 artanh((f - 1) / (f + 1))
inline V logarithm_of(V x) {
  constexpr int terms = single ? 5 : 11;
  const I e = exponent_of(x * Real(1.41421356237309504880));
  const V f = x * power_of_two(-e), s = (f - 1) / (f + 1), square = s * s;
  V total = V{};
  for (int i = terms; i >= 0; --i) total = total * square + Real(2) / (2 * i + 1);
  const V n = __builtin_convertvector(e, V);
  const Real log_two = single ? Real(0.693359375) : Real(0.693147180369123816490);
  const Real rest = single ? Real(-2.12194440e-4) : Real(1.90821492927058770002e-10);
  return n * log_two + (n * rest + s * total);
}

}  // namespace
}  // namespace hyperspn
