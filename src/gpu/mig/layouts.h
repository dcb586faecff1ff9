// How the devices with MIG can be cut: profiles of GPU instances as data, and which sets of them
// fit beside each other. Pure values, any thread.
//
// The facts (profile ids and names, slices, multiprocessors, memory, engines, placements) are those
// of NVIDIA's MIG user guide and of the tables that `nvidia-smi mig -lgip` and `-lgipp` print.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace lambent::mig {

constexpr int kComputeSlices = 7;
constexpr int kMemorySlices = 8;
constexpr int kMaxInstances = 7;  // MIG devices on one device
constexpr int kMigProfiles = 7;   // of one family

// A kind of GPU instance.
struct MigProfile {
  int id;             // by which the driver's tools name it
  int kind;           // NVML_GPU_INSTANCE_PROFILE_*
  const char* name;   // "3g.40gb"
  int slices;         // of compute
  int memory_slices;  // that it occupies, from its start on
  int multiprocessors;
  int memory_mib;
  int copy_engines, decoders, encoders, jpeg, ofa;
  int most;               // instances of it at a time
  uint32_t starts;        // bit n: it may begin at memory slice n
  bool media_extensions;  // one instance of a device can have them
};

struct MigFamily {
  const char* name;  // of the preset whose device is cut like this
  int multiprocessors_per_slice;
  MigProfile profiles[kMigProfiles];
};

// The family of that name, or null.
const MigFamily* find_mig_family(std::string_view name);
const MigProfile* find_profile(const MigFamily& family, int id);
const MigProfile* find_profile(const MigFamily& family, std::string_view name);

// One GPU instance where it lies.
struct Placement {
  const MigProfile* profile;
  int start;
  bool operator==(const Placement&) const = default;
};

// Whether the instances can exist beside each other.
bool valid_layout(const MigFamily& family, const std::vector<Placement>& layout);

// The starts at which one more instance of the profile fits.
std::vector<int> free_starts(const MigFamily& family, const std::vector<Placement>& layout,
                             const MigProfile& profile);

// Every layout to which no instance can be added, in the order of their slices. `basic` leaves out
// media extensions and single slices with twice the memory, as the guide's figures do.
std::vector<std::vector<Placement>> full_layouts(const MigFamily& family, bool basic);

// Every layout that is not empty, full or not.
std::vector<std::vector<Placement>> all_layouts(const MigFamily& family);

// "3g.40gb@4": the profile and its start; without "@4" the start is -1.
bool parse_placement(const MigFamily& family, std::string_view text, Placement* placement);

}  // namespace lambent::mig
