// conformance_test [--driver=PATH] [--nvml=PATH] [--data=FOLDER] [GoogleTest flags]: the folder
// holds kernels/, presets/ and outdated_kernel.so where the build that made them is not at hand.
#include <gtest/gtest.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "conformance/driver.h"

namespace {
std::string g_driver_path = "libcuda.so.1";
std::string g_nvml_path = "libnvidia-ml.so.1";
std::string g_data_path;
std::string g_role;

bool take(const std::string& argument, const std::string& flag, std::string* value) {
  if (argument.rfind(flag + "=", 0) != 0) return false;
  *value = argument.substr(flag.size() + 1);
  return true;
}
}  // namespace

namespace lambent::conformance {
std::string driver_path() { return g_driver_path; }
std::string nvml_path() { return g_nvml_path; }
std::string data_path() { return g_data_path; }
Driver& driver() {
  static Driver* instance = new Driver;
  return *instance;
}
}  // namespace lambent::conformance

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  signal(SIGPIPE, SIG_IGN);
  for (int i = 1; i < argc; i++) {
    take(argv[i], "--driver", &g_driver_path) || take(argv[i], "--nvml", &g_nvml_path) ||
        take(argv[i], "--data", &g_data_path) || take(argv[i], "--role", &g_role);
  }
  if (testing::GTEST_FLAG(list_tests)) return RUN_ALL_TESTS();
  auto& driver = lambent::conformance::driver();
  std::string error;
  if (!driver.load(g_driver_path, &error)) {
    std::fprintf(stderr, "cannot load the driver: %s\n", error.c_str());
    return 2;
  }
  if (CUresult result = driver.init(0)) {
    std::fprintf(stderr, "cuInit: %d\n", result);
    return 2;
  }
  char name[96] = "";
  driver.device_get_name(name, sizeof name, 0);
  driver.emulated = std::string(name).find("Emulated") != std::string::npos;
  const char* mode = std::getenv("EMULATED_CUDA_LAUNCH_MODE");
  driver.model_mode = driver.emulated && mode && std::string(mode) == "model";
  if (!g_role.empty()) return lambent::conformance::play(g_role);
  return RUN_ALL_TESTS();
}
