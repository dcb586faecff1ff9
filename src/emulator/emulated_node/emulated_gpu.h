// What the files of the emulated-gpu tool share: its arguments and the verbs that change a node.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "emulator/emulated_node/node.h"

namespace lambent::emulated_node {

struct Arguments {
  std::string verb, node, config = "tiny";
  double time_scale = 0, memory_scale = 0;
  int devices = 0;
  int device = 0;
  bool json = false;
  std::vector<std::string> words;  // what is no flag
};

// Says why on standard error if there is none.
std::unique_ptr<Node> open_existing(const Arguments& arguments);

// Does one of the verbs mig, mps, fault and reset; the exit status, or nothing for another verb.
std::optional<int> change(const Arguments& arguments);

}  // namespace lambent::emulated_node
