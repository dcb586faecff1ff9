// The result file of a run: JSON lines - a header, one line per invocation, readings of the devices
// in between, an end. Written by replay and the simulator, read by the report. Values; pure.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/base/result.h"
#include "sim/workload/lines.h"
#include "sim/workload/statistics.h"

namespace lambent::workload {

struct RunFunction {
  std::string name;
  std::string catalogue_entry;
  double warm_s = 0;  // 0: unknown
};

struct RunHeader {
  std::string source = "replay";  // or "simulation"
  std::string trace;
  std::string policy;  // as the worker or simulator calls it; may be empty
  double time_scale = 1;
  double rate_scale = 1;
  double duration_s = 0;  // of the arrivals
  uint64_t seed = 0;
  unsigned devices = 1;
  bool emulated = true;  // the device's times are modelled, not measured on a GPU
  // Real time that a warm invocation on an idle worker takes beyond its modelled run; real seconds.
  std::optional<double> overhead_s;
  std::vector<RunFunction> functions;
};

enum class RunOutcome {
  kSucceeded,
  kFunctionError,
  kRejected,    // the platform refused it
  kFailed,      // no answer came: connection lost, timed out
  kDropped,     // not sent: too many were outstanding
  kUnfinished,  // sent, but the run ended before the answer
};
std::string_view name_of(RunOutcome outcome);

// One invocation; times are modelled seconds.
struct RunRecord {
  double at_s = 0;  // when it was meant to be sent, since the start
  Sample sample;
  RunOutcome outcome = RunOutcome::kSucceeded;
  uint32_t device = 0;     // where it ran, from 1; 0: unknown, or on no device
  std::string invocation;  // its id, which 'lambent why' takes; empty: unknown
  std::string error;       // a word for what went wrong, empty on success
};

struct RunReading {
  double at_s = 0;
  std::optional<double> utilisation;  // mean over the devices, 0 to 1
  uint64_t in_flight = 0;
  // How far the flow that is ahead most is ahead of the global virtual time, of those with work.
  std::optional<double> lag_s;
};

struct RunEnd {
  double elapsed_s = 0;
};

struct RunFile {
  std::string name;  // of the file, for messages and captions
  RunHeader header;
  std::vector<RunRecord> records;
  std::vector<RunReading> readings;
  std::optional<RunEnd> end;  // nothing if the run was cut off
};

// Each as one line with its newline.
std::string line_of(const RunHeader& header);
std::string line_of(const RunRecord& record);
std::string line_of(const RunReading& reading);
std::string line_of(const RunEnd& end);

// INVALID_ARGUMENT names file and lines of bad rows.
Result<RunFile> read_run(LineReader& lines, const std::string& file);
Result<RunFile> open_run(const std::string& path);

Summary summarise(const RunFile& run);
// The mean over time of the readings of utilisation; nothing if there are none.
std::optional<double> mean_utilisation(const std::vector<RunReading>& readings);

// The share of the mean latency that the machine's own overhead may have, once multiplied by the
// time scale, before a result is called invalid.
constexpr double kMostOverheadShare = 0.02;
// time_scale x overhead / mean latency; nothing if the overhead was not measured.
std::optional<double> overhead_share(const RunHeader& header, const Summary& summary);

}  // namespace lambent::workload
