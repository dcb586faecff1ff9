#include "node/sandbox/plan.h"
#include "core/domain/limits.h"
#include "node/sandbox/limits.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "node/sandbox/start_limits.h"

namespace lambent::sandbox {
namespace {

using testing::HasSubstr;

LaunchPlan good_plan() {
  LaunchPlan plan;
  plan.sandbox = SandboxId(1);
  plan.argv = {"/var/task/bootstrap"};
  plan.code = "/srv/code/1";
  plan.environment = {{"PATH", "/usr/bin"}};
  plan.binds = {{"/srv/layer", "/opt", false}, {"/srv/node", "/run/lambent/node", true}};
  plan.devices = {{"/dev/nvidia0", "/dev/nvidia0"}};
  return plan;
}

void expect_refused(const LaunchPlan& plan, const std::string& part_of_message) {
  const auto valid = validate(plan);
  ASSERT_FALSE(valid.ok()) << part_of_message;
  EXPECT_EQ(valid.error().code, ErrorCode::kInvalidArgument);
  EXPECT_THAT(valid.error().message, HasSubstr(part_of_message));
}

TEST(PlanTest, AGoodPlanIsAccepted) {
  const auto valid = validate(good_plan());
  EXPECT_TRUE(valid.ok()) << (valid.ok() ? "" : valid.error().message);
}

TEST(PlanTest, PathsThatAreNotPlainAreRefused) {
  for (const std::string path :
       {"relative", "", "/a/../b", "/a/./b", "/a//b", "/a/", "/..", "/a/.."}) {
    LaunchPlan plan = good_plan();
    plan.binds[0].host_path = path;
    expect_refused(plan, "a bind's host path");
    plan = good_plan();
    plan.binds[0].sandbox_path = path;
    expect_refused(plan, "a bind's sandbox path");
    plan = good_plan();
    plan.working_directory = path;
    expect_refused(plan, "working_directory");
  }
  LaunchPlan plan = good_plan();
  plan.code = "/a/../b";
  expect_refused(plan, "code");
  plan = good_plan();
  plan.code = "/" + std::string(limits::kSandboxPathLength, 'x');
  expect_refused(plan, "longer than");
}

TEST(PlanTest, FilesOfSecretsHavePlainNamesAPlaceOfTheirOwnAndABound) {
  LaunchPlan plan = good_plan();
  plan.secret_files = {{"key", "value"}, {"tls.crt", std::string(64 << 10, 'x')}};
  EXPECT_TRUE(validate(plan).ok());
  for (const char* name : {"", "a/b", "..", ".hidden"}) {
    LaunchPlan bad = plan;
    bad.secret_files[name] = "value";
    expect_refused(bad, "secret_files");
  }
  for (const char* place : {"/run", "/run/secrets", "/run/secrets/key"}) {
    LaunchPlan bad = plan;
    bad.binds[1].sandbox_path = place;
    expect_refused(bad, "collides with the files of secrets");
    bad.secret_files.clear();
    EXPECT_TRUE(validate(bad).ok()) << place;
  }
  plan.secret_files["large"].resize(limits::kSandboxSecretFiles.count, 'x');
  expect_refused(plan, "are together larger than 16 MiB");
}

TEST(PlanTest, AnImageHasAnAbsolutePathAndNoZygote) {
  LaunchPlan plan = good_plan();
  plan.image = {.host_path = "/srv/images/1/root", .user = 0};
  EXPECT_TRUE(validate(plan).ok());
  plan.image->host_path = "images/1";
  expect_refused(plan, "the image's root");
  plan.image->host_path = "/srv/images/../1";
  expect_refused(plan, "the image's root");
  plan.image->host_path = "/srv/images/1/root";
  plan.zygote = ZygotePlan{.key = "k", .argv = {"/usr/bin/python3"}};
  expect_refused(plan, "goes with no zygote");
}

TEST(PlanTest, NulBytesAreRefusedEverywhere) {
  const std::string nul("/a\0b", 4);
  LaunchPlan plan = good_plan();
  plan.argv.push_back(nul);
  expect_refused(plan, "NUL");
  plan = good_plan();
  plan.environment["A"] = nul;
  expect_refused(plan, "NUL");
  plan = good_plan();
  plan.binds[1].host_path = nul;
  expect_refused(plan, "NUL");
  plan = good_plan();
  plan.devices = {{"/dev/x", nul}};
  expect_refused(plan, "NUL");
  plan.devices = {{nul, "/dev/x"}};
  expect_refused(plan, "NUL");
}

TEST(PlanTest, PlacesOfTheSandboxItselfCannotBeCovered) {
  for (const std::string place : {"/", "/usr/lib", "/etc", "/etc/passwd", "/proc/1", "/dev/shm",
                                  "/tmp", "/tmp/x", "/var", "/var/task", "/var/task/x", "/sys"}) {
    LaunchPlan plan = good_plan();
    plan.binds[0].sandbox_path = place;
    expect_refused(plan, "a bind's sandbox path");
  }
  LaunchPlan plan = good_plan();
  plan.binds[0].sandbox_path = "/users";  // begins like /usr, lies beside it
  EXPECT_TRUE(validate(plan).ok());
}

TEST(PlanTest, BindsInsideOneAnotherAreRefused) {
  LaunchPlan plan = good_plan();
  plan.binds.push_back({"/srv/x", "/opt/x", false});
  expect_refused(plan, "collides");
  plan = good_plan();
  plan.binds.push_back({"/srv/x", "/run", false});
  expect_refused(plan, "collides");
}

TEST(PlanTest, DevicesLieBelowDevAndAreNotTheSandboxesOwn) {
  for (const std::string device :
       {"/etc/shadow", "/dev", "/dev/../etc", "/dev/null", "/dev/shm/x"}) {
    LaunchPlan plan = good_plan();
    plan.devices = {{"/dev/nvidia0", device}};
    expect_refused(plan, "a device");
  }
  LaunchPlan plan = good_plan();
  plan.devices = {{"/srv/fake/nvidia0", "/dev/nvidia0"}};
  EXPECT_TRUE(validate(plan).ok()) << "wherever the host has it";
  plan.devices.push_back({"/srv/fake/nvidia1", "/dev/nvidia0"});
  expect_refused(plan, "collides");
}

TEST(PlanTest, ProgramsAndVariablesNeedNames) {
  LaunchPlan plan = good_plan();
  plan.argv.clear();
  expect_refused(plan, "argv");
  plan.argv = {""};
  expect_refused(plan, "argv[0]");
  plan = good_plan();
  plan.environment["A=B"] = "c";
  expect_refused(plan, "bad name");
  plan = good_plan();
  plan.hostname = "a b";
  expect_refused(plan, "hostname");
}

TEST(PlanTest, EveryLimitIsReached) {
  LaunchPlan plan = good_plan();
  plan.argv.resize(limits::kSandboxArguments, "x");
  EXPECT_TRUE(validate(plan).ok());
  plan.argv.resize(limits::kSandboxArguments + 1, "x");
  expect_refused(plan, "argv");
  plan = good_plan();
  plan.binds.clear();
  for (size_t i = 0; i < limits::kSandboxBinds; ++i) {
    plan.binds.push_back({"/srv/x", "/opt/" + std::to_string(i), false});
  }
  EXPECT_TRUE(validate(plan).ok());
  plan.binds.push_back({"/srv/x", "/opt/last", false});
  expect_refused(plan, "binds");
  plan = good_plan();
  plan.environment["BIG"] = std::string(limits::kLauncherMessage.count, 'x');
  expect_refused(plan, "together larger");
}

TEST(PlanTest, ProcessorsThatNoHostHasAreRefused) {
  LaunchPlan plan = good_plan();
  plan.processors = {0, kMostProcessors - 1};
  EXPECT_TRUE(validate(plan).ok());
  plan.processors.push_back(kMostProcessors);
  expect_refused(plan, "processors");
  plan.processors.assign(kMostProcessors + 1, 0);
  expect_refused(plan, "processors");
}

TEST(PlanTest, LimitsOfNothingAreRefused) {
  LaunchPlan plan = good_plan();
  plan.limits.memory = Bytes();
  expect_refused(plan, "limits.memory");
  plan = good_plan();
  plan.limits.processes = 0;
  expect_refused(plan, "limits.processes");
  plan = good_plan();
  plan.limits.cpus = -1;
  expect_refused(plan, "limits.cpus");
  plan = good_plan();
  plan.limits.scratch = Bytes();
  expect_refused(plan, "limits.scratch");
}

}  // namespace
}  // namespace lambent::sandbox
