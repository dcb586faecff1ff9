// NodeProfile: what `lambent calibrate` measured of a node, for the simulator to reckon with. A
// value and its TOML text; pure. Times are modelled: real ones times the node's time scale.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.h"
#include "core/base/units.h"

namespace lambent::workload {

struct NodeProfile {
  // The node, as its worker describes it.
  std::string gpu;
  bool emulated = false;
  double time_scale = 1;
  unsigned devices = 1;
  Bytes device_memory;   // of each
  Bytes context_memory;  // that admission counts for each sandbox beside the function's own

  // A cold start of a native function: the sandbox, then the runtime until it asks for work. The
  // latter takes what the function's own start takes, at least `init_floor_s` (opening the
  // device), and `init_overhead_s` more.
  double sandbox_s = 0;
  double init_floor_s = 0;
  double init_overhead_s = 0;
  // Of a warm invocation beyond what it does on the device: while it holds its place on the device,
  // and between the client and the worker.
  double run_overhead_s = 0;
  double request_overhead_s = 0;
  // From a stop until the sandbox is gone.
  double stop_s = 0;
  // [n - 1]: how many times as long each takes when n of different sandboxes are at work at once.
  std::vector<double> contention;
  // Between the host and the device, as the worker moves memory; where it moves none, as a program
  // copies from pinned memory.
  double host_to_device_bytes_per_s = 0;
  double device_to_host_bytes_per_s = 0;
  // By how much the first move of a sandbox off its device is longer: memory of the host is made.
  double first_out_s_per_gib = 0;

  bool operator==(const NodeProfile&) const = default;
};

std::string text_of(const NodeProfile& profile);
// INVALID_ARGUMENT names file, line and key; every key must be there, and none that is unknown.
Result<NodeProfile> parse_profile(std::string_view text, const std::string& file);

}  // namespace lambent::workload
