#include "node/worker/cuda_packages.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "core/base/testing/testing.h"

namespace lambent::worker {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

FunctionSpec function_of(const std::string& code) {
  FunctionSpec spec;
  spec.code_sha256 = code;
  spec.gpu.memory = Bytes::gib(1);
  return spec;
}

TEST(CudaPackages, AreFoundByWhatIsInstalled) {
  TemporaryFolder folder;
  EXPECT_EQ(CudaPackages::find(folder.path()), "");
  EXPECT_EQ(CudaPackages::find(folder / "none"), "");
  fs::create_directories(folder / "numpy-2.3.0.dist-info");
  fs::create_directories(folder / "nvidia");
  EXPECT_EQ(CudaPackages::find(folder.path()), "");
  fs::create_directories(folder / "nvidia_cuda_runtime_cu12-12.8.90.dist-info");
  fs::create_directories(folder / "cupy_cuda12x-13.4.0.dist-info");
  EXPECT_EQ(CudaPackages::find(folder.path()), "cupy_cuda12x-13.4.0");
  fs::create_directories(folder / "torch/lib");
  EXPECT_EQ(CudaPackages::find(folder.path()), "cupy_cuda12x-13.4.0");
  std::ofstream(folder / "torch/lib/libtorch_cuda.so");
  EXPECT_EQ(CudaPackages::find(folder.path()), "torch");
}

TEST(CudaPackages, AreFoundInAnEnvironment) {
  TemporaryFolder folder;
  fs::create_directories(folder /
                         "lib/python3.11/site-packages/nvidia_cuda_runtime-13.0.96.dist-info");
  EXPECT_EQ(CudaPackages::find(folder.path()), "nvidia_cuda_runtime-13.0.96");
}

TEST(CudaPackages, OwnersOfFunctionsWithAGpuAreWarned) {
  const CodeCounts codes;
  CudaPackages packages(true, codes);
  packages.put("code", "torch");
  packages.put("plain", "");
  EXPECT_THAT(packages.warning(function_of("code")),
              HasSubstr("torch uses NVIDIA's CUDA runtime, which does not run on this worker's "
                        "emulated GPU: use the CPU, or a worker with an NVIDIA GPU"));
  EXPECT_EQ(packages.warning(function_of("plain")), "");
  FunctionSpec on_cpu = function_of("code");
  on_cpu.gpu.memory = Bytes(0);
  EXPECT_EQ(packages.warning(on_cpu), "");
  CudaPackages of_a_real_gpu(false, codes);
  of_a_real_gpu.put("code", "torch");
  EXPECT_EQ(of_a_real_gpu.warning(function_of("code")), "");
}

TEST(CudaPackages, CodeWithoutAFunctionMakesRoom) {
  CodeCounts codes;
  CudaPackages packages(true, codes);
  for (size_t i = 0; i < CudaPackages::kMost; ++i) packages.put(std::to_string(i), "torch");
  codes.add("7");
  packages.put("more", "torch");
  EXPECT_NE(packages.warning(function_of("7")), "");
  EXPECT_NE(packages.warning(function_of("more")), "");
  EXPECT_EQ(packages.warning(function_of("8")), "");
}

}  // namespace
}  // namespace lambent::worker
