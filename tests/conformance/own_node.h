// A node of its own for one case, made from a preset with changes; peers that start while it lives
// use it, and so does NVML if it is initialised then.
#pragma once

#include <stdlib.h>
#include <unistd.h>

#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "conformance/fixture.h"

namespace lambent::conformance {

// A variable of the environment, as it was before afterwards.
class Setting {
 public:
  Setting(const char* name, const std::string& value) : name_(name) {
    const char* before = getenv(name);
    was_set_ = before != nullptr;
    before_ = before ? before : "";
    setenv(name, value.c_str(), 1);
  }
  ~Setting() { was_set_ ? setenv(name_, before_.c_str(), 1) : unsetenv(name_); }
  Setting(const Setting&) = delete;
  Setting& operator=(const Setting&) = delete;

 private:
  const char* name_;
  bool was_set_;
  std::string before_;
};

struct Change {
  std::string from, to;
};

class OwnNode {
 public:
  OwnNode(const std::string& preset, const std::vector<Change>& changes)
      : path_(testing::TempDir() + "/own_" + std::to_string(getpid()) + ".node"),
        configuration_(path_ + ".toml"),
        node_("EMULATED_CUDA_NODE", path_),
        machine_("EMULATED_CUDA_CONFIG", configuration_) {
    std::ifstream file(presets() + "/" + preset + ".toml");
    std::stringstream content;
    content << file.rdbuf();
    std::string text = content.str();
    // What tells the suite that a driver is the emulated one, and costs that would slow the cases.
    replace(&text, {"name = \"", "name = \"Emulated "});
    for (const char* cost : {"init_us = ", "context_us = ", "module_load_us = "}) {
      replace(&text, {cost, std::string(cost) + "1 #"});
    }
    for (const Change& change : changes) EXPECT_TRUE(replace(&text, change)) << change.from;
    std::ofstream(configuration_) << text;
    unlink(path_.c_str());
  }
  ~OwnNode() {
    unlink(path_.c_str());
    unlink(configuration_.c_str());
  }
  const std::string& path() const { return path_; }

  // The line that a peer in this role writes.
  static std::string ask(const std::string& role) {
    Peer peer;
    if (!peer.start(role)) return "no peer";
    std::string line = peer.read_line();
    peer.tell('q');
    peer.wait_for_exit();
    return line;
  }

 private:
  static bool replace(std::string* text, const Change& change) {
    size_t at = text->find(change.from);
    if (at == std::string::npos) return false;
    text->replace(at, change.from.size(), change.to);
    return true;
  }

  std::string path_, configuration_;
  Setting node_, machine_;
};

}  // namespace lambent::conformance
