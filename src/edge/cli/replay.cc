#include "edge/cli/replay.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "edge/cli/answer.h"
#include "edge/cli/api_error.h"
#include "edge/cli/deployment.h"
#include "edge/cli/function_request.h"
#include "edge/cli/package.h"
#include "edge/cli/replay_plan.h"
#include "edge/cli/replay_run.h"
#include "edge/cli/run_summary.h"
#include "edge/cli/sandbox_wait.h"
#include "sim/workload/limits.h"
#include "sim/workload/quantiles.h"

namespace lambent::cli {
namespace {

using Json = nlohmann::ordered_json;
constexpr int kOverheadRepeats = 9;
// Of the mean modelled invocation, what the machine may take at most for a run to begin at all.
constexpr double kMostOverheadOfWork = 0.25;

// What the worker says about itself that a result must carry.
struct WorkerFacts {
  std::string policy;
  std::optional<double> time_scale;
  unsigned devices = 1;
  std::optional<bool> emulated;
  std::string gpu;
};

WorkerFacts facts_from(const std::string& body) {
  WorkerFacts facts;
  const Json json = Json::parse(body, nullptr, false);
  if (!json.is_object()) return facts;
  const auto has = [&](const char* key) { return json.find(key) != json.end(); };
  if (has("policy") && json["policy"].is_string()) facts.policy = json["policy"];
  if (has("time_scale") && json["time_scale"].is_number()) facts.time_scale = json["time_scale"];
  if (has("devices") && json["devices"].is_number_unsigned() && json["devices"] < 1024) {
    facts.devices = std::max(1u, json["devices"].get<unsigned>());
  }
  if (has("gpu") && json["gpu"].is_string()) facts.gpu = json["gpu"];
  if (has("emulated") && json["emulated"].is_boolean()) facts.emulated = json["emulated"];
  return facts;
}

Result<WorkerFacts> ask_worker(Transport& transport, const ReplayOptions& options) {
  const auto response =
      good(transport.send({.method = "GET", .target = "/v1/version"}, seconds(30)));
  if (!response.ok()) return response.error();
  WorkerFacts facts = facts_from(response->body);
  if (facts.time_scale && std::abs(*facts.time_scale / options.time_scale - 1) > 1e-6) {
    char text[160];
    std::snprintf(text, sizeof(text),
                  "the worker's device has a time scale of %g, the replay one of %g; they must be "
                  "the same: give --time-scale %g",
                  *facts.time_scale, options.time_scale, *facts.time_scale);
    return Error{ErrorCode::kFailedPrecondition, text};
  }
  return facts;
}

Result<Package> pack_paper_function(const ReplayOptions& options) {
  if (options.paper_function.empty()) {
    return Error{ErrorCode::kNotFound,
                 "the paper function's folder was not found; name it with --paper-function"};
  }
  auto package = make_package({.path = options.paper_function});
  if (!package.ok()) {
    return package.error().with_context("packing the paper function in " + options.paper_function);
  }
  return package;
}

Result<void> deploy_all(Transport& transport, Console& console, const ReplayPlan& plan,
                        const ReplayOptions& options, const Package& package) {
  for (size_t i = 0; i < plan.entries.size(); ++i) {
    const FunctionSpec spec = paper_function_spec(plan, i, options);
    const auto deployed = deploy_function(transport, spec, package.zip);
    if (!deployed.ok()) return deployed.error().with_context("deploying " + spec.name.name);
  }
  console.err << "deployed " << plan.entries.size() << " functions\n";
  return {};
}

size_t index_of_shortest(const ReplayPlan& plan) {
  const auto shortest =
      std::min_element(plan.entries.begin(), plan.entries.end(),
                       [](const auto& a, const auto& b) { return a.gpu_warm_s < b.gpu_warm_s; });
  return static_cast<size_t>(shortest - plan.entries.begin());
}

// Real seconds that an invocation of such an entry takes by the model; of a move of memory what the
// worker measured, for the model of the link is the device's.
double modelled_real_s(const Answer& answer, const workload::CatalogueEntry& entry,
                       double time_scale) {
  switch (*answer.start) {
    case StartClass::kWarm:
      return entry.gpu_warm_s / time_scale;
    case StartClass::kGpuCold:
      return entry.gpu_warm_s / time_scale + to_seconds(answer.phases->memory);
    default:
      return entry.gpu_cold_s / time_scale;
  }
}

// Real seconds that a warm invocation takes beyond its modelled time while nothing else runs: the
// median over a few of this function, which is like that entry of the catalogue. Where the policy
// moves memory away after each run it is of those whose memory comes first, without the time that
// the worker gives for that; where it keeps no sandbox warm, of cold ones. Fails if the function is
// not there or does not run.
Result<double> measure_overhead(Transport& transport, const std::string& name,
                                const workload::CatalogueEntry& entry, double time_scale) {
  http::Request request{
      .method = "POST", .target = function_target(name, "/invocations"), .body = "{}"};
  const SystemClock clock;
  std::map<StartClass, std::vector<double>> beyond_s;
  const auto is_enough = [](const auto& of_class) {
    return of_class.second.size() >= kOverheadRepeats;
  };
  while (std::ranges::none_of(beyond_s, is_enough)) {
    const Instant begin = clock.now();
    const auto response = good(transport.send(request, std::chrono::minutes(10)));
    const double took_s = to_seconds(clock.now() - begin);
    if (!response.ok()) return response.error();
    const Answer answer = answer_of(*response);
    if (answer.function_failed) {
      return Error{ErrorCode::kFailedPrecondition,
                   name + " failed: " + answer.payload.substr(0, 300)};
    }
    if (!answer.start || !answer.phases) {
      return Error{ErrorCode::kFailedPrecondition, "the worker does not tell an answer's phases"};
    }
    beyond_s[*answer.start].push_back(
        std::max(0.0, took_s - modelled_real_s(answer, entry, time_scale)));
  }
  for (const StartClass start : {StartClass::kWarm, StartClass::kGpuCold}) {
    if (const auto found = beyond_s.find(start); found != beyond_s.end()) {
      return workload::median_of(found->second);
    }
  }
  return workload::median_of(beyond_s.begin()->second);
}

// The same with a function that is made for it and then removed, sandbox and all: the trace is to
// find a worker that has learnt nothing of its functions and holds nothing warm.
Result<double> measure_overhead_apart(Transport& transport, const ReplayPlan& plan,
                                      const ReplayOptions& options, const Package& package) {
  const size_t shortest = index_of_shortest(plan);
  FunctionSpec spec = paper_function_spec(plan, shortest, options);
  spec.name.name = options.prefix + "overhead";
  const auto is_of_the_trace = [&](const std::string& name) {
    return std::find(plan.deployed_names.begin(), plan.deployed_names.end(), name) !=
           plan.deployed_names.end();
  };
  while (is_of_the_trace(spec.name.name)) spec.name.name += "-";
  spec.description = "made by lambent replay to measure what invocations take beyond their time";
  const auto deployed = deploy_function(transport, spec, package.zip);
  if (!deployed.ok()) return deployed.error().with_context("deploying " + spec.name.name);
  auto measured =
      measure_overhead(transport, spec.name.name, plan.entries[shortest], options.time_scale);
  const auto removed = good(transport.send(
      {.method = "DELETE", .target = function_target(spec.name.name)}, std::chrono::minutes(10)));
  if (!removed.ok()) return removed.error().with_context("removing " + spec.name.name);
  RETURN_IF_ERROR(wait_until_gone(transport, spec.name.name));
  return measured;
}

// With a package by a function of it, else by one that is deployed; nothing if that is not wanted.
Result<std::optional<double>> overhead_of_worker(Transport& transport, const ReplayPlan& plan,
                                                 const ReplayOptions& options,
                                                 const std::optional<Package>& package) {
  if (!options.measure_overhead) return std::optional<double>();
  const size_t shortest = index_of_shortest(plan);
  const auto measured = package ? measure_overhead_apart(transport, plan, options, *package)
                                : measure_overhead(transport, plan.deployed_names[shortest],
                                                   plan.entries[shortest], options.time_scale);
  if (measured.ok()) return std::optional(*measured);
  if (measured.error().code != ErrorCode::kNotFound) return measured.error();
  return measured.error().with_context("the trace's functions are not deployed; add --deploy");
}

// Phases say nothing of another device than theirs.
Result<void> check_devices(const ReplayPlan& plan, const ReplayOptions& options,
                           const std::string& gpu) {
  if (!options.phases) return {};
  for (const workload::CatalogueEntry& entry : plan.entries) {
    RETURN_IF_ERROR(workload::check_device(*entry.phases, entry.name, gpu));
  }
  return {};
}

double mean_warm_s(const ReplayPlan& plan, const std::vector<workload::Arrival>& arrivals) {
  double warm_s = 0;
  for (const workload::Arrival& arrival : arrivals) {
    warm_s += plan.entries[arrival.function].gpu_warm_s;
  }
  return warm_s / static_cast<double>(arrivals.size());
}

// Where the machine takes long beside what is modelled, the run would measure the machine. In
// phases each wake-up counts, so that the overhead may have no more of the mean invocation than of
// the latency of a valid result. Else latencies, which have the waits too, are known only after the
// run: it is refused where the overhead makes the load a quarter higher, and warned of before that.
Result<void> check_time_scale(Console& console, const ReplayPlan& plan,
                              const ReplayOptions& options, std::optional<double> overhead_s,
                              const std::vector<workload::Arrival>& arrivals) {
  if (!overhead_s || arrivals.empty()) return {};
  const double warm_s = mean_warm_s(plan, arrivals);
  const double share = options.time_scale * *overhead_s / warm_s;
  if (share <= workload::kMostOverheadShare) return {};
  char text[360];
  const double most_share = options.phases ? workload::kMostOverheadShare : kMostOverheadOfWork;
  const bool refused = share > most_share;
  // A message tells a scale that this check lets through in silence.
  const double scale =
      std::max(workload::kMostOverheadShare * warm_s / std::max(*overhead_s, 1e-9), 0.01);
  std::snprintf(text, sizeof(text),
                "a time scale of %g %s too high for this machine: an invocation takes %.2f ms more "
                "than its %s, which is %.3g %% of the %.2f modelled seconds of the mean one (at "
                "most %g %%%s); start the worker with --time-scale %.*f or less, or use a machine "
                "with less to do",
                options.time_scale, refused ? "is" : "may be", *overhead_s * 1e3,
                options.phases ? "phases" : "modelled time", 100 * share, warm_s,
                100 * workload::kMostOverheadShare,
                options.phases ? "" : " where calls do not wait", scale < 10 ? 2 : 0,
                scale < 10 ? std::floor(scale * 100) / 100 : std::floor(scale));
  if (refused) return Error{ErrorCode::kFailedPrecondition, text};
  console.err << "lambent: warning: " << text << "\n";
  return {};
}

class ProgressLine {
 public:
  explicit ProgressLine(Console& console) : console_(console) {}

  void show(const ReplayProgress& progress) {
    const int tenth = static_cast<int>(progress.share * 10);
    // A log file gets a line for each tenth, a terminal one line that changes.
    if (!console_.err_is_terminal && tenth == last_tenth_) return;
    last_tenth_ = tenth;
    char text[160];
    std::snprintf(text, sizeof(text),
                  "%3.0f %%  %6.1f s  sent %llu  answered %llu  in flight %llu  errors %llu",
                  progress.share * 100, progress.at_s,
                  static_cast<unsigned long long>(progress.sent),
                  static_cast<unsigned long long>(progress.answered),
                  static_cast<unsigned long long>(progress.in_flight),
                  static_cast<unsigned long long>(progress.errors));
    console_.err << (console_.err_is_terminal ? "\r\033[K" : "") << text
                 << (console_.err_is_terminal ? "" : "\n");
    console_.err.flush();
  }
  void finish() {
    if (console_.err_is_terminal) console_.err << "\n";
  }

 private:
  Console& console_;
  int last_tenth_ = -1;
};

workload::RunHeader header_of(const ReplayPlan& plan, const ReplayOptions& options,
                              const WorkerFacts& facts, std::optional<double> overhead_s) {
  workload::RunHeader header{.trace = plan.trace.name,
                             .policy = options.label.empty() ? facts.policy : options.label,
                             .time_scale = options.time_scale,
                             .rate_scale = options.read.rate_scale,
                             .seed = options.read.seed,
                             .devices = facts.devices,
                             .emulated = facts.emulated.value_or(true),
                             .overhead_s = overhead_s};
  for (size_t i = 0; i < plan.entries.size(); ++i) {
    header.functions.push_back({.name = plan.trace.functions[i].name,
                                .catalogue_entry = plan.entries[i].name,
                                .warm_s = plan.entries[i].gpu_warm_s});
  }
  return header;
}

// A replay in real time is never longer than memory; more is a window that was not meant.
Result<std::vector<workload::Arrival>> all_arrivals(workload::ArrivalSource& source) {
  std::vector<workload::Arrival> arrivals;
  while (const auto arrival = source.next()) {
    if (arrivals.size() == limits::kTraceArrivals) {
      return Error{ErrorCode::kResourceExhausted,
                   "the window has more than " + std::to_string(limits::kTraceArrivals) +
                       " arrivals; choose a shorter one with --duration"};
    }
    arrivals.push_back(*arrival);
  }
  if (const auto failure = source.failure()) return *failure;
  if (arrivals.empty()) {
    return Error{ErrorCode::kInvalidArgument, "the window has no arrivals"};
  }
  return arrivals;
}

// Takes what a run gives, line by line: into the statistics, and into the result file.
class Recorder {
 public:
  Recorder(const workload::RunHeader& header, const std::optional<std::string>& path)
      : header_(header), statistics_(names_of(header), warm_of(header)) {
    if (path) file_.open(*path, std::ios::trunc);
    if (path && !file_) failed_ = error_from_errno("write " + *path, errno);
    write(workload::line_of(header));
  }

  void add(const workload::RunRecord& record) {
    statistics_.add(record.sample);
    if (!record.sample.succeeded && first_error_.empty()) first_error_ = record.error;
    write(workload::line_of(record));
  }
  void add(const workload::RunReading& reading) {
    readings_.push_back(reading);
    write(workload::line_of(reading));
  }
  Result<RunFigures> finish(double elapsed_s) {
    write(workload::line_of(workload::RunEnd{elapsed_s}));
    if (file_.is_open()) file_.close();
    if (failed_) return *failed_;
    return RunFigures{.label = header_.policy.empty() ? header_.trace : header_.policy,
                      .header = header_,
                      .summary = statistics_.summary(elapsed_s, header_.devices),
                      .utilisation = workload::mean_utilisation(readings_)};
  }
  const std::string& first_error() const { return first_error_; }
  const std::optional<Error>& failed() const { return failed_; }

 private:
  static std::vector<std::string> names_of(const workload::RunHeader& header) {
    std::vector<std::string> names;
    for (const auto& function : header.functions) names.push_back(function.name);
    return names;
  }
  static std::vector<double> warm_of(const workload::RunHeader& header) {
    std::vector<double> warm_s;
    for (const auto& function : header.functions) warm_s.push_back(function.warm_s);
    return warm_s;
  }
  void write(const std::string& line) {
    if (!file_.is_open() || failed_) return;
    errno = 0;
    file_ << line;
    if (!file_) failed_ = error_from_errno("write the result file", errno);
  }

  workload::RunHeader header_;
  workload::RunStatistics statistics_;
  std::vector<workload::RunReading> readings_;
  std::ofstream file_;
  std::optional<Error> failed_;
  std::string first_error_;
};

void show_totals(Console& console, const ReplayRunTotals& totals, const Recorder& recorder) {
  if (totals.dropped > 0) {
    console.err << "lambent: warning: " << totals.dropped
                << " invocations were not sent, because too many were outstanding\n";
  }
  if (totals.unfinished > 0) {
    console.err << "lambent: warning: " << totals.unfinished
                << " invocations had no answer when the run gave up\n";
  }
  if (totals.worst_lateness_s > 0.05) {
    console.err << "lambent: warning: an invocation was sent "
                << human_seconds(totals.worst_lateness_s)
                << " late: this machine could not keep the pace\n";
  }
  if (!recorder.first_error().empty()) {
    console.err << "lambent: the first error: " << recorder.first_error() << "\n";
  }
}

}  // namespace

int run_replay(Transport& transport, const Destination& destination, Console& console,
               const ReplayOptions& options) {
  if (!(options.time_scale > 0) || options.time_scale > 1e4) {
    return fail(console, {ErrorCode::kInvalidArgument, "the time scale must be above 0"});
  }
  auto plan = make_plan(options);
  if (!plan.ok()) return fail(console, plan.error());
  const auto facts = ask_worker(transport, options);
  if (!facts.ok()) return fail(console, facts.error());
  if (plan->trace.skipped_rows > 0) {
    console.err << "lambent: warning: passed over " << plan->trace.skipped_rows << " bad rows\n";
  }
  const auto known = check_devices(*plan, options, facts->gpu);
  if (!known.ok()) return fail(console, known.error());
  auto arrivals = all_arrivals(*plan->trace.arrivals);
  if (!arrivals.ok()) return fail(console, arrivals.error());
  std::optional<Package> package;
  if (options.deploy) {
    auto packed = pack_paper_function(options);
    if (!packed.ok()) return fail(console, packed.error());
    package = std::move(*packed);
  }
  // Before anything of the trace is deployed: what is refused leaves nothing.
  const auto overhead = overhead_of_worker(transport, *plan, options, package);
  if (!overhead.ok()) return fail(console, overhead.error());
  const std::optional<double> overhead_s = *overhead;
  const auto fits = check_time_scale(console, *plan, options, overhead_s, *arrivals);
  if (!fits.ok()) return fail(console, fits.error());
  if (package) {
    const auto deployed = deploy_all(transport, console, *plan, options, *package);
    if (!deployed.ok()) return fail(console, deployed.error());
  }
  workload::RunHeader header = header_of(*plan, options, *facts, overhead_s);
  header.duration_s = to_seconds(arrivals->back().at);

  Recorder recorder(header, options.out);
  if (recorder.failed()) return fail(console, *recorder.failed());
  ProgressLine progress(console);
  const ReplayRunOptions run_options{.destination = destination,
                                     .time_scale = options.time_scale,
                                     .deployed_names = plan->deployed_names,
                                     .duration_s = header.duration_s,
                                     .give_up_s = options.give_up_s,
                                     .most_outstanding = options.most_outstanding};
  const ReplayRunSinks sinks{
      .record = [&](const workload::RunRecord& record) { recorder.add(record); },
      .reading = [&](const workload::RunReading& reading) { recorder.add(reading); },
      .progress = [&](const ReplayProgress& at) { progress.show(at); }};
  const auto source = workload::source_of(std::move(*arrivals));
  const ReplayRunTotals totals = replay(*source, run_options, sinks);
  progress.finish();
  show_totals(console, totals, recorder);
  auto figures = recorder.finish(totals.elapsed_s);
  if (!figures.ok()) return fail(console, figures.error());
  figures->assumptions = plan->assumptions;
  if (plan->trace.has_run_times) {
    figures->assumptions.push_back("a worker's functions take their mean run in every call");
  }
  console.out << (console.json ? json_of(*figures) + "\n" : table_of({*figures}));
  if (figures->summary.count == 0) {
    return fail(console, {ErrorCode::kFailedPrecondition, "no invocation succeeded"});
  }
  return 0;
}

}  // namespace lambent::cli
