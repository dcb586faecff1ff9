#include "gpu/cuda_abi/driver.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <fstream>
#include <set>
#include <string>
#include <vector>

#include "gpu/cuda_abi/nvml.h"

std::vector<long long> toolkit_facts();

namespace {

struct Fact {
  const char* expression;
  long long value;
};

std::vector<Fact> our_facts() {
  std::vector<Fact> facts;
#define FACT(expression) facts.push_back({#expression, static_cast<long long>(expression)});
#include "gpu/cuda_abi/driver_facts.inc"
#undef FACT
  return facts;
}

std::vector<std::string> committed_symbols() {
  std::ifstream file(std::string(LAMBENT_SOURCE_DIR) + "/src/gpu/cuda_abi/driver_symbols.txt");
  std::vector<std::string> symbols;
  for (std::string line; std::getline(file, line);) symbols.push_back(line);
  return symbols;
}

TEST(DriverAbi, OurDeclarationsAgreeWithTheToolkit) {
  auto theirs = toolkit_facts();
  if (theirs.empty()) GTEST_SKIP() << "no CUDA 13.0 toolkit on this machine";
  auto ours = our_facts();
  ASSERT_EQ(ours.size(), theirs.size());
  for (size_t i = 0; i < ours.size(); i++)
    EXPECT_EQ(ours[i].value, theirs[i]) << ours[i].expression;
}

TEST(DriverAbi, SymbolListIsSortedAndComplete) {
  auto symbols = committed_symbols();
  EXPECT_EQ(symbols.size(), 682u);
  EXPECT_TRUE(std::is_sorted(symbols.begin(), symbols.end()));
}

TEST(DriverAbi, EveryTableRowIsASymbolOfTheDriver) {
  auto list = committed_symbols();
  std::set<std::string> symbols(list.begin(), list.end());
#define DRIVER_FUNCTION(name, symbol, parameters) EXPECT_TRUE(symbols.count(#symbol)) << #symbol;
#include "gpu/cuda_abi/driver_table.inc"
#undef DRIVER_FUNCTION
}

// Exported by NVIDIA's driver, and found only by dlsym(): what a debugger calls, and what has no
// documentation.
bool is_found_by_name_alone(const std::string& symbol) {
  return symbol.starts_with("cudbg") || symbol.starts_with("cuMemGetAttribute") ||
         symbol == "cuEGLApiInit";
}

TEST(DriverAbi, TheVersionTableReachesEverySymbolOnce) {
  std::multiset<std::string> reached;
#define DRIVER_VERSION(name, version, symbol, per_thread) reached.insert(#symbol);
#include "gpu/cuda_abi/driver_versions.inc"
#undef DRIVER_VERSION
  for (const auto& symbol : committed_symbols()) {
    EXPECT_EQ(reached.count(symbol), is_found_by_name_alone(symbol) ? 0u : 1u) << symbol;
  }
}

TEST(NvmlAbi, LayoutsAreThoseOfTheLibrary) {
  EXPECT_EQ(sizeof(nvmlMemory_t), 24u);
  EXPECT_EQ(sizeof(nvmlMemory_v2_t), 40u);
  EXPECT_EQ(nvmlMemory_v2, 0x2000028u);
  EXPECT_EQ(sizeof(nvmlUtilization_t), 8u);
  EXPECT_EQ(sizeof(nvmlProcessInfo_v1_t), 16u);
  EXPECT_EQ(sizeof(nvmlProcessInfo_t), 24u);
  EXPECT_EQ(sizeof(nvmlPciInfo_t), 68u);
  EXPECT_EQ(sizeof(nvmlEventData_t), 32u);
  EXPECT_EQ(sizeof(nvmlGpuInstanceProfileInfo_t), 48u);
  EXPECT_EQ(sizeof(nvmlGpuInstanceProfileInfo_v2_t), 152u);
  EXPECT_EQ(sizeof(nvmlGpuInstanceInfo_t), 24u);
  EXPECT_EQ(sizeof(nvmlComputeInstanceProfileInfo_t), 36u);
  EXPECT_EQ(sizeof(nvmlComputeInstanceInfo_t), 32u);
  EXPECT_EQ(sizeof(nvmlDeviceAttributes_t), 40u);
}

}  // namespace
