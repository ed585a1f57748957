// Measures how many float32 multiply-adds this machine does per second: independent chains, all in registers.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <vector>

typedef float Vector __attribute__((vector_size(VECTOR_BYTES)));
constexpr int chains = 12;

static void multiply_add(long steps, float* out) {
  Vector total[chains], factor = Vector{} + 1.0f, term = Vector{} + 1e-9f;
  for (auto& chain : total) chain = Vector{} + 1.0f;
  asm volatile("" : "+m"(factor), "+m"(term));
  for (long step = 0; step < steps; ++step) {
#pragma GCC unroll 12
    for (int i = 0; i < chains; ++i) total[i] = total[i] * factor + term;
    asm volatile("");
  }
  for (auto& chain : total) *out += chain[0];
}

int main(int, char** arguments) {
  const int threads = std::atoi(arguments[1]);
  const long steps = 20'000'000;
  double best = 0;
  std::vector<float> out(threads * 64);
  for (int round = 0; round < 8; ++round) {
    std::vector<std::thread> all;
    const auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < threads; ++i) all.emplace_back(multiply_add, steps, &out[i * 64]);
    for (auto& thread : all) thread.join();
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    const double operations = 2.0 * chains * (VECTOR_BYTES / 4) * steps * threads / seconds;
    if (operations > best) best = operations;
  }
  std::printf("%f %f\n", best * 1e-9, out[0]);
}
