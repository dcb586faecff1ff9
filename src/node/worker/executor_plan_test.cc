#include "node/worker/executor_plan.h"

#include <gmock/gmock.h>

#include <algorithm>

namespace lambent::worker {
namespace {

using testing::ElementsAre;

ExecutorSetting setting(std::vector<std::string> cublas) {
  ExecutorSetting setting;
  setting.program = "/p/lambent-executor";
  setting.gpu.folder = "/d";
  setting.cublas = std::move(cublas);
  return setting;
}

// What follows --cublas on its command line.
std::vector<std::string> libraries(const sandbox::LaunchPlan& plan) {
  std::vector<std::string> found;
  for (size_t i = 0; i + 1 < plan.argv.size(); ++i) {
    if (plan.argv[i] == "--cublas") found.push_back(plan.argv[i + 1]);
  }
  return found;
}

bool shows(const sandbox::LaunchPlan& plan, const std::string& from, const std::string& to) {
  return std::any_of(plan.binds.begin(), plan.binds.end(), [&](const sandbox::Bind& bind) {
    return bind == sandbox::Bind{from, to};
  });
}

TEST(ExecutorPlan, ALibraryIsShownWithItsFolderUnlessItIsTheSystems) {
  const auto plan = plan_executor(
      setting({"/usr/local/cuda-13.0/lib64/libcublas.so.13", "/data/nvidia/libcublas.so.12"}),
      {SandboxId(1), DeviceId(1), false, "/run/executor"});
  EXPECT_THAT(libraries(plan), ElementsAre("/usr/local/cuda-13.0/lib64/libcublas.so.13",
                                           "/opt/lambent/cublas1/libcublas.so.12"));
  EXPECT_TRUE(shows(plan, "/data/nvidia", "/opt/lambent/cublas1"));
  EXPECT_FALSE(shows(plan, "/usr/local/cuda-13.0/lib64", "/opt/lambent/cublas0"));
}

TEST(ExecutorPlan, AFolderWhoseNameOnlyBeginsLikeTheSystemsIsShown) {
  const auto plan = plan_executor(
      setting({"/library/libcublas.so.13", "/lib64/libcublas.so.12", "/usr.old/libcublas.so"}),
      {SandboxId(1), DeviceId(1), false, "/run/executor"});
  EXPECT_THAT(libraries(plan),
              ElementsAre("/opt/lambent/cublas0/libcublas.so.13", "/lib64/libcublas.so.12",
                          "/opt/lambent/cublas2/libcublas.so"));
  EXPECT_TRUE(shows(plan, "/library", "/opt/lambent/cublas0"));
}

TEST(ExecutorPlan, WithoutALibraryNothingIsSaidOfOne) {
  const auto plan = plan_executor(setting({}), {SandboxId(1), DeviceId(1), false, "/run/executor"});
  EXPECT_TRUE(libraries(plan).empty());
}

}  // namespace
}  // namespace lambent::worker
