// Trace: the functions of a workload and a stream of their arrivals in order of time.
// Made by the readers and the generator; used by replay and the simulator, one thread each.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "core/base/result.h"
#include "core/base/time.h"

namespace lambent::workload {

struct Arrival {
  Duration at{};          // since the start of the trace's window
  uint32_t function = 0;  // index into Trace::functions
  // How long it runs by itself, where the trace says it of each; 0: as long as its function does.
  float execution_s = 0;

  auto operator<=>(const Arrival&) const = default;
};

struct TraceFunction {
  std::string name;
  // The entry of the function catalogue that stands in for it; empty if the trace names none.
  std::string catalogue_entry;
  // The class that the trace or the generator gives it (periodic, bursty, sporadic, steady).
  std::string label;
  // How long it ran where it was recorded: its mean where each arrival says how long, else the 25th
  // percentile; nothing if the trace does not say.
  std::optional<double> recorded_s;
  // The devices that it takes together, where the trace says so.
  std::optional<unsigned> gpu_count;
};

class ArrivalSource {
 public:
  virtual ~ArrivalSource() = default;
  // The next arrival, not before the one before it; nothing at the end.
  virtual std::optional<Arrival> next() = 0;
  // Once next() gives nothing: the error that kept it from giving all there is, if there was one.
  // What came before it is then a part, not to be shown as the whole.
  virtual std::optional<Error> failure() const { return std::nullopt; }
};

struct Trace {
  std::string name;  // the file's name without folder and endings
  // "exact", "minutes", "azure2021", "intervals", "table", "generated", "resampled", or what
  // known_tables.h has.
  std::string format;
  std::vector<TraceFunction> functions;
  std::unique_ptr<ArrivalSource> arrivals;
  Duration length{};           // of the window: no arrival comes later; for showing progress
  size_t skipped_rows = 0;     // bad rows that the options said to pass over
  bool has_run_times = false;  // Arrival::execution_s
  // What the file does not say and was taken to be so: parts of sentences, for the user.
  std::vector<std::string> assumptions;
};

// A source over arrivals in memory; sorts them.
std::unique_ptr<ArrivalSource> source_of(std::vector<Arrival> arrivals);
// How long so much of the trace's time lasts at that rate. INVALID_ARGUMENT, which names the file,
// where that is more than the clock's nanoseconds hold together with what runs then.
Result<Duration> length_at_rate(Duration length, double rate_scale, const std::string& file);
// The arrivals from `start` up to `end`, counted from `start`, `rate_scale` times as fast.
std::unique_ptr<ArrivalSource> window_of(std::unique_ptr<ArrivalSource> source, Duration start,
                                         Duration end, double rate_scale);
// All that is left of a source.
std::vector<Arrival> drain(ArrivalSource& source);

}  // namespace lambent::workload
