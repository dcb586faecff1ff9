// What the emulated node is made of: plain values, read from TOML once when a node file is made and
// kept in that file, so that all processes agree. Used by every part of the emulator, any thread.
#pragma once

#include <cstdint>
#include <string>

namespace lambent::emulated_node {

constexpr int kMaxDevices = 64;  // as many as the bits that name a device's peers

// One kind of device; all devices of a node are alike. Durations are virtual nanoseconds.
struct DeviceSpec {
  char name[96];
  uint64_t memory_bytes;
  int32_t compute_major, compute_minor;
  int32_t multiprocessors;
  int32_t clock_khz, memory_clock_khz, memory_bus_bits;
  int32_t l2_bytes;
  int32_t threads_per_multiprocessor, blocks_per_multiprocessor;
  int32_t shared_bytes_per_multiprocessor, shared_bytes_per_block, shared_bytes_per_block_optin;
  int32_t registers_per_multiprocessor;
  double memory_bytes_per_s;  // device memory, for copies and fills inside the device
  double host_to_device_bytes_per_s, device_to_host_bytes_per_s;  // pinned host memory
  double pageable_factor;                                         // of those, from pageable memory
  int64_t link_latency_ns;
  int64_t fault_ns;          // of managed memory, for each block of 2 MiB that is touched elsewhere
  double fault_bytes_per_s;  // at which faults carry; prefetches go at the rate of the link
  int64_t init_ns, context_ns, module_load_ns, allocation_ns, launch_ns;
  int64_t graph_launch_ns,
      graph_node_ns;  // a graph of n nodes costs the first plus n times the second
  uint64_t context_bytes;
  uint64_t allocation_granularity;
  int64_t wave_ns;  // the driver's own model: one wave of resident blocks
  int32_t copy_engines;
  int32_t integrated;      // 1: its memory is the host's own
  double context_penalty;  // time-slicing k contexts costs the factor 1 + penalty * (k - 1)
};

constexpr int kMostLayoutEntries = 7;

// How the devices of a node are cut when it is made; the family is empty where MIG is not known.
struct MigSpec {
  char family[24];
  uint32_t enabled;
  uint32_t instance_count;
  struct {
    int32_t profile_id, start;  // -1: wherever there is room
  } instances[kMostLayoutEntries];
};

// Which devices reach each other's memory without the host, and how fast.
struct Topology {
  uint64_t nvlink_peers[kMaxDevices];  // a bit for each other device
  double nvlink_bytes_per_s;           // of one device, in each direction
  int64_t nvlink_latency_ns;
  int32_t pcie_peers;                // 1: over PCIe, where there is no NVLink
  uint64_t processors[kMaxDevices];  // the host's that are near, a bit for each; 0: unknown
};

struct NodeSpec {
  int32_t device_count;
  double time_scale;    // virtual seconds per real second
  double memory_scale;  // reported bytes over backing bytes, model launch mode only
  int64_t utilization_window_ns;
  int64_t checkpoint_ns;  // of a process: this and its bytes over the rate
  double checkpoint_bytes_per_s;
  uint32_t mps;  // its processes are clients of MPS
  DeviceSpec device;
  Topology topology;
  MigSpec mig;
};

// Reads a preset by name, or a TOML file if `name` has a slash or ends in ".toml". "PRESET-xN" is a
// preset of one device with N of them. On failure returns false and says why in `error`.
bool read_node_spec(const std::string& name, NodeSpec* spec, std::string* error);
// "tiny, h200, ... and PRESET-xN for N devices of one": what may be read by name.
std::string preset_names();

// The same from TOML text.
bool parse_node_spec(const std::string& toml, NodeSpec* spec, std::string* error);

}  // namespace lambent::emulated_node
