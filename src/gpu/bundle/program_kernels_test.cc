#include "gpu/bundle/program_kernels.h"

#include <gtest/gtest.h>

#include "core/base/fd.h"

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

}  // namespace
}  // namespace lambent::bundle
