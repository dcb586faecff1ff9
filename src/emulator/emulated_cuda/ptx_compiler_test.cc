#include "emulator/emulated_cuda/ptx_compiler.h"

#include <gtest/gtest.h>

#include "gpu/cuda_abi/ptx_job.h"

namespace lambent::emulated_cuda {
namespace {

TEST(PtxCompiler, ATextEndsWithAZeroOrWhereTheCallSaysSo) {
  EXPECT_EQ(ptx_text(".version 8.0", 0), ".version 8.0");
  EXPECT_EQ(ptx_text(".version 8.0", 8), ".version");
  EXPECT_EQ(ptx_text(".v\0rest", 7), ".v");
}

TEST(PtxCompiler, KernelsAreFoundByTheirNames) {
  using Names = std::vector<std::string>;
  EXPECT_EQ(ptx_kernels(".visible .entry\n\t_Z1kPf(\n.param .u64 p)\n{}.entry $b () .entryway x"),
            (Names{"_Z1kPf", "$b"}));
  EXPECT_EQ(ptx_kernels(".entry"), Names{});
  EXPECT_EQ(ptx_kernels(".entry    "), Names{});
}

TEST(PtxCompiler, AnswersAreReadWhateverStandsAroundThem) {
  using cuda_abi::PtxJobOutcome;
  const auto answer = cuda_abi::read_ptx_job_answer("a warning\nptx: invalid\nline 5: no\nmore");
  ASSERT_TRUE(answer.has_value());
  EXPECT_EQ(answer->outcome, PtxJobOutcome::kInvalid);
  EXPECT_EQ(answer->message, "line 5: no\nmore");
  EXPECT_EQ(cuda_abi::read_ptx_job_answer("ptx: made\n")->outcome, PtxJobOutcome::kMade);
  EXPECT_EQ(cuda_abi::read_ptx_job_answer("ptx: made")->outcome, PtxJobOutcome::kMade);
  for (const char* none : {"", "ptx: ", "ptx: mad\n", "no ptx: made\n", "made\n"}) {
    EXPECT_FALSE(cuda_abi::read_ptx_job_answer(none).has_value()) << none;
  }
}

}  // namespace
}  // namespace lambent::emulated_cuda
