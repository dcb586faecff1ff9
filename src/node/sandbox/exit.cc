#include "node/sandbox/exit.h"

#include <cstring>

namespace lambent::sandbox {

std::string to_string(const Exit& exit) {
  if (exit.killed) return "killed";
  if (exit.out_of_memory) {
    std::string text = "out of memory";
    if (exit.memory_peak.count > 0) text += " (peak " + lambent::to_string(exit.memory_peak) + ")";
    return text;
  }
  if (exit.signal != 0) {
    return "signal " + std::to_string(exit.signal) + " (" + strsignal(exit.signal) + ")";
  }
  return "exit code " + std::to_string(exit.exit_code);
}

}  // namespace lambent::sandbox
