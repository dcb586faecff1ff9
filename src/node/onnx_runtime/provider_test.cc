#include "node/onnx_runtime/provider.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "core/base/testing/testing.h"

namespace lambent::onnx {
namespace {

const CudaFacts kAllThere = {.is_built_in = true};
const CudaFacts kNoGpu = {.no_gpu = "there is no GPU", .is_built_in = true};
const CudaFacts kNotBuilt = {};
const CudaFacts kNoCudnn = {
    .is_built_in = true,
    .failure = "libcudnn.so.9: cannot open shared object file: No such file or directory"};

std::string refusal(const CudaFacts& facts) {
  const auto chosen = choose_provider(Provider::kCuda, facts);
  if (chosen.ok()) return "";
  EXPECT_EQ(chosen.error().code, ErrorCode::kFailedPrecondition);
  return chosen.error().message;
}

TEST(Provider, WordsAreThoseOfTheManifest) {
  EXPECT_EQ(provider_from("cpu"), Provider::kCpu);
  EXPECT_EQ(provider_from("cuda"), Provider::kCuda);
  EXPECT_EQ(provider_from("auto"), Provider::kAuto);
  EXPECT_EQ(provider_from("tensorrt"), std::nullopt);
}

TEST(Provider, CudasIsTakenWhereEverythingIsThere) {
  for (const Provider wanted : {Provider::kCuda, Provider::kAuto}) {
    const auto chosen = choose_provider(wanted, kAllThere);
    ASSERT_TRUE(chosen.ok());
    EXPECT_TRUE(chosen->cuda);
    EXPECT_EQ(chosen->why_not, "");
  }
  EXPECT_FALSE(choose_provider(Provider::kCpu, kAllThere)->cuda);
}

TEST(Provider, WhatLacksIsNamedWithWhatToDo) {
  EXPECT_EQ(refusal(kNoGpu), "onnxruntime's CUDA provider cannot be used: there is no GPU");
  EXPECT_NE(refusal(kNotBuilt).find("name onnxruntime-gpu[cuda,cudnn] under [python] requirements"),
            std::string::npos);
  EXPECT_NE(refusal(kNoCudnn).find("libcudnn.so.9: cannot open shared object file"),
            std::string::npos);
  EXPECT_NE(refusal(kNoCudnn).find("brings CUDA's libraries and cuDNN along"), std::string::npos);
  EXPECT_EQ(refusal({.is_built_in = true, .failure = "CUDA failure 100"}),
            "onnxruntime's CUDA provider cannot be used: CUDA failure 100");
}

TEST(Provider, AutoTakesTheProcessorsAndSaysWhy) {
  for (const CudaFacts& facts : {kNoGpu, kNotBuilt, kNoCudnn}) {
    const auto chosen = choose_provider(Provider::kAuto, facts);
    ASSERT_TRUE(chosen.ok());
    EXPECT_FALSE(chosen->cuda);
    EXPECT_NE(chosen->why_not, "");
  }
  EXPECT_EQ(choose_provider(Provider::kCpu, kNoGpu)->why_not, "");
}

TEST(Provider, LibrariesOfPackagesAreLoadedBehindThoseThatTheyNeed) {
  namespace fs = std::filesystem;
  const TemporaryFolder folder;
  const fs::path packages = folder.path();
  for (const char* file : {"cudnn/lib/libcudnn.so.9", "cudnn/lib/libcudnn_ops.so.9",
                           "cublas/lib/libcublas.so.12", "cublas/lib/libcublasLt.so.12",
                           "cuda_runtime/lib/libcudart.so.12", "cuda_runtime/include/cuda.h"}) {
    const fs::path path = packages / "nvidia" / file;
    fs::create_directories(path.parent_path());
    std::ofstream(path) << "x";
  }
  const std::string nvidia = (packages / "nvidia").string();
  EXPECT_EQ(
      cuda_libraries_beside((packages / "onnxruntime/capi/libonnxruntime.so.1").string()),
      (std::vector<std::string>{
          nvidia + "/cuda_runtime/lib/libcudart.so.12", nvidia + "/cublas/lib/libcublasLt.so.12",
          nvidia + "/cublas/lib/libcublas.so.12", nvidia + "/cudnn/lib/libcudnn.so.9"}));
  EXPECT_TRUE(cuda_libraries_beside("/nowhere/libonnxruntime.so").empty());
}

}  // namespace
}  // namespace lambent::onnx
