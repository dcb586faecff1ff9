// A fault plan: which calls of the driver shall fail or be late, and what shall befall the devices,
// as a few lines of text that a test or a user writes. Plain values, pure, for any thread.
//
//   # one fault a line
//   fail cuMemAlloc call 3 with CUDA_ERROR_OUT_OF_MEMORY
//   fail cuLaunchKernel every 100 with CUDA_ERROR_LAUNCH_FAILED
//   delay cuMemcpyHtoD from 5 by 200us
//   lose device 0 on cuLaunchKernel call 7
//   corrupt device 1
//   report device 0 xid 31
//   stick device 0
//   slow device 0 by 4
//   reset device 0
//
// Devices are numbered as the node has them. Without "on ..." a device is struck at once.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace lambent::emulated_node {

constexpr size_t kMaxFaults = 64;
constexpr size_t kMaxFaultPlanBytes = 4096;

enum class FaultAction { kFail, kDelay, kLose, kCorrupt, kReport, kStick, kSlow, kReset };
enum class FaultWhen { kCall, kEvery, kFrom };  // the n-th call, each n-th, the n-th and all later

struct Fault {
  FaultAction action = FaultAction::kFail;
  std::string
      call;  // the name of a function, perhaps without the suffix of its ABI; empty: at once
  FaultWhen when = FaultWhen::kCall;
  uint64_t number = 1;
  int code = 0;          // kFail: what the caller gets
  int64_t delay_ns = 0;  // kDelay
  int device = -1;       // of all that strike devices
  double factor = 1;     // kSlow: of the time that transfers take
  uint64_t xid = 0;      // kReport

  bool operator==(const Fault&) const = default;
};

// Does the fault strike at the `number`-th call of its function?
bool strikes(const Fault& fault, uint64_t number);

// Reads a plan; on a mistake returns false and says in `error` which line and why.
bool parse_fault_plan(std::string_view text, std::vector<Fault>* plan, std::string* error);

}  // namespace lambent::emulated_node
