// What most cases start from: a context on the first device, current to this thread.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "conformance/driver.h"

namespace lambent::conformance {

// Cases about time need the launch mode in which only modelled time counts; the others need bodies.
#define MODELLED_TIME_ONLY() \
  if (!driver().model_mode) GTEST_SKIP() << "the real time of kernel bodies counts here too"
#define BODIES_ONLY() \
  if (driver().model_mode) GTEST_SKIP() << "kernel bodies are skipped in model mode"

#define OK(call) ASSERT_EQ((call), CUDA_SUCCESS)
// For what only one backend has or does; the reason is part of the suite's documentation.
#define EMULATOR_ONLY(reason) \
  if (!driver().emulated) GTEST_SKIP() << reason

// Keeps a stream shut until everything is submitted: how fast this thread is does not count. Open
// it before it goes.
class Gate {
 public:
  CUresult close(CUstream stream) { return driver().launch_host_func(stream, wait, &open_); }
  void open() {
    open_ = 1;
    open_.notify_all();
  }

 private:
  static void wait(void* flag) { static_cast<std::atomic<int>*>(flag)->wait(0); }
  std::atomic<int> open_{0};
};

// Work of a stream that has not begun when a call that is to wait for it begins.
class LateWork {
 public:
  CUresult submit(CUstream stream) {
    if (const CUresult result = gate_.close(stream)) return result;
    return driver().launch_host_func(stream, end, &ended_);
  }
  // Makes the call, and lets the work go meanwhile. Whether it had ended when the call did.
  template <class Call>
  bool is_waited_for(Call call) {
    std::thread other([this] { gate_.open(); });
    EXPECT_EQ(call(), CUDA_SUCCESS);
    const bool ended = ended_;
    other.join();
    return ended;
  }

 private:
  static void end(void* ended) { *static_cast<std::atomic<bool>*>(ended) = true; }
  Gate gate_;
  std::atomic<bool> ended_{false};
};

class WithContext : public testing::Test {
 protected:
  void SetUp() override { OK(cu.ctx_create_v2(&context, 0, 0)); }
  void TearDown() override {
    if (context) {
      EXPECT_EQ(cu.ctx_destroy(context), CUDA_SUCCESS);
    }
  }

  CUdeviceptr allocate(size_t bytes) {
    CUdeviceptr address = 0;
    EXPECT_EQ(cu.mem_alloc(&address, bytes), CUDA_SUCCESS);
    return address;
  }
  size_t free_bytes() {
    size_t free = 0, total = 0;
    EXPECT_EQ(cu.mem_get_info(&free, &total), CUDA_SUCCESS);
    return free;
  }

  Driver& cu = driver();
  CUcontext context = nullptr;
};

class WithKernels : public WithContext {
 protected:
  void SetUp() override {
    WithContext::SetUp();
    std::string why_not;
    std::vector<char> image = kernel_image(&why_not);
    if (image.empty()) GTEST_SKIP() << why_not;
    OK(cu.module_load_data(&module, image.data()));
  }
  CUfunction function(const char* name) {
    CUfunction found = nullptr;
    EXPECT_EQ(cu.module_get_function(&found, module, name), CUDA_SUCCESS) << name;
    return found;
  }
  CUresult launch(CUfunction kernel, unsigned grid, unsigned block, CUstream stream,
                  std::vector<void*> parameters) {
    return cu.launch_kernel(kernel, grid, 1, 1, block, 1, 1, 0, stream, parameters.data(), nullptr);
  }
  // The modelled duration of what `work` puts into `stream`, by the driver's own events.
  template <class Submit>
  float milliseconds(CUstream stream, Submit work) {
    CUevent begin, end;
    float elapsed = -1;
    EXPECT_EQ(cu.event_create(&begin, 0), CUDA_SUCCESS);
    EXPECT_EQ(cu.event_create(&end, 0), CUDA_SUCCESS);
    Gate gate;
    EXPECT_EQ(gate.close(stream), CUDA_SUCCESS);
    EXPECT_EQ(cu.event_record(begin, stream), CUDA_SUCCESS);
    work();
    EXPECT_EQ(cu.event_record(end, stream), CUDA_SUCCESS);
    gate.open();
    EXPECT_EQ(cu.event_synchronize(end), CUDA_SUCCESS);
    EXPECT_EQ(cu.event_elapsed_time_v2(&elapsed, begin, end), CUDA_SUCCESS);
    cu.event_destroy(begin);
    cu.event_destroy(end);
    return elapsed;
  }

  CUmodule module = nullptr;
};

}  // namespace lambent::conformance
