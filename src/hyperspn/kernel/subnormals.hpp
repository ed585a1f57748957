// Subnormal numbers, on which processors are slow, rounded to zero.
#pragma once
#ifdef HYPERSPN_X86
#include <immintrin.h>
#endif

#include "threads.hpp"

namespace hyperspn {

// While it lives, this thread rounds subnormal numbers to zero: logits (which decay) and gradients that small do not
// count, and would be slow.
class RoundSubnormals {
#ifdef HYPERSPN_X86
 public:
  static constexpr unsigned both_ways = 0x8040;  // as results and as arguments
  RoundSubnormals() { _mm_setcsr(mode | both_ways); }
  ~RoundSubnormals() { _mm_setcsr(mode); }

 private:
  const unsigned mode = _mm_getcsr();
#endif
};

// From now on, the threads round subnormal numbers to zero or not; returns whether this one did.
inline bool round_subnormals(bool on, int threads) {
#ifdef HYPERSPN_X86
  constexpr unsigned both_ways = RoundSubnormals::both_ways;
  const bool before = (_mm_getcsr() & both_ways) == both_ways;
  run_threads(threads, [&](int) { _mm_setcsr(on ? _mm_getcsr() | both_ways : _mm_getcsr() & ~both_ways); });
  return before;
#else
  return false;
#endif
}

}  // namespace hyperspn
