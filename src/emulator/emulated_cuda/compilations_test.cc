#include "emulator/emulated_cuda/compilations.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

namespace lambent::emulated_cuda {
namespace {

void wait_until(const std::function<bool()>& is_so) {
  for (int left = 20'000; left > 0 && !is_so(); --left) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  EXPECT_TRUE(is_so());
}

TEST(Compilations, ThreadsThatAskForTheSameCodeShareIt) {
  Compilations all;
  std::atomic<int> times{0};
  std::vector<PtxCode> got(3);
  std::vector<std::thread> threads;
  for (PtxCode& each : got) {
    threads.emplace_back([&] {
      each = all.once("key", [&] {
        ++times;
        wait_until([&] { return all.waiting() == 2; });
        return PtxCode{CUDA_ERROR_INVALID_PTX, "line 5", nullptr, false, ""};
      });
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(times, 1);
  for (const PtxCode& each : got) EXPECT_EQ(each.message, "line 5");
  // What has failed is tried again, and other code does not wait.
  const auto other = [&] { return all.once("other", [] { return PtxCode{}; }); };
  EXPECT_EQ(all.once("key", other).result, CUDA_SUCCESS);
}

TEST(Compilations, NoMoreCompilersRunAtOnceThanTheLimit) {
  constexpr size_t kMore = 3;
  Compilations all;
  std::atomic<size_t> running{0}, most{0};
  std::atomic<bool> were_held_up{false};
  std::vector<std::thread> threads;
  for (size_t i = 0; i < Compilations::kMostCompilers + kMore; ++i) {
    threads.emplace_back([&] {
      const Compilations::Compiler compiler(all);
      const size_t now = ++running;
      for (size_t seen = most; seen < now && !most.compare_exchange_weak(seen, now);) {
      }
      wait_until([&] { return were_held_up || all.waiting() == kMore; });
      were_held_up = true;
      --running;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(most, Compilations::kMostCompilers);
}

}  // namespace
}  // namespace lambent::emulated_cuda
