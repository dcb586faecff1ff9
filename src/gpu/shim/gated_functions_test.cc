// The table of gated functions against what declares them, and the functions in a real program.
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "gpu/cuda_abi/driver.h"
#include "gpu/shim/passed_types.h"
#include "gpu/shim/testing/run.h"
#include "gpu/shim/testing/signature.h"

std::map<std::string, std::string> toolkit_signatures();

namespace lambent::shim {
namespace {

std::map<std::string, std::string> gated_signatures() {
  std::map<std::string, std::string> signatures;
#define GATED(name, parameters, arguments, ...) \
  signatures[#name] = signature_of(static_cast<Status(*) parameters>(nullptr));
#include "driver_gated.inc"
#undef GATED
  return signatures;
}

TEST(GatedFunctions, AgreeWithOurDeclarationsOfTheDriver) {
  const auto gated = gated_signatures();
  int compared = 0;
#define DRIVER_FUNCTION(name, symbol, parameters)                                                 \
  if (const auto found = gated.find(#symbol); found != gated.end()) {                             \
    EXPECT_EQ(found->second, signature_of(static_cast<decltype(&::symbol)>(nullptr))) << #symbol; \
    ++compared;                                                                                   \
  }
#include "gpu/cuda_abi/driver_table.inc"
#undef DRIVER_FUNCTION
  EXPECT_GT(compared, 80);
}

TEST(GatedFunctions, AgreeWithTheToolkit) {
  const auto theirs = toolkit_signatures();
  if (theirs.empty()) GTEST_SKIP() << "no CUDA 13.0 toolkit on this machine";
  EXPECT_EQ(gated_signatures(), theirs);
}

Finished probe(std::map<std::string, std::string> environment,
               const std::vector<std::string>& scenario = {}) {
  environment.insert({{"LD_PRELOAD", SHIM_WITH_GATE_CONTROL},
                      {"LD_LIBRARY_PATH", FAKE_FOLDER},
                      {"LAMBENT_SHIM_DRIVER", MIRROR_DRIVER}});
  std::vector<std::string> words{GATE_PROBE};
  words.insert(words.end(), scenario.begin(), scenario.end());
  return lambent::shim::run(words, environment);
}

TEST(GatedFunctions, PassAllTheirArgumentsOnAndWaitWhileTheGateIsShut) {
  const Finished run = probe({});
  ASSERT_EQ(run.exit_code, 0) << run.output;
  const std::string all = std::to_string(gated_signatures().size());
  EXPECT_EQ(run.values.at("functions"), all);
  EXPECT_EQ(run.values.at("came_through"), all);
  EXPECT_EQ(run.values.at("waited"), all);
  EXPECT_EQ(run.values.at("hooked_that_pass"), "0") << run.output;
}

TEST(GatedFunctions, AreFoundThroughCuGetProcAddressInEveryVersion) {
  const std::string all = std::to_string(gated_signatures().size());
  EXPECT_EQ(probe({}).values["found"], all);
  EXPECT_EQ(probe({{"FAKE_DRIVER_PRIVATE_ADDRESSES", "1"}}).values["found"], all);
}

TEST(GatedFunctions, AProgramEndsWhileItsThreadsCallAndWait) {
  EXPECT_EQ(probe({}, {"end"}).exit_code, 0);
  EXPECT_EQ(probe({}, {"end_with_gate_shut"}).exit_code, 0);
}

}  // namespace
}  // namespace lambent::shim
