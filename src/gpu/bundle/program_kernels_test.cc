#include "gpu/bundle/program_kernels.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "core/base/fd.h"
#include "gpu/bundle/ptx_program.h"

namespace lambent::bundle {
namespace {

TEST(ProgramKernels, SymbolsAreReadAsCPlusPlusNamesThem) {
  EXPECT_EQ(expression_of_symbol("vector_add"), (KernelExpression{"vector_add", ""}));
  EXPECT_EQ(expression_of_symbol("_Z4vaddPKfS0_Pfi"),
            (KernelExpression{"vadd", "(float const*, float const*, float*, int)"}));
  EXPECT_EQ(expression_of_symbol("_Z5scaleILi3EEvPfi"),
            (KernelExpression{"scale<3>", "(float*, int)"}));
  EXPECT_EQ(expression_of_symbol("_ZN4mine5resetEv"), (KernelExpression{"mine::reset", "()"}));
  EXPECT_EQ(expression_of_symbol("_Z3runIN4mine3AddEEvT_"),
            (KernelExpression{"run<mine::Add>", "(mine::Add)"}));
  EXPECT_EQ(expression_of_symbol("_Z4foldIXadL_ZN4mine3addEffEEEvPf"),
            (KernelExpression{"fold<&mine::add>", "(float*)"}));
}

TEST(ProgramKernels, LibrariesOfKernelsNeedNvcc) {
  const std::string folder = testing::TempDir();
  const std::string file = folder + "with_cub.cu";
  ASSERT_TRUE(write_file_atomically(file, "#include <cub/device/device_scan.cuh>\n", false).ok());
  Program program;
  program.files = {file};
  program.compilation.scratch_folder = folder;
  program.compilation.output = folder + "with_cub.so";
  const auto kernels = compile_program_kernels(program);
  ASSERT_FALSE(kernels.ok());
  EXPECT_EQ(kernels.error().code, ErrorCode::kUnavailable);
  EXPECT_NE(kernels.error().message.find("with_cub.cu"), std::string::npos);
  EXPECT_NE(kernels.error().message.find("nvcc"), std::string::npos);
}

// A toolkit whose nvcc makes the same of every file.
Program program_with_nvcc(const std::string& source, const std::string& nvcc) {
  namespace fs = std::filesystem;
  // Of its own: tests run beside each other.
  const std::string test = testing::UnitTest::GetInstance()->current_test_info()->name();
  const fs::path folder = fs::path(testing::TempDir()) / ("with_nvcc_" + test);
  fs::remove_all(folder);
  fs::create_directories(folder / "toolkit/bin");
  fs::create_directories(folder / "toolkit/include");
  EXPECT_TRUE(write_file_atomically((folder / "toolkit/bin/nvcc").string(), nvcc, false).ok());
  fs::permissions(folder / "toolkit/bin/nvcc", fs::perms::owner_all);
  EXPECT_TRUE(write_file_atomically((folder / "program.cu").string(), source, false).ok());
  Program program;
  program.files = {(folder / "program.cu").string()};
  program.toolkit_headers = (folder / "toolkit/include").string();
  program.compilation.scratch_folder = folder.string();
  program.compilation.output = (folder / "program.so").string();
  // No compiler is needed to tell which way a program takes.
  program.compilation.compiler = "false";
  return program;
}

TEST(ProgramKernels, WhatTheHostCompilerDoesNotReadGoesToNvcc) {
  const auto kernels = compile_program_kernels(
      program_with_nvcc("__global__ void k() {}\n", "#!/bin/sh\necho asked >&2\nexit 3\n"));
  ASSERT_FALSE(kernels.ok());
  EXPECT_EQ(kernels.error().code, ErrorCode::kInvalidArgument);
  // First what the sources lack, then what nvcc said.
  const std::string& said = kernels.error().message;
  const size_t sources = said.find("for the host"), nvcc = said.find("And by nvcc's PTX: ");
  ASSERT_NE(nvcc, std::string::npos) << said;
  EXPECT_LT(sources, nvcc) << said;
  EXPECT_NE(said.find("asked", nvcc), std::string::npos) << said;
}

TEST(ProgramKernels, VolatileGoesToNvccFirst) {
  Program program = program_with_nvcc("__global__ void k(volatile int* p) { p[1] = p[0]; }\n",
                                      "#!/bin/sh\necho \"$@\" > \"$0.asked\"\nexit 3\n");
  const std::string asked = nvcc_of(program) + ".asked";
  const auto kernels = compile_program_kernels(program);
  // That nvcc has no headers, so neither way leads anywhere.
  ASSERT_FALSE(kernels.ok());
  const auto words = read_file(asked, 1000);
  ASSERT_TRUE(words.ok());
  EXPECT_NE(words->find("--extended-lambda"), std::string::npos) << *words;
  EXPECT_NE(kernels.error().message.find("And by nvcc's PTX: "), std::string::npos)
      << kernels.error().message;
}

// What the host compiler is told of the architecture, one word for each time that it was asked.
std::string architectures_with(const std::vector<std::string>& nvcc_options) {
  Program program = program_with_nvcc("__global__ void k() {}\n", "");
  const std::string folder = program.compilation.scratch_folder, compiler = folder + "/compiler",
                    asked = folder + "/asked";
  const std::string script = "#!/bin/sh\nsed -n 's/#define __CUDA_ARCH__ //p' " + folder +
                             "/find.cc >> " + asked + "\nexit 1\n";
  EXPECT_TRUE(write_file_atomically(compiler, script, false).ok());
  std::filesystem::permissions(compiler, std::filesystem::perms::owner_all);
  program.compilation.compiler = compiler;
  program.toolkit_headers.clear();
  program.nvcc_options = nvcc_options;
  EXPECT_FALSE(compile_program_kernels(program).ok());
  const auto told = read_file(asked, 1000);
  return told.ok() ? *told : "none";
}

TEST(ProgramKernels, SourcesAreReadForTheArchitectureOfNvcc) {
  EXPECT_EQ(architectures_with({}), "700\n");
  EXPECT_EQ(architectures_with({"-arch=sm_75", "-O2"}), "700\n");
  // What only a later one has may be more than the host compiler reads.
  EXPECT_EQ(architectures_with({"-arch=sm_90a"}), "800\n700\n");
  EXPECT_EQ(architectures_with({"-gencode", "arch=compute_70,code=[sm_70,sm_86]"}), "800\n700\n");
}

TEST(ProgramKernels, WithoutNvccTheErrorIsThatOfTheSources) {
  Program without_toolkit = program_with_nvcc("__global__ void k() {}\n", "");
  // Headers without a compiler, as NVIDIA's packages have them too.
  const Program headers_only = without_toolkit;
  std::filesystem::permissions(nvcc_of(headers_only), std::filesystem::perms::owner_read);
  without_toolkit.toolkit_headers.clear();
  for (const Program& program : {without_toolkit, headers_only}) {
    const auto kernels = compile_program_kernels(program);
    ASSERT_FALSE(kernels.ok());
    const std::string& said = kernels.error().message;
    EXPECT_NE(said.find("for the host"), std::string::npos);
    EXPECT_EQ(said.find("nvcc's"), std::string::npos) << said;
  }
}

TEST(ProgramKernels, NvccIsBesideHeadersThatAreALink) {
  namespace fs = std::filesystem;
  Program program = program_with_nvcc("", "");
  const fs::path toolkit = fs::path(program.toolkit_headers).parent_path();
  fs::create_directories(toolkit / "targets/one/include");
  fs::remove(toolkit / "include");
  fs::create_directory_symlink("targets/one/include", toolkit / "include");
  EXPECT_EQ(nvcc_of(program), toolkit / "bin/nvcc");
}

}  // namespace
}  // namespace lambent::bundle
