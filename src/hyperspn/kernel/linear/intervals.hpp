// Intervals of the standard normal distribution, to full relative precision.
#pragma once
#include "softmax.hpp"

namespace hyperspn {
namespace {

constexpr bool single = sizeof(Real) == 4;
constexpr Real log_sqrt_two_pi = Real(0.918938533204672741780);

inline V where(I mask, V a, V b) { return mask ? a : b; }
inline V absolute(V x) { return x < 0 ? -x : x; }
inline bool any(I mask) { return reduce(where(mask, broadcast(1), V{}), largest) > 0; }

template <size_t count>
V polynomial(V x, const Real (&coefficients)[count]) {
  V total = broadcast(coefficients[count - 1]);
  for (int i = int(count) - 2; i >= 0; --i) total = total * x + coefficients[i];
  return total;
}

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

// 1 - exp(-x) for x >= 0
inline V one_minus_exponential(V x) {
  constexpr int degree = single ? 8 : 14;
  V total = broadcast(1);
  for (int i = degree; i >= 2; --i) total = 1 - total * x * (1 / Real(i));
  return where((I)(x < Real(0.5)), total * x, 1 - exponential(-x));
}

// Mills' ratio (1 - Phi(x)) / phi(x) for x >= 0: (x + 4) times it is a polynomial in (x - 4) / (x + 4), from -1 to 1,
// the Chebyshev series up to where its coefficients vanish.
inline V mills_ratio(V x) {
  static constexpr Real in_single[] = {1.89321906,     -1.52377031,     0.970409538,    -0.467553127,
                                       0.151391946,    -0.0188303716,   -0.00872295269, 0.00391983246,
                                       0.000335019359, -0.000394344188, -4.33917984e-6};
  static constexpr Real in_double[] = {
      1.8932190633084854,     -1.5237709108199834,     0.97040955486758839,    -0.46754096299833247,
      0.15139176231244347,    -0.018900450861711258,   -0.0087222952742601242, 0.0040878556812000714,
      0.00033424461623284409, -0.00057926930464787194, -4.7832642594172081e-6, 8.8095731210723381e-5,
      1.7963971214040778e-6,  -1.4843277679080294e-5,  -1.5787665654677374e-6, 2.5687553112297223e-6,
      6.8296338316734667e-7,  -4.0049392925117101e-7,  -2.1774195022039327e-7, 4.473060051450323e-8,
      5.3711037651589574e-8,  -1.4722998923746307e-9,  -9.3513404448243406e-9, -3.0073979672398765e-10,
      8.5308388602605297e-10};
  const V inverse = 1 / (x + 4), t = 1 - 8 * inverse;
  return (single ? polynomial(t, in_single) : polynomial(t, in_double)) * inverse;
}

// The integral of exp(middle^2 / 2 - z^2 / 2) over an interval, divided by its width: a series in Hermite polynomials,
// sum_n He_2n(middle) (width / 2)^2n / (2n + 1)!
inline V narrow_ratio(V middle, V width) {
  constexpr int terms = single ? 5 : 7;
  const V square = width * width * Real(0.25);
  V even = broadcast(1), odd = middle, power = broadcast(1), total = broadcast(1);
  for (int n = 1; n <= terms; ++n) {
    even = middle * odd - Real(2 * n - 1) * even;
    odd = middle * even - Real(2 * n) * odd;
    power *= square * (1 / Real(2 * n * (2 * n + 1)));
    total += even * power;
  }
  return total;
}

// An interval, turned around zero if need be so that |inner| <= outer.
struct Interval {
  V inner, outer, width;
  I turned;

  Interval(V low, V high, V width) : width(width), turned((I)(low + high < 0)) {
    inner = where(turned, -high, low), outer = where(turned, -low, high);
  }
  V middle() const { return Real(0.5) * (inner + outer); }
  V drop() const { return middle() * width; }  // log phi(inner) - log phi(outer)

  // Where the series for narrow intervals holds, and differences of tails would cancel.
  I is_narrow() const { return (I)(width * largest(middle(), broadcast(1)) < Real(single ? 1 : 0.5)); }

  // log(Phi(high) - Phi(low)); of an interval without width the log-density, if log_width is 0 there.
  V log_mass(V log_width) const {
    const I narrow = is_narrow();
    const V center = middle();
    V mass = narrow_ratio(center, width), exponent = log_width - Real(0.5) * center * center - log_sqrt_two_pi;
    if (any(~narrow)) {
      const V tail = Real(-0.5) * inner * inner - log_sqrt_two_pi;
      const V near = mills_ratio(absolute(inner)), far = mills_ratio(outer) * exponential(-drop());
      const I astride = (I)(inner < 0);
      const V wide = where(astride, 1 - exponential(tail) * (near + far), near - far);
      mass = where(narrow, mass, wide), exponent = where(narrow, exponent, where(astride, V{}, tail));
    }
    return exponent + logarithm_of(mass);
  }
};

}  // namespace
}  // namespace hyperspn
