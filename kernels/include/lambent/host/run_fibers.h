// Runs one block of a kernel with fibers. Used by registration.h.
#pragma once

#include <tuple>
#include <type_traits>
#include <utility>

#include "lambent/host/fibers.h"

namespace lambent::host {

template <auto Kernel, typename... Parameters>
class BlockRunner {
 public:
  static void run(void** parameters) { run_in_order(parameters, Numbers{}); }

 private:
  using Arguments = std::tuple<std::remove_cv_t<Parameters>...>;
  using Numbers = std::index_sequence_for<Parameters...>;

  // The parameters of the block that this thread runs.
  static constinit inline thread_local void** parameters_ = nullptr;

  // The threads of the block in order, in a loop that the compiler can vectorise if there is no
  // barrier in it: then it sees that `fibers.used` is still false after each of them.
  template <size_t... I>
  static void run_in_order(void** parameters, std::index_sequence<I...>) {
    const Arguments arguments{*static_cast<std::remove_cv_t<Parameters>*>(parameters[I])...};
    parameters_ = parameters;
    fibers.run_threads = run_unstarted;
    const unsigned width = blockDim.x, height = blockDim.y, depth = blockDim.z;
    if (fibers.used) reclaim_fibers();
    fibers.used = false;
    for (unsigned z = 0; z < depth; ++z) {
      for (unsigned y = 0; y < height; ++y) {
        threadIdx.y = block.next.y = y;
        threadIdx.z = block.next.z = z;
        for (unsigned x = 0; x < width; ++x) {
          threadIdx.x = x;
          block.next.x = x + 1;
          Kernel(std::get<I>(arguments)...);
          if (fibers.used) {
            // Others are parked or were not started; all of them end before this returns.
            finish_thread(block, linear(threadIdx));
            return finish_block();
          }
        }
      }
    }
  }

  // On any stack of a block in which a thread had to wait.
  __attribute__((noinline)) static void run_unstarted() {
    [&]<size_t... I>(std::index_sequence<I...>) {
      const Arguments arguments{*static_cast<std::remove_cv_t<Parameters>*>(parameters_[I])...};
      while (start_next_thread(block)) {
        Kernel(std::get<I>(arguments)...);
        finish_thread(block, linear(threadIdx));
      }
    }
    (Numbers{});
  }
};

}  // namespace lambent::host
