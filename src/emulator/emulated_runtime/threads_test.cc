// Threads of one process that register, allocate and queue by the runtime at once, over the
// emulated driver. The thread sanitizer sees both here (tools/dev/check.sh): this program is linked
// with its library, unlike those that users preload the runtime into.
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "gpu/cuda_abi/runtime_types.h"

namespace {

constexpr int kThreads = 8, kRounds = 50;

class RuntimeThreads : public testing::Test {
 protected:
  RuntimeThreads() {
    const std::string own = testing::TempDir() + "runtime_threads_" + std::to_string(getpid());
    node_ = own + ".node";
    log_ = own + ".log";
    setenv("EMULATED_CUDA_CONFIG", "tiny", 1);
    setenv("EMULATED_CUDA_NODE", node_.c_str(), 1);
    setenv("EMULATED_CUDA_LOG", log_.c_str(), 1);
    // By its name the runtime then finds this one.
    EXPECT_NE(dlopen(LAMBENT_BINARY_DIR "/lib/emulated/libcuda.so.1", RTLD_NOW | RTLD_GLOBAL),
              nullptr)
        << dlerror();
    library_ =
        dlopen(LAMBENT_BINARY_DIR "/lib/emulated_runtime/libcudart.so.13", RTLD_NOW | RTLD_LOCAL);
    EXPECT_NE(library_, nullptr) << dlerror();
  }
  ~RuntimeThreads() override {
    unlink(node_.c_str());
    unlink(log_.c_str());
  }

  template <typename Function>
  Function* find(const char* name) const {
    void* found = dlsym(library_, name);
    EXPECT_NE(found, nullptr) << name;
    return reinterpret_cast<Function*>(found);
  }

  // All begin at the same time.
  template <typename Work>
  static void on_threads(const Work& work) {
    std::atomic<int> ready = 0;
    std::vector<std::thread> threads;
    for (int i = 0; i < kThreads; ++i) {
      threads.emplace_back([&, i] {
        ++ready;
        while (ready < kThreads) std::this_thread::yield();
        work(i);
      });
    }
    for (std::thread& thread : threads) thread.join();
  }

  std::string node_, log_;
  void* library_ = nullptr;
};

TEST_F(RuntimeThreads, AllocateCopyAndMakeStreamsInOneContext) {
  const auto allocate = find<int(void**, size_t)>("cudaMalloc");
  const auto free = find<int(void*)>("cudaFree");
  const auto copy = find<int(void*, const void*, size_t, int, cudaStream_t)>("cudaMemcpyAsync");
  const auto make_stream = find<int(cudaStream_t*)>("cudaStreamCreate");
  const auto wait = find<int(cudaStream_t)>("cudaStreamSynchronize");
  const auto end_stream = find<int(cudaStream_t)>("cudaStreamDestroy");
  constexpr int kToDevice = 1, kToHost = 2;
  std::atomic<int> whole = 0;
  on_threads([&](int thread) {
    for (int round = 0; round < kRounds; ++round) {
      cudaStream_t stream = nullptr;
      void* device = nullptr;
      const std::vector<int> sent(1000, thread * kRounds + round);
      std::vector<int> back(1000);
      const size_t bytes = sent.size() * sizeof(int);
      const bool done = make_stream(&stream) == 0 && allocate(&device, bytes) == 0 &&
                        copy(device, sent.data(), bytes, kToDevice, stream) == 0 &&
                        copy(back.data(), device, bytes, kToHost, stream) == 0 &&
                        wait(stream) == 0 && free(device) == 0 && end_stream(stream) == 0;
      if (done && back == sent) ++whole;
    }
  });
  EXPECT_EQ(whole, kThreads * kRounds);
}

TEST_F(RuntimeThreads, RegisterImagesAndAskForTheirKernels) {
  const auto add_image = find<void**(void*)>("__cudaRegisterFatBinary");
  const auto remove_image = find<void(void**)>("__cudaUnregisterFatBinary");
  const auto add_kernel =
      find<void(void**, const char*, char*, const char*, int, void*, void*, void*, void*, int*)>(
          "__cudaRegisterFunction");
  const auto add_managed = find<void(void**, void**, char*, const char*, int, size_t, int, int)>(
      "__cudaRegisterManagedVar");
  const auto find_kernel = find<int(void**, const void*)>("cudaGetFuncBySymbol");
  // The driver refuses it, for each thread that asks in the same way.
  alignas(16) static char image[64] = "this is no image";
  static char kernels[kThreads + 1];
  const auto name_kernel = [&](void** owner, int number) {
    add_kernel(owner, &kernels[number], nullptr, "scale", -1, nullptr, nullptr, nullptr, nullptr,
               nullptr);
  };
  void** const shared = add_image(image);
  name_kernel(shared, kThreads);
  void* none = nullptr;
  const int refused = find_kernel(&none, &kernels[kThreads]);
  EXPECT_NE(refused, cudaSuccess);
  EXPECT_NE(refused, cudaErrorInvalidDeviceFunction) << "the kernel is registered";
  std::atomic<int> as_expected = 0;
  on_threads([&](int thread) {
    for (int round = 0; round < kRounds; ++round) {
      void** const own = add_image(image);
      void* managed = nullptr;
      name_kernel(own, thread);
      add_managed(own, &managed, nullptr, "counter", 0, 4, 0, 0);
      void* kernel = nullptr;
      const bool both = find_kernel(&kernel, &kernels[thread]) == refused &&
                        find_kernel(&kernel, &kernels[kThreads]) == refused;
      remove_image(own);
      if (both && find_kernel(&kernel, &kernels[thread]) == cudaErrorInvalidDeviceFunction) {
        ++as_expected;
      }
    }
  });
  EXPECT_EQ(as_expected, kThreads * kRounds);
  remove_image(shared);
}

TEST_F(RuntimeThreads, NoteWhatIsRefusedOnceAndInWholeLines) {
  const auto refuse = find<int()>("__cudaGetProcAddress");
  const auto refuse_too = find<int()>("__cudaRegisterHostVar");
  on_threads([&](int) {
    for (int round = 0; round < kRounds; ++round) {
      EXPECT_EQ(refuse(), cudaErrorNotSupported);
      EXPECT_EQ(refuse_too(), cudaErrorNotSupported);
    }
  });
  FILE* log = fopen(log_.c_str(), "r");
  ASSERT_NE(log, nullptr);
  char line[512];
  int lines = 0;
  while (fgets(line, sizeof line, log)) {
    EXPECT_EQ(std::string(line).find("emulated-runtime: __cuda"), 0u) << line;
    ++lines;
  }
  fclose(log);
  EXPECT_EQ(lines, 2);
}

}  // namespace
