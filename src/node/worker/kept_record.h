// KeptRecord: what a worker writes down of the sandboxes that stay when it becomes another program,
// and what that program reads. Values; pure: the reader may be of another version, and trusts
// nothing. Any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/ids.h"
#include "core/base/result.h"
#include "core/base/time.h"
#include "core/base/units.h"

namespace lambent::worker {

// A descriptor by its place among those that come with the record.
using DescriptorNumber = uint32_t;

// A lambent-launcher that goes on serving the sandboxes that it made.
struct KeptLauncher {
  int32_t pid = 0;
  DescriptorNumber channel = 0;

  bool operator==(const KeptLauncher&) const = default;
};

// The connections over which device memory is moved, and where it is (HandedOverMemory).
struct KeptMemory {
  DescriptorNumber listener = 0;
  std::vector<DescriptorNumber> processes;
  uint64_t sequence = 0;
  bool is_out = false;
  bool deep = false;
  Bytes left, offloaded;
  // Where its processes ask for turns on the link and for leases; none: they do not.
  std::optional<DescriptorNumber> link;

  bool operator==(const KeptMemory&) const = default;
};

// What a sandbox has of GPUs, in a runtime of its own.
struct KeptGpu {
  std::vector<DeviceId> devices;          // the first one leads
  std::vector<DescriptorNumber> ledgers;  // one for each
  std::optional<KeptMemory> memory;       // none: it stays where it is

  bool operator==(const KeptGpu&) const = default;
};

// The node of emulated GPUs on which sandboxes stay.
struct KeptNode {
  DescriptorNumber live = 0, pristine = 0, listener = 0;
  std::string machine;  // digest of what it was made of, 32 bytes

  bool operator==(const KeptNode&) const = default;
};

// An idle sandbox.
struct KeptSandbox {
  uint32_t launcher = 0;  // its place in KeptRecord::launchers
  SandboxId number;       // by which that launcher knows it
  FunctionId function;
  std::string plan;  // digest of the plan that it was started with, 32 bytes
  int32_t pid = 0;
  Duration age{};  // since it was asked for
  Duration sandbox_time{};
  Duration init_time{};
  uint64_t invocations = 0;
  // Of a handler: where its runtime connects, the connections on which it waits for work (one, or
  // several where it takes several invocations at once), and those that rest. An HTTP function has
  // none of them.
  std::optional<DescriptorNumber> listener;
  std::vector<DescriptorNumber> waiting;
  std::vector<DescriptorNumber> resting;
  std::optional<DescriptorNumber> output;    // none: its programs have closed it
  std::optional<DescriptorNumber> refusals;  // none: it has no network
  std::vector<DescriptorNumber> memory;      // of its MemoryMeter
  std::optional<KeptGpu> gpu;                // none: its function has none

  bool operator==(const KeptSandbox&) const = default;
};

struct KeptRecord {
  std::vector<KeptLauncher> launchers;
  std::vector<KeptSandbox> sandboxes;
  std::optional<KeptNode> node;

  bool operator==(const KeptRecord&) const = default;
};

// By which a program says that it reads this record, and speaks with these launchers and shims; one
// line.
std::string kept_record_format();

std::string encode_kept(KeptRecord record);

// `descriptors`: so many come with it. FAILED_PRECONDITION: another format. INVALID_ARGUMENT: not
// one whole record, or it names a descriptor twice or one that did not come.
Result<KeptRecord> decode_kept(std::string_view bytes, size_t descriptors);

}  // namespace lambent::worker
