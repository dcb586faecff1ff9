// What is found on a machine is told with its remedy, and only what keeps a worker from running
// fails.
#include "edge/cli/doctor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>

namespace lambent::cli {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::Field;
using testing::HasSubstr;
using testing::Not;

constexpr char kProbe[] =
    "sandboxes: possible\nrights: user namespace\nown user namespace: yes\ncgroup: v2\n"
    "memory cgroup: yes\npids cgroup: yes\ncpu cgroup: yes\n";

// A laptop without a GPU, on which everything is there.
MachineFacts laptop() {
  MachineFacts facts;
  facts.sandboxes = std::string(kProbe);
  facts.sandboxes_possible = true;
  facts.state_folder = "/home/ada/.local/share/lambent";
  facts.state_free = Bytes::gib(50);
  facts.python = "Python 3.11.2";
  facts.uv = "uv 0.9.0";
  facts.compiler = "clang 14";
  facts.endpoint = "http://127.0.0.1:8980";
  return facts;
}

auto is(Health health, const std::string& subject, const std::string& says,
        const std::string& remedy = "") {
  return AllOf(Field(&Finding::health, health), Field(&Finding::subject, subject),
               Field(&Finding::says, HasSubstr(says)), Field(&Finding::remedy, HasSubstr(remedy)));
}

class Doctor : public testing::Test {
 protected:
  int show(const MachineFacts& facts) { return show_findings(console, findings_of(facts)); }

  std::ostringstream out;
  std::ostringstream err;
  Console console{out, err};
};

TEST_F(Doctor, FindsNothingWrongWithALaptop) {
  EXPECT_THAT(findings_of(laptop()), Not(Contains(Field(&Finding::health, Not(Health::kGood)))));
  EXPECT_EQ(show(laptop()), 0);
  EXPECT_THAT(out.str(), HasSubstr("good:   sandboxes: can be made, with the rights of user "
                                   "namespace\n"));
  EXPECT_THAT(out.str(), HasSubstr("good:   worker: none runs at http://127.0.0.1:8980\n"
                                   "        -> lambent serve starts one\n"));
}

TEST_F(Doctor, SaysWhyThereCanBeNoSandboxes) {
  MachineFacts facts = laptop();
  facts.sandboxes = std::string("sandboxes: impossible: without root they need user namespaces\n");
  facts.sandboxes_possible = false;
  EXPECT_THAT(findings_of(facts),
              Contains(is(Health::kBad, "sandboxes", "impossible: without root", "AppArmor")));
  EXPECT_EQ(show(facts), exit_code_of(ErrorCode::kFailedPrecondition));
  facts.sandboxes = Error{ErrorCode::kUnavailable, "no such program"};
  EXPECT_THAT(findings_of(facts), Contains(is(Health::kBad, "sandboxes", "no such program")));
}

TEST_F(Doctor, TellsWhichLimitsAreWeaker) {
  MachineFacts facts = laptop();
  facts.sandboxes = std::string(kProbe) +
                    "weaker: a CPU quota is not enforced (no cgroup)\n"
                    "weaker: programs share the host's users\n";
  EXPECT_THAT(findings_of(facts),
              AllOf(Contains(is(Health::kWeaker, "limits", "a CPU quota", "Delegate=yes")),
                    Contains(is(Health::kWeaker, "limits", "share the host's users"))));
  EXPECT_EQ(show(facts), 0) << "a worker runs nevertheless";
}

TEST_F(Doctor, TellsOfTheGpusThatAWorkerTakesByItself) {
  MachineFacts facts = laptop();
  EXPECT_THAT(findings_of(facts),
              Contains(is(Health::kGood, "GPU", "uses an emulated one", "--gpu none")));
  facts.nvidia.library = "/opt/libcuda.so.1";
  EXPECT_THAT(findings_of(facts),
              Contains(is(Health::kGood, "GPU", "/opt/libcuda.so.1", "docker")));
  facts.nvidia = {.device_files = {"/dev/nvidia0"},
                  .module_version = "580.95",
                  .library = "/usr/lib64/libcuda.so.1",
                  .has_nvml = true,
                  .devices = 2u};
  EXPECT_THAT(findings_of(facts),
              AllOf(Contains(is(Health::kGood, "GPU", "2 by driver 580.95", "serve uses them")),
                    Contains(is(Health::kWeaker, "nvcc", "is not there", "toolkit"))));
  EXPECT_EQ(show(facts), 0);
}

TEST_F(Doctor, TellsWhichPtxTheDriverTakes) {
  MachineFacts facts = laptop();
  EXPECT_THAT(findings_of(facts), Not(Contains(Field(&Finding::subject, "PTX"))));
  facts.nvidia.cuda = CudaVersion{12, 2};
  facts.kernel_ptx = {{"blas", {7, 0}}, {"loops", {7, 0}}};
  EXPECT_THAT(findings_of(facts), Contains(is(Health::kGood, "PTX",
                                              "up to 8.2 (CUDA 12.2); Lambent's own kernels "
                                              "need 7.0")));
  facts.kernel_ptx["loops"] = {8, 3};
  facts.nvcc = "13.0";
  EXPECT_THAT(findings_of(facts),
              AllOf(Contains(is(Health::kWeaker, "PTX", "need more: loops", "newer driver")),
                    Contains(is(Health::kWeaker, "PTX of nvcc", "nvcc 13.0 states 9.0", "-arch"))));
  EXPECT_EQ(show(facts), 0) << "a worker runs nevertheless";
  facts.nvidia.cuda = CudaVersion{13, 0};
  EXPECT_THAT(findings_of(facts), Not(Contains(Field(&Finding::health, Health::kWeaker))));
}

TEST_F(Doctor, TellsWhatIsWrongWithAGpu) {
  MachineFacts facts = laptop();
  facts.nvidia.module_version = "580.95";
  EXPECT_THAT(findings_of(facts), Contains(is(Health::kBad, "GPU", "no /dev/nvidia0", "modprobe")));
  EXPECT_NE(show(facts), 0);
}

TEST_F(Doctor, TellsWhatFunctionsWillLack) {
  MachineFacts facts = laptop();
  facts.python = facts.uv = facts.compiler = std::nullopt;
  facts.state_free = Bytes::mib(100);
  facts.other_one = "HTTP 404";
  EXPECT_THAT(findings_of(facts),
              AllOf(Contains(is(Health::kWeaker, "python3", "not there", "apt install")),
                    Contains(is(Health::kWeaker, "uv", "not there", "pip install uv")),
                    Contains(is(Health::kWeaker, "compiler", "not there", "clang")),
                    Contains(is(Health::kWeaker, "state", "100 MiB free", "--state")),
                    Contains(is(Health::kWeaker, "worker", "HTTP 404", "--listen"))));
  EXPECT_EQ(show(facts), 0);
  facts.state_free = Error{ErrorCode::kPermissionDenied, "permission denied"};
  EXPECT_NE(show(facts), 0);
}

TEST_F(Doctor, HasItAsJson) {
  console.json = true;
  MachineFacts facts = laptop();
  facts.worker = "0.1.0";
  EXPECT_EQ(show(facts), 0);
  const auto json = nlohmann::json::parse(out.str());
  EXPECT_EQ(json["can_run"], true);
  EXPECT_EQ(json["findings"].back()["subject"], "worker");
  EXPECT_EQ(json["findings"].back()["says"], "0.1.0 answers at http://127.0.0.1:8980");
}

}  // namespace
}  // namespace lambent::cli
