// What is found of NVIDIA's GPUs, and what follows.
#include "core/domain/nvidia_gpus.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lambent {
namespace {

using testing::AllOf;
using testing::Field;
using testing::HasSubstr;
using testing::IsEmpty;

// A machine with two GPUs on which all is well.
NvidiaFacts server() {
  return {.device_files = {"/dev/nvidia0", "/dev/nvidia1"},
          .module_version = "580.95",
          .library = "/usr/lib64/libcuda.so.1",
          .has_nvml = true,
          .devices = 2u};
}

auto is(NvidiaState state, const std::string& says, const std::string& remedy) {
  return AllOf(Field(&NvidiaJudgement::state, state),
               Field(&NvidiaJudgement::says, HasSubstr(says)),
               Field(&NvidiaJudgement::remedy, HasSubstr(remedy)));
}

TEST(NvidiaGpus, AreUsableWhereAllIsThere) {
  EXPECT_THAT(judge(server()), is(NvidiaState::kUsable, "2 by driver 580.95", ""));
  EXPECT_THAT(judge(server()).remedy, IsEmpty());
}

TEST(NvidiaGpus, TakePtxByTheCudaOfTheirDriver) {
  EXPECT_EQ(ptx_of({12, 2}), (CudaVersion{8, 2}));
  EXPECT_EQ(ptx_of({12, 6}), (CudaVersion{8, 5})) << "12.6 brought no PTX of its own";
  EXPECT_EQ(ptx_of({13, 0}), (CudaVersion{9, 0}));
  EXPECT_EQ(ptx_of({99, 0}), ptx_of({13, 1})) << "of a later one what is known is the least";
  EXPECT_EQ(ptx_of({9, 0}), CudaVersion{});
}

TEST(NvidiaGpus, VersionsAreRead) {
  EXPECT_EQ(cuda_version_of("12.4\n"), (CudaVersion{12, 4}));
  EXPECT_EQ(cuda_version_of("13.0, V13.0.88"), (CudaVersion{13, 0}));
  for (const char* text : {"", "12", "12.", "x.1", ".4", "V12.4"}) {
    EXPECT_EQ(cuda_version_of(text), std::nullopt) << text;
  }
}

TEST(NvidiaGpus, AreAbsentWhereNothingTellsOfOne) {
  EXPECT_THAT(judge({}), is(NvidiaState::kAbsent, "there is no libcuda.so.1", ""));
}

TEST(NvidiaGpus, AreAbsentWhereThereIsTheLibraryAndNoDriver) {
  NvidiaFacts facts;
  facts.library = "/opt/libcuda.so.1";
  facts.devices = Error{ErrorCode::kUnavailable, "cuInit: CUDA_ERROR_NO_DEVICE (100)"};
  EXPECT_THAT(judge(facts), is(NvidiaState::kAbsent, "/opt/libcuda.so.1", "--gpus all"));
  EXPECT_THAT(judge(facts).says, HasSubstr("CUDA_ERROR_NO_DEVICE"));
}

TEST(NvidiaGpus, AreBrokenWhereAPartIsMissing) {
  NvidiaFacts facts = server();
  facts.device_files.clear();
  EXPECT_THAT(judge(facts), is(NvidiaState::kBroken, "no /dev/nvidia0", "nvidia-modprobe"));
  facts = server();
  facts.module_version.clear();
  EXPECT_THAT(judge(facts), is(NvidiaState::kBroken, "no driver is loaded", "modprobe"));
  facts = server();
  facts.library.clear();
  EXPECT_THAT(judge(facts), is(NvidiaState::kBroken, "no libcuda.so.1", "--nvidia-driver"));
  facts = server();
  facts.has_nvml = false;
  EXPECT_THAT(judge(facts), is(NvidiaState::kBroken, "no libnvidia-ml.so.1", "libnvidia-ml1"));
}

TEST(NvidiaGpus, AreBrokenWhereCudaDoesNotStartOrSeesNone) {
  NvidiaFacts facts = server();
  facts.devices = Error{ErrorCode::kInternal, "cuInit: 803"};
  EXPECT_THAT(judge(facts),
              is(NvidiaState::kBroken, "CUDA does not start: cuInit: 803", "version"));
  facts.devices = 0u;
  EXPECT_THAT(judge(facts), is(NvidiaState::kBroken, "0 by driver", "CUDA_VISIBLE_DEVICES"));
}

}  // namespace
}  // namespace lambent
