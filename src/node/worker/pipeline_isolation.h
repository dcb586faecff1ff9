// Where requests of a pipeline function go: to slices of its own, or whole, in one process, to a
// device that all other functions share. Values and pure functions; kept by PipelineHost.
#pragma once

#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "core/base/time.h"
#include "core/base/units.h"
#include "core/domain/function.h"
#include "decide/pipeline/definition.h"
#include "decide/pipeline/isolation.h"

namespace lambent::worker {

// The devices of all other functions, for pipelines that may share one.
struct SharedDevices {
  // Of the largest; no memory: there is none. Multiprocessors: 0 if unknown.
  SliceShape shape;
  Bytes context;           // that a process has there beside what its function allocates
  Duration longest_run{};  // that a function may ask for there
  // Of the device that is used least, now, 0..1; on the loop thread. Empty: it is not known.
  std::function<double()> utilisation;
};

// A function that is to share a device says how much memory it needs; else INVALID_ARGUMENT.
Result<void> check_memory_is_named(const FunctionSpec& spec);

// Whether a function with this manifest could ever run on them. FAILED_PRECONDITION: there are
// none; INVALID_ARGUMENT: it does not say how much memory it needs, asks for more than there is, or
// may run for longer than a function may there.
Result<void> check_shared(const SharedDevices& devices, const FunctionSpec& spec);

// How many requests a second have come lately.
class ArrivalRate {
 public:
  void add(Instant now);
  // Over the last minute, or what there was of it; 0 before it has been ten seconds: that says
  // nothing.
  double per_s(Instant now) const;

 private:
  static constexpr Duration kMemory = seconds(60);
  static constexpr Duration kLeast = seconds(10);
  static constexpr size_t kMost = 1024;  // arrivals; more of them tell of less than a minute

  std::optional<Instant> first_;
  std::deque<Instant> arrivals_;
};

// The choice, and when and why it was made.
struct IsolationStatus {
  pipeline::Isolation isolation = pipeline::Isolation::kSlices;
  std::vector<std::string> reasons;
  Instant made{};
  double arrivals_per_s = 0;  // that it was made by
};

}  // namespace lambent::worker
