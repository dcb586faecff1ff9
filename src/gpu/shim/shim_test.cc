// The preloaded library in real programs, over the fake driver.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "core/base/testing/testing.h"
#include "gpu/ledger/ledger.h"
#include "gpu/shim/testing/run.h"

namespace lambent::shim {
namespace {

constexpr Bytes kLimit = Bytes::mib(64);

class Shim : public ::testing::Test {
 protected:
  Shim() {
    environment_ = {{"LD_PRELOAD", SHIM_LIBRARY ":" SHIM_NVML_LIBRARY},
                    {"LD_LIBRARY_PATH", FAKE_FOLDER},
                    {"LAMBENT_SHIM_DRIVER", FAKE_FOLDER "/libcuda.so.1"},
                    {"LAMBENT_SHIM_NVML", FAKE_FOLDER "/libnvidia-ml.so.1"},
                    {"LAMBENT_SHIM_LOG", folder_ / "log"},
                    {"LAMBENT_SHIM_LEDGER", folder_ / "ledger"}};
  }

  ledger::LedgerReader ledger(Bytes limit = kLimit) {
    auto reader = ledger::create_ledger(folder_ / "ledger", limit);
    EXPECT_TRUE(reader.ok());
    return std::move(reader).value();
  }
  Finished probe(const std::string& way, const std::string& scenario) {
    return run({SHIM_PROBE, way, scenario, FAKE_FOLDER "/libcuda.so.1"}, environment_);
  }
  Running start(const std::string& scenario) {
    return Running({SHIM_PROBE, "linked", scenario}, environment_);
  }

  // Without who said it.
  std::vector<std::string> lines_of_log() {
    std::ifstream log(folder_ / "log");
    std::vector<std::string> said;
    for (std::string line; std::getline(log, line);) {
      said.push_back(line.substr(line.find(": ") + 2));
    }
    return said;
  }

  const TemporaryFolder folder_;
  std::map<std::string, std::string> environment_;
};

class EveryWay : public Shim, public ::testing::WithParamInterface<const char*> {};

TEST_P(EveryWay, OfFindingTheDriverMeetsTheLimit) {
  ledger::LedgerReader reader = ledger();
  const Finished run = probe(GetParam(), "limit");
  ASSERT_EQ(run.exit_code, 0) << run.output;
  EXPECT_EQ(run.values.at("init"), "0");
  EXPECT_EQ(run.values.at("first"), "0");
  EXPECT_EQ(run.values.at("too_much"), "2");
  EXPECT_EQ(run.values.at("total"), std::to_string(kLimit.count));
  EXPECT_EQ(run.values.at("device_total"), std::to_string(kLimit.count));
  EXPECT_EQ(run.values.at("free"), std::to_string(Bytes::mib(24).count));
  EXPECT_EQ(run.values.at("after_free"), "0");
  const ledger::LedgerReadings readings = *reader.read();
  EXPECT_EQ(readings.peak, Bytes::mib(40));
  EXPECT_EQ(readings.denied, 1u);
  EXPECT_EQ(readings.allocations, 2u);
  EXPECT_EQ(readings.used, Bytes(0)) << "the process has ended";
}

INSTANTIATE_TEST_SUITE_P(Shim, EveryWay,
                         ::testing::Values("linked", "dlsym", "absolute", "getproc"),
                         [](const auto& way) { return std::string(way.param); });

TEST_F(Shim, GoesByNameWhereTheDriverAnswersWithPrivateAddresses) {
  ledger::LedgerReader reader = ledger();
  for (const char* name : {"cuMemAlloc", "cuMemGetInfo"}) {
    environment_["FAKE_DRIVER_PRIVATE_ADDRESS"] = name;
    const Finished run = probe("getproc", "limit");
    EXPECT_EQ(run.values.at("too_much"), "2") << name;
    EXPECT_EQ(run.values.at("total"), std::to_string(kLimit.count)) << name;
  }
  EXPECT_EQ(reader.read()->denied, 2u);
}

// The program has them all the same.
TEST_F(Shim, TellsOfFunctionsThatAreNewerThanItIs) {
  ledger::LedgerReader reader = ledger();
  environment_["FAKE_DRIVER_VERSION"] = "14000";
  environment_["FAKE_DRIVER_PRIVATE_ADDRESS"] = "cuMemGetInfo";
  const Finished run = probe("linked", "newer");
  for (const char* name : {"cuMemAllocTomorrow", "cuMemGetInfo", "cuMemFree"}) {
    EXPECT_EQ(run.values.at(name), "0") << name;
  }
  EXPECT_EQ(lines_of_log(),
            (std::vector<std::string>{
                "cuMemAllocTomorrow of CUDA 14000 is newer than this shim: it is not "
                "counted, and does not wait",
                "cuMemGetInfo of CUDA 14000 is newer than this shim: it is not counted, and "
                "does not wait"}));
}

TEST_F(Shim, OnlyForwardsWithoutALedger) {
  environment_.erase("LAMBENT_SHIM_LEDGER");
  const Finished run = probe("linked", "limit");
  EXPECT_EQ(run.values.at("too_much"), "0");
  EXPECT_EQ(run.values.at("total"), std::to_string(Bytes::gib(16).count));
}

TEST_F(Shim, FallsThroughToTheDriverIfTheLedgerCannotBeUsed) {
  const Finished run = probe("linked", "limit");
  EXPECT_EQ(run.values.at("too_much"), "0");
  EXPECT_TRUE(std::filesystem::exists(folder_ / "log"));
}

TEST_F(Shim, AnswersNoDeviceWithoutADriver) {
  environment_["LAMBENT_SHIM_DRIVER"] = "/nonexistent/libcuda.so.1";
  EXPECT_EQ(probe("linked", "limit").values.at("init"), "100");
  int said = 0;
  for (const std::string& line : lines_of_log()) said += line.starts_with("no real library: ");
  EXPECT_EQ(said, 1) << "however many calls there were";
}

TEST_F(Shim, DoesNotTakeItselfForTheDriver) {
  environment_["LAMBENT_SHIM_DRIVER"] = SHIM_LIBRARY;
  EXPECT_EQ(probe("linked", "limit").values.at("init"), "100");
}

TEST_F(Shim, IsSilentUntilTheFirstCall) {
  ledger::LedgerReader reader = ledger();
  environment_["LAMBENT_SHIM_DRIVER"] = "/nonexistent/libcuda.so.1";
  EXPECT_EQ(probe("linked", "silent").exit_code, 0);
  EXPECT_FALSE(std::filesystem::exists(folder_ / "log"));
}

TEST_F(Shim, AForkedChildStartsAfreshUnderTheSameLimit) {
  ledger::LedgerReader reader = ledger();
  const Finished run = probe("linked", "fork");
  ASSERT_EQ(run.exit_code, 0) << run.output;
  EXPECT_EQ(run.values.at("parent"), "0");
  EXPECT_EQ(run.values.at("child"), "0");
  EXPECT_EQ(run.values.at("child_too_much"), "2");
  EXPECT_EQ(run.values.at("child_after_foreign_free"), "2");
  EXPECT_EQ(run.values.at("parent_again"), "0");
}

TEST_F(Shim, ThreadsThatHammerTheLimitNeverPassIt) {
  ledger::LedgerReader reader = ledger();
  const Finished run = probe("linked", "threads");
  ASSERT_EQ(run.exit_code, 0) << run.output;
  EXPECT_EQ(run.values.at("passed_limit"), "0");
  EXPECT_EQ(run.values.at("was_denied"), "1");
  EXPECT_LE(reader.read()->peak, kLimit);
}

TEST_F(Shim, WhatAKilledProcessHeldIsFreeForTheNext) {
  ledger::LedgerReader reader = ledger();
  EXPECT_EQ(probe("linked", "killed").exit_code, 128 + 9);
  EXPECT_EQ(probe("linked", "limit").values.at("first"), "0");
  EXPECT_EQ(reader.read()->used, Bytes(0));
}

TEST_F(Shim, WhatTheDriverRefusedWasNeverHeld) {
  ledger::LedgerReader reader = ledger(Bytes::gib(64));
  const Finished run = probe("linked", "refused");
  EXPECT_EQ(run.values.at("refused"), "2");
  EXPECT_EQ(run.values.at("small"), "0");
  EXPECT_EQ(reader.read()->peak, Bytes::mib(1));
  EXPECT_EQ(reader.read()->allocations, 1u);
}

TEST_F(Shim, TenProcessesShareOneLimitToTheLastMebibyte) {
  ledger::LedgerReader reader = ledger();
  std::vector<Running> processes;
  for (int i = 0; i < 10; ++i) processes.push_back(start("hold"));
  for (Running& process : processes) ASSERT_TRUE(process.wait_for("got"));
  const ledger::LedgerReadings readings = *reader.read();
  EXPECT_EQ(readings.used, kLimit);
  int sum = 0;
  for (Running& process : processes) sum += std::stoi(process.finish().values.at("got"));
  EXPECT_EQ(sum, 64);
  EXPECT_EQ(reader.read()->used, Bytes(0));
}

TEST_F(Shim, ChildrenOfPythonAndDeeplyBoundLibrariesMeetTheLimitToo) {
  ledger::LedgerReader reader = ledger();
  const Finished run = lambent::shim::run({PYTHON, "-B", CHILDREN_SCRIPT, DEEPBOUND}, environment_);
  ASSERT_EQ(run.exit_code, 0) << run.output;
  EXPECT_EQ(run.values.at("parent"), "0");
  EXPECT_EQ(run.values.at("started"), "0,2");
  EXPECT_EQ(run.values.at("forked"), "0,2");
  EXPECT_EQ(run.values.at("forked_ended"), "0");
  EXPECT_EQ(run.values.at("deepbound"), "0,2");
  EXPECT_EQ(run.values.at("deepbound_by_name"), "2");
  EXPECT_EQ(reader.read()->used, Bytes(0));
}

TEST_F(Shim, PythonMeetsTheLimitByNameByPathAndByAddressAndNvmlAgrees) {
  ledger::LedgerReader reader = ledger();
  const Finished run =
      lambent::shim::run({PYTHON, PROBE_SCRIPT, FAKE_FOLDER "/libcuda.so.1"}, environment_);
  ASSERT_EQ(run.exit_code, 0) << run.output;
  EXPECT_EQ(run.values.at("init"), "0");
  EXPECT_EQ(run.values.at("by_name"), "2");
  EXPECT_EQ(run.values.at("by_path"), "2");
  EXPECT_EQ(run.values.at("by_address"), "2");
  EXPECT_EQ(run.values.at("small"), "0");
  EXPECT_EQ(run.values.at("nvml_total"), run.values.at("cuda_total"));
  EXPECT_EQ(run.values.at("nvml_free"), run.values.at("cuda_free"));
  EXPECT_EQ(run.values.at("cuda_free"), std::to_string(Bytes::mib(54).count));
  const std::string limit = std::to_string(kLimit.count);
  for (const char* list : {"nvml_processes", "nvml_graphics", "nvml_mps", "nvml_details"}) {
    EXPECT_EQ(run.values.at(list), limit + "," + std::to_string(Bytes::mib(1).count)) << list;
  }
  for (const char* amount : {"nvml_protected", "nvml_accounting", "nvml_confidential"}) {
    EXPECT_EQ(run.values.at(amount), limit) << amount;
  }
  EXPECT_EQ(run.values.at("nvml_attributes_mib"), std::to_string(kLimit.count >> 20));
  EXPECT_EQ(run.values.at("nvml_sizes_kib"), std::to_string(kLimit.count >> 10) + ",1");
}

}  // namespace
}  // namespace lambent::shim
