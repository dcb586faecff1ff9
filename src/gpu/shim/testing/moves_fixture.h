// What the tests of moves share: a program whose memory moves over the emulated driver, while the
// test plays the worker and lambent-device.
#pragma once

#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "core/base/testing/testing.h"
#include "gpu/ledger/ledger.h"
#include "gpu/shim/testing/memory_peers.h"
#include "gpu/shim/testing/run.h"

namespace lambent::shim {

constexpr uint64_t kMiB = 1 << 20;

// Where the build put what these tests run; defined in moves_test.cc.
extern const char* const kShimLibrary;
extern const char* const kMovingProbe;
extern const char* const kEmulatedFolder;

// A process of the program, and the worker's connection to it.
class Tenant {
 public:
  Tenant(const std::map<std::string, std::string>& environment, MemoryListener& listener,
         const std::string& program = kMovingProbe)
      : program_({program}, environment), worker_(listener) {}

  // Tells the program to do something, and reads what it says about it.
  std::string ask(const std::string& act, const std::string& name) {
    program_.tell(act);
    return hear(name);
  }
  std::string hear(const std::string& name) {
    if (!program_.wait_for(name)) return "it ended: " + program_.take_text();
    std::istringstream words(program_.take_text());
    std::string word;
    std::string value;
    while (words >> word >> value) {
      if (word == name) return value;
      values_[word] = value;
    }
    return "nothing";
  }
  const std::string& value(const std::string& name) { return values_[name]; }

  Running& program() { return program_; }
  WorkerSide& worker() { return worker_; }

 private:
  Running program_;
  WorkerSide worker_;
  std::map<std::string, std::string> values_;
};

class Moves : public ::testing::Test {
 protected:
  Moves() : listener_(folder_ / "worker") {
    environment_ = {{"LD_PRELOAD", kShimLibrary},
                    {"LD_LIBRARY_PATH", kEmulatedFolder},
                    {"LAMBENT_SHIM_DRIVER", std::string(kEmulatedFolder) + "/libcuda.so.1"},
                    {"LAMBENT_SHIM_LOG", folder_ / "log"},
                    {"LAMBENT_SHIM_LEDGER", folder_ / "ledger"},
                    {"LAMBENT_SHIM_MEMORY_MODE", "vmm"},
                    {"LAMBENT_SHIM_MEMORY", folder_ / "worker"},
                    {"EMULATED_CUDA_NODE", folder_ / "node"},
                    {"EMULATED_CUDA_CONFIG", "tiny"}};
    auto reader = ledger::create_ledger(folder_ / "ledger", Bytes::mib(2000));
    EXPECT_TRUE(reader.ok());
    reader_.emplace(std::move(reader).value());
  }
  ~Moves() override {
    if (HasFailure()) std::cerr << log();
  }
  Tenant tenant() { return Tenant(environment_, listener_); }
  std::unique_ptr<DeviceSide> device(DeviceSide::Options options) {
    environment_["LAMBENT_SHIM_LINK"] = folder_ / "link";
    return std::make_unique<DeviceSide>(folder_ / "link", options);
  }
  std::string log() const {
    std::ifstream file(folder_ / "log");
    std::ostringstream text;
    text << file.rdbuf();
    return text.str();
  }
  // What is free on a device, as another process sees it.
  long long free_mib(int device = 0) {
    std::map<std::string, std::string> plain = environment_;
    for (const char* name : {"LD_PRELOAD", "LAMBENT_SHIM_LEDGER", "LAMBENT_SHIM_MEMORY"}) {
      plain.erase(name);
    }
    Running other({kMovingProbe}, plain);
    if (device > 0) other.tell("device " + std::to_string(device));
    other.tell("report");
    return std::stoll(other.finish().values["free_mib"]);
  }

  const TemporaryFolder folder_;
  MemoryListener listener_;
  std::map<std::string, std::string> environment_;
  std::optional<ledger::LedgerReader> reader_;
};

}  // namespace lambent::shim
