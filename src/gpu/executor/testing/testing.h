// EmulatedDevice: a small emulated device for the tests of this module, of their own. Included by
// tests only; one thread.
#pragma once

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <memory>
#include <optional>

#include "core/base/testing/testing.h"
#include "gpu/cuda/device.h"
#include "gpu/cuda/driver.h"

// Given by the build; a header must compile without.
#ifndef LAMBENT_BINARY_DIR
#define LAMBENT_BINARY_DIR "build"
#endif

namespace lambent::executor {

// Once the emulated driver is loaded under its name, libcuda.so.1 means it. Skips where it is not
// built.
class EmulatedDevice : public testing::Test {
 protected:
  void SetUp() override {
    if (folder_ == nullptr) {
      folder_ = new TemporaryFolder;  // goes with the process
      setenv("EMULATED_CUDA_NODE", (*folder_ / "node").c_str(), 1);
      setenv("EMULATED_CUDA_CONFIG", "tiny", 1);
      dlopen(LAMBENT_BINARY_DIR "/lib/emulated/libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    }
    auto loaded = cuda::Driver::load();
    if (!loaded.ok()) {
      ASSERT_EQ(loaded.error().code, ErrorCode::kUnavailable);
      GTEST_SKIP() << to_string(loaded.error());
    }
    driver_ = std::move(*loaded);
    auto context = cuda::Context::create(*driver_, 0);
    ASSERT_TRUE(context.ok()) << to_string(context.error());
    context_.emplace(std::move(*context));
  }

  static inline TemporaryFolder* folder_ = nullptr;
  std::unique_ptr<cuda::Driver> driver_;
  std::optional<cuda::Context> context_;
};

}  // namespace lambent::executor
