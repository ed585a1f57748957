// Threads: those of the OpenMP runtime that the process already has, so that PyTorch's idle workers do the work instead
// of spinning beside it; new ones where there is no such runtime.
#pragma once
#include <exception>
#include <thread>
#include <vector>

#ifdef __linux__
#include <dlfcn.h>
#include <link.h>

#include <cstring>
#endif

namespace hyperspn {

struct OpenMP {
  void (*parallel)(void (*)(void*), void*, unsigned threads, unsigned flags) = nullptr;
  int (*thread_number)() = nullptr;
  int (*threads)() = nullptr;

  OpenMP() {
#ifdef __linux__
    dl_iterate_phdr(find, this);
#endif
  }

#ifdef __linux__
 private:
  static int find(dl_phdr_info* library, size_t, void* self) {
    if (!std::strstr(library->dlpi_name, "libgomp") && !std::strstr(library->dlpi_name, "libiomp") &&
        !std::strstr(library->dlpi_name, "libomp"))
      return 0;
    void* handle = dlopen(library->dlpi_name, RTLD_LAZY | RTLD_NOLOAD);
    return handle && static_cast<OpenMP*>(self)->take(handle);
  }

  bool take(void* handle) {
    parallel = reinterpret_cast<decltype(parallel)>(dlsym(handle, "GOMP_parallel"));
    thread_number = reinterpret_cast<decltype(thread_number)>(dlsym(handle, "omp_get_thread_num"));
    threads = reinterpret_cast<decltype(threads)>(dlsym(handle, "omp_get_num_threads"));
    if (!parallel || !thread_number || !threads) parallel = nullptr;
    return parallel != nullptr;
  }
#endif
};

// Calls f(0), ..., f(threads - 1), each on a thread of its own where there are enough.
template <class F>
void run_threads(int threads, F&& f) {
  static const OpenMP openmp;
  std::vector<std::exception_ptr> errors(threads);
  auto guarded = [&](int t) {
    try {
      f(t);
    } catch (...) {
      errors[t] = std::current_exception();
    }
  };
  if (openmp.parallel && threads > 1) {
    auto share = [&] {
      for (int t = openmp.thread_number(); t < threads; t += openmp.threads()) guarded(t);
    };
    openmp.parallel([](void* work) { (*static_cast<decltype(share)*>(work))(); }, &share, threads, 0);
  } else {
    std::vector<std::thread> others;
    for (int t = 1; t < threads; ++t) {
      try {
        others.emplace_back(guarded, t);
      } catch (...) {
        guarded(t);
      }
    }
    guarded(0);
    for (auto& other : others) other.join();
  }
  for (auto& error : errors)
    if (error) std::rethrow_exception(error);
}

}  // namespace hyperspn
