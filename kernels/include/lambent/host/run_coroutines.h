// Runs one block of a kernel with coroutines. Used by registration.h.
#pragma once

#include <atomic>
#include <tuple>
#include <type_traits>
#include <utility>

#include "lambent/host/coroutines.h"

namespace lambent::host {

template <auto Kernel, typename... Parameters>
class BlockRunner {
 public:
  static void run(void** parameters) {
    if (never_waits_.load(std::memory_order_relaxed)) return run_in_order(parameters, Numbers{});
    parameters_ = parameters;
    // The compiler has left out the frame if there is no place to wait at.
    if (!run_threads(start)) never_waits_.store(true, std::memory_order_relaxed);
  }

 private:
  using Arguments = std::tuple<std::remove_cv_t<Parameters>...>;
  using Numbers = std::index_sequence_for<Parameters...>;

  // Known once a block has run.
  static inline std::atomic<bool> never_waits_{false};
  // The parameters of the block that this thread runs.
  static constinit inline thread_local void** parameters_ = nullptr;

  static Task thread(std::remove_cv_t<Parameters>... arguments) {
    Kernel(arguments...);
    end_thread();
    co_return;
  }

  // As it is called in run_in_order, where nothing waits.
  static Task thread_in_order(std::remove_cv_t<Parameters>... arguments) {
    Kernel(arguments...);
    co_return;
  }

  template <size_t... I>
  static void start_with(std::index_sequence<I...>) {
    thread(*static_cast<std::remove_cv_t<Parameters>*>(parameters_[I])...);
  }
  static void start(void*) { start_with(Numbers{}); }

  // The threads of a kernel without barriers, in a loop that the compiler can vectorise.
  template <size_t... I>
  __attribute__((noinline)) static void run_in_order(void** parameters, std::index_sequence<I...>) {
    const Arguments arguments{*static_cast<std::remove_cv_t<Parameters>*>(parameters[I])...};
    const unsigned width = blockDim.x, height = blockDim.y, depth = blockDim.z;
    for (unsigned z = 0; z < depth; ++z) {
      for (unsigned y = 0; y < height; ++y) {
        threadIdx.y = y;
        threadIdx.z = z;
        for (unsigned x = 0; x < width; ++x) {
          threadIdx.x = x;
          thread_in_order(std::get<I>(arguments)...);
        }
      }
    }
  }
};

}  // namespace lambent::host
