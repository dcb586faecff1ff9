// A fault plan is text of whoever runs a test: it becomes faults within their limits, or a reason.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "emulator/emulated_node/fault_plan.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace lambent::emulated_node;
  std::vector<Fault> plan;
  std::string error;
  bool read = parse_fault_plan({reinterpret_cast<const char*>(data), size}, &plan, &error);
  if (read != error.empty() || plan.size() > kMaxFaults) abort();
  for (const Fault& fault : plan) {
    if (fault.number == 0 || fault.delay_ns < 0) abort();
    (void)strikes(fault, 1);
  }
  return 0;
}
