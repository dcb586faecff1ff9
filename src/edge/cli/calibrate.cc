#include "edge/cli/calibrate.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <sstream>
#include <thread>

#include "core/base/fd.h"
#include "edge/cli/answer.h"
#include "edge/cli/api_error.h"
#include "edge/cli/deployment.h"
#include "edge/cli/function_request.h"
#include "edge/cli/package.h"
#include "edge/cli/sandbox_wait.h"
#include "edge/cli/text_table.h"
#include "sim/workload/node_profile.h"
#include "sim/workload/quantiles.h"

namespace lambent::cli {
namespace {

using Json = nlohmann::ordered_json;
using workload::median_of;
using workload::NodeProfile;

constexpr Duration kGracePeriod = std::chrono::minutes(2);
constexpr unsigned kMostAtOnce = 64;  // functions at work together
constexpr size_t kCopyMib = 64;
constexpr std::string_view kPolicyThatAdapts = "density";
// Memory of functions that are measured: little, and what many have.
constexpr uint64_t kLittleMib = 16;
constexpr uint64_t kMuchMib = 1024;

std::string number_text(double number) {
  char text[40];
  std::snprintf(text, sizeof(text), "%.6f", number);
  return text;
}

// One measured invocation, in real seconds.
struct Measured {
  Answer answer;
  double took_s = 0;  // as the client saw it
};

class Calibration {
 public:
  Calibration(Transport& transport, const Destination& destination, Console& console,
              const CalibrateOptions& options)
      : transport_(transport), destination_(destination), console_(console), options_(options) {}
  ~Calibration() {
    for (const std::string& name : deployed_) remove(name);
  }
  Calibration(const Calibration&) = delete;
  Calibration& operator=(const Calibration&) = delete;

  Result<NodeProfile> run() {
    RETURN_IF_ERROR(ask_worker());
    ASSIGN_OR_RETURN(package_, make_package({.path = options_.paper_function}));
    RETURN_IF_ERROR(measure_starts());
    RETURN_IF_ERROR(measure_stops());
    RETURN_IF_ERROR(measure_warm());
    RETURN_IF_ERROR(measure_link());
    RETURN_IF_ERROR(measure_moves());
    RETURN_IF_ERROR(measure_contention());
    return profile_;
  }

 private:
  void say(const std::string& what) const { console_.err << "measuring " << what << "\n"; }

  Result<void> ask_worker() {
    const auto response =
        good(transport_.send({.method = "GET", .target = "/v1/version"}, kGracePeriod));
    if (!response.ok()) return response.error();
    const Json json = Json::parse(response->body, nullptr, false);
    const auto number = [&](const char* key) {
      return json.is_object() && json.contains(key) && json[key].is_number()
                 ? json[key].get<double>()
                 : 0.0;
    };
    profile_.devices = static_cast<unsigned>(number("devices"));
    if (profile_.devices == 0) {
      return Error{ErrorCode::kFailedPrecondition, "the worker has no GPU to calibrate"};
    }
    if (json.contains("gpu") && json["gpu"].is_string()) profile_.gpu = json["gpu"];
    profile_.emulated = json.contains("emulated") && json["emulated"] == true;
    profile_.time_scale = number("time_scale");
    profile_.device_memory = Bytes(static_cast<uint64_t>(number("device_memory_bytes")));
    profile_.context_memory = Bytes(static_cast<uint64_t>(number("context_memory_bytes")));
    concurrency_ = static_cast<unsigned>(number("concurrency"));
    if (concurrency_ == 0 || profile_.time_scale <= 0) {
      return Error{ErrorCode::kFailedPrecondition,
                   "the worker does not say its concurrency and time scale; is it of another "
                   "version?"};
    }
    const bool is_default = json.value("policy", Json()) == std::string(kPolicyThatAdapts);
    return is_default && concurrency_ > 1 ? refuse_if_it_adapts() : Result<void>();
  }

  // A policy that adapts lets runs wait rather than slow each other down: side by side they would
  // seem to cost nothing.
  Result<void> refuse_if_it_adapts() {
    const auto response =
        good(transport_.send({.method = "GET", .target = "/v1/settings"}, kGracePeriod));
    if (!response.ok()) return response.error();
    const Json json = Json::parse(response->body, nullptr, false);
    std::string adapts = "true";
    if (json.is_object() && json.contains("settings") && json["settings"].is_array()) {
      for (const Json& each : json["settings"]) {
        const std::string value = each.is_object() ? each.value("value", "") : "";
        if (value.starts_with("adapts=")) adapts = value.substr(value.find('=') + 1);
      }
    }
    if (adapts == "false") return {};
    return Error{ErrorCode::kFailedPrecondition,
                 "the worker's policy adapts: it runs none beside others where that is slower, so "
                 "their contention cannot be measured; start it with --set adapts=false --set "
                 "foresee=false for the calibration, or with --concurrency 1"};
  }

  // A function that starts for `init_s` and runs for `warm_s`, both modelled.
  Result<void> deploy(const std::string& name, double init_s, double warm_s) {
    return deploy(name, init_s, warm_s, GpuNeeds{.memory = Bytes::mib(600)}, kLittleMib);
  }
  // And has so much memory, whatever it asks for.
  Result<void> deploy(const std::string& name, double init_s, double warm_s, const GpuNeeds& gpu,
                      uint64_t memory_mib) {
    FunctionSpec spec;
    spec.name.name = name;
    spec.description = "made by lambent calibrate";
    spec.handler = "bootstrap";
    spec.gpu = gpu;
    spec.gpu.launch_mode = GpuNeeds::LaunchMode::kModel;
    spec.timeout = seconds(120);
    spec.environment = {{"LAMBENT_PAPER_MEMORY_MIB", std::to_string(memory_mib)},
                        {"LAMBENT_PAPER_INIT_MS", number_text(init_s * 1e3)},
                        {"LAMBENT_PAPER_WARM_MS", number_text(warm_s * 1e3)},
                        {"LAMBENT_TIME_SCALE", number_text(profile_.time_scale)}};
    const auto deployed = deploy_function(transport_, spec, package_.zip);
    if (!deployed.ok()) return deployed.error().with_context("deploying " + name);
    deployed_.push_back(name);
    return {};
  }

  void remove(const std::string& name) {
    (void)transport_.send({.method = "DELETE", .target = function_target(name)}, kGracePeriod);
  }
  void remove_last() {
    remove(deployed_.back());
    deployed_.pop_back();
  }

  static Result<Measured> invoke(Transport& transport, const std::string& name,
                                 const std::string& event = "{}") {
    const SystemClock clock;
    const Instant begin = clock.now();
    const auto response = good(transport.send(
        {.method = "POST", .target = function_target(name, "/invocations"), .body = event},
        kGracePeriod));
    const double took_s = to_seconds(clock.now() - begin);
    if (!response.ok()) return response.error().with_context("invoking " + name);
    Measured measured{answer_of(*response), took_s};
    if (measured.answer.function_failed || !measured.answer.phases || !measured.answer.start) {
      return Error{ErrorCode::kFailedPrecondition,
                   name + " failed: " + measured.answer.payload.substr(0, 300)};
    }
    return measured;
  }

  // A cold invocation of a function that does nothing but start.
  Result<Measured> cold_invocation(double init_s) {
    const std::string name = "calibrate-start";
    RETURN_IF_ERROR(deploy(name, init_s, 0));
    ASSIGN_OR_RETURN(Measured measured, invoke_cold(name));
    remove_last();
    RETURN_IF_ERROR(wait_until_gone(transport_, name));
    return measured;
  }

  Result<Measured> invoke_cold(const std::string& name) {
    ASSIGN_OR_RETURN(Measured measured, invoke(transport_, name));
    if (measured.answer.start != StartClass::kCold) {
      return Error{ErrorCode::kFailedPrecondition, "an invocation of " + name + " was not cold"};
    }
    return measured;
  }

  Result<void> measure_starts() {
    say("cold starts");
    std::vector<double> sandbox_s, floor_s, overhead_s;
    // So long that opening the device is not what the start waits for.
    const double long_init_s = 2.0;
    for (int i = 0; i < options_.repeats; ++i) {
      ASSIGN_OR_RETURN(const Measured nothing, cold_invocation(0));
      ASSIGN_OR_RETURN(const Measured something, cold_invocation(long_init_s));
      for (const Measured* each : {&nothing, &something}) {
        sandbox_s.push_back(modelled(to_seconds(each->answer.phases->sandbox)));
      }
      overhead_s.push_back(modelled(to_seconds(something.answer.phases->init)) - long_init_s);
      floor_s.push_back(modelled(to_seconds(nothing.answer.phases->init)));
    }
    profile_.sandbox_s = median_of(sandbox_s);
    profile_.init_overhead_s = std::max(0.0, median_of(overhead_s));
    // The overhead is added to either.
    profile_.init_floor_s = std::max(0.0, median_of(floor_s) - profile_.init_overhead_s);
    return {};
  }

  // How much longer a start takes that has to wait until another sandbox is gone than one that does
  // not: functions that each fill a device, and do not move off it, one more of them than there are
  // devices. All but the last find one empty; each is called once and removed.
  Result<void> measure_stops() {
    say("stops");
    const GpuNeeds all{.memory = most_of_a_device(), .memory_mode = MemoryMode::kOff};
    std::vector<double> free_s, waited_s;
    for (int repeat = 0; repeat < options_.repeats; ++repeat) {
      for (unsigned i = 0; i <= profile_.devices; ++i) {
        RETURN_IF_ERROR(deploy(pushing_out(i), 0, 0, all, kLittleMib));
      }
      for (unsigned i = 0; i <= profile_.devices; ++i) {
        ASSIGN_OR_RETURN(const Measured measured, invoke_cold(pushing_out(i)));
        (i < profile_.devices ? free_s : waited_s)
            .push_back(modelled(to_seconds(measured.answer.phases->sandbox)));
      }
      for (unsigned i = 0; i <= profile_.devices; ++i) remove_last();
      for (unsigned i = 0; i <= profile_.devices; ++i) {
        RETURN_IF_ERROR(wait_until_gone(transport_, pushing_out(i)));
      }
    }
    profile_.stop_s = std::max(0.0, median_of(waited_s) - median_of(free_s));
    return {};
  }

  // So much that two functions never have it at once.
  Bytes most_of_a_device() const {
    return Bytes((profile_.device_memory.count - profile_.context_memory.count) / 10 * 9);
  }
  static std::string pushing_out(unsigned i) { return "calibrate-stop-" + std::to_string(i); }

  Result<void> measure_warm() {
    say("warm invocations");
    constexpr double kWarm_s = 0.02;
    RETURN_IF_ERROR(deploy("calibrate-warm", 0, kWarm_s));
    RETURN_IF_ERROR(invoke(transport_, "calibrate-warm"));
    std::vector<double> run_s, request_s;
    for (int i = 0; i < 3 * options_.repeats; ++i) {
      ASSIGN_OR_RETURN(const Measured measured, invoke(transport_, "calibrate-warm"));
      if (measured.answer.start != StartClass::kWarm) {
        return Error{ErrorCode::kFailedPrecondition,
                     "the worker's policy keeps no sandbox warm; calibrate under another"};
      }
      const Phases& phases = *measured.answer.phases;
      const double inside_s = to_seconds(phases.total());
      run_s.push_back(modelled(to_seconds(phases.run)) - kWarm_s);
      request_s.push_back(modelled(measured.took_s - inside_s));
    }
    profile_.run_overhead_s = std::max(0.0, median_of(run_s));
    profile_.request_overhead_s = std::max(0.0, median_of(request_s));
    return {};
  }

  Result<void> measure_link() {
    say("the link");
    std::vector<double> in, out;
    const std::string event = "{\"copy_mib\":" + std::to_string(kCopyMib) + "}";
    for (int i = 0; i < options_.repeats; ++i) {
      ASSIGN_OR_RETURN(const Measured measured, invoke(transport_, "calibrate-warm", event));
      const Json speeds = Json::parse(measured.answer.payload, nullptr, false);
      const double in_gb = speeds.is_object() ? speeds.value("host_to_device_gb_per_s", 0.0) : 0;
      const double out_gb = speeds.is_object() ? speeds.value("device_to_host_gb_per_s", 0.0) : 0;
      if (in_gb <= 0 || out_gb <= 0) {
        return Error{ErrorCode::kInternal, "the paper function did not say how fast it copied"};
      }
      in.push_back(in_gb * 1e9);
      out.push_back(out_gb * 1e9);
    }
    profile_.host_to_device_bytes_per_s = median_of(in);
    profile_.device_to_host_bytes_per_s = median_of(out);
    return {};
  }

  // What the link gives when the worker moves the memory of a sandbox: not all of what a copy gets,
  // for there are blocks to be made and mapped. Three functions that each ask for most of a device
  // make each other go in turns, one with much to move and two with little: the difference is that
  // much, one way or the other. The first way out of a sandbox is longer, and measured with new
  // ones. As it was if memory does not move here.
  Result<void> measure_moves() {
    say("moves of memory");
    const uint64_t much_mib =
        std::min(kMuchMib, most_of_a_device().count / Bytes::mib(1).count / 2);
    const GpuNeeds all{.memory = most_of_a_device()};
    const std::string much = "calibrate-move-much", little = "calibrate-move-little",
                      other = "calibrate-move-other";
    std::vector<double> out_s, in_s, little_s;
    for (const std::string& name : {much, little, other}) {
      RETURN_IF_ERROR(deploy(name, 0, 0, all, name == much ? much_mib : kLittleMib));
      RETURN_IF_ERROR(invoke(transport_, name));
    }
    bool moves = true;
    for (int i = 0; i < options_.repeats && moves; ++i) {
      ASSIGN_OR_RETURN(const Measured in, invoke(transport_, much));
      ASSIGN_OR_RETURN(const Measured out, invoke(transport_, little));
      ASSIGN_OR_RETURN(const Measured neither, invoke(transport_, other));
      for (const Measured* each : {&in, &out, &neither}) {
        moves = moves && each->answer.start == StartClass::kGpuCold;
      }
      in_s.push_back(modelled(to_seconds(in.answer.phases->memory)));
      out_s.push_back(modelled(to_seconds(out.answer.phases->memory)));
      little_s.push_back(modelled(to_seconds(neither.answer.phases->memory)));
    }
    for (int i = 0; i < 3; ++i) remove_last();
    for (const std::string& name : {much, little, other}) {
      RETURN_IF_ERROR(wait_until_gone(transport_, name));
    }
    if (!moves) return {};
    // Each of them took a move of little beside the one that counts.
    const double one_of_little_s = median_of(little_s) / 2;
    const auto bytes = static_cast<double>(Bytes::mib(much_mib).count);
    // No move gets more than a copy: where it seems to, something else held up the small ones.
    const auto note = [&](const std::vector<double>& took_s, double& rate) {
      const double of_moves = bytes / (median_of(took_s) - one_of_little_s);
      if (of_moves > 0) rate = std::min(rate, of_moves);
    };
    note(in_s, profile_.host_to_device_bytes_per_s);
    note(out_s, profile_.device_to_host_bytes_per_s);
    return measure_first_out(much_mib);
  }

  // What the worker counts of moves off its devices.
  struct MovesOut {
    double count = 0, seconds = 0, bytes = 0;
  };
  Result<MovesOut> moves_out() {
    ASSIGN_OR_RETURN(const auto response,
                     good(transport_.send({.method = "GET", .target = "/metrics"}, kGracePeriod)));
    MovesOut moves;
    std::istringstream lines(response.body);
    for (std::string line; std::getline(lines, line);) {
      const auto note = [&](const char* name, double& value) {
        const std::string head = std::string(name) + "{direction=\"out\"} ";
        if (line.starts_with(head)) value = std::strtod(line.c_str() + head.size(), nullptr);
      };
      note("lambent_gpu_memory_move_seconds_count", moves.count);
      note("lambent_gpu_memory_move_seconds_sum", moves.seconds);
      note("lambent_gpu_memory_moved_bytes_total", moves.bytes);
    }
    return moves;
  }

  // How much longer than the link takes the first way of a sandbox off a device is, by the worker's
  // count: it goes for another one that starts, each time new ones of both.
  Result<void> measure_first_out(uint64_t much_mib) {
    const GpuNeeds all{.memory = most_of_a_device()};
    const std::string goes = "calibrate-first-goes", comes = "calibrate-first-comes";
    const auto bytes = static_cast<double>(Bytes::mib(much_mib).count);
    std::vector<double> longer_s;
    for (int i = 0; i < options_.repeats; ++i) {
      RETURN_IF_ERROR(deploy(goes, 0, 0, all, much_mib));
      RETURN_IF_ERROR(deploy(comes, 0, 0, all, kLittleMib));
      RETURN_IF_ERROR(invoke_cold(goes));
      ASSIGN_OR_RETURN(const MovesOut before, moves_out());
      RETURN_IF_ERROR(invoke_cold(comes));
      ASSIGN_OR_RETURN(const MovesOut after, moves_out());
      // Or it was stopped to make room.
      if (after.count == before.count + 1 && after.bytes - before.bytes > bytes / 2) {
        longer_s.push_back(modelled(after.seconds - before.seconds) -
                           bytes / profile_.device_to_host_bytes_per_s);
      }
      for (int k = 0; k < 2; ++k) remove_last();
      for (const std::string& name : {goes, comes}) {
        RETURN_IF_ERROR(wait_until_gone(transport_, name));
      }
    }
    if (longer_s.empty()) return {};
    profile_.first_out_s_per_gib =
        std::max(0.0, median_of(longer_s)) * 1024 / static_cast<double>(much_mib);
    return {};
  }

  // n on each device at once, each in a sandbox of its own; the mean run time of all.
  Result<double> run_together(unsigned count) {
    std::vector<Result<Measured>> runs(count, Error{ErrorCode::kInternal, "not run"});
    std::vector<std::thread> threads;
    for (unsigned i = 0; i < count; ++i) {
      threads.emplace_back([&, i] {
        HttpTransport own(destination_);
        runs[i] = invoke(own, together(i));
      });
    }
    for (std::thread& thread : threads) thread.join();
    double sum_s = 0;
    for (const Result<Measured>& run : runs) {
      if (!run.ok()) return run.error();
      sum_s += to_seconds(run->answer.phases->run);
    }
    return modelled(sum_s) / count;
  }

  static std::string together(unsigned i) { return "calibrate-together-" + std::to_string(i); }

  Result<void> measure_contention() {
    const unsigned most =
        std::max(1u, std::min(concurrency_, kMostAtOnce / std::max(1u, profile_.devices)));
    // Half a second of real time at least: long beside the milliseconds by which they begin one
    // after the other, when one of them runs singly.
    const double work_s = std::max(1.0, 0.5 * profile_.time_scale);
    for (unsigned i = 0; i < most * profile_.devices; ++i) {
      RETURN_IF_ERROR(deploy(together(i), 0, work_s));
      RETURN_IF_ERROR(invoke(transport_, together(i)));
    }
    double alone_s = 0;
    for (unsigned n = 1; n <= most; ++n) {
      say("contention of " + std::to_string(n));
      std::vector<double> means_s;
      for (int i = 0; i < std::max(3, options_.repeats / 3); ++i) {
        ASSIGN_OR_RETURN(const double mean_s, run_together(n * profile_.devices));
        means_s.push_back(mean_s);
      }
      const double mean_s = median_of(means_s);
      if (n == 1) alone_s = mean_s;
      profile_.contention.push_back(std::max(1.0, mean_s / alone_s));
    }
    return {};
  }

  double modelled(double real_s) const { return real_s * profile_.time_scale; }

  Transport& transport_;
  const Destination& destination_;
  Console& console_;
  const CalibrateOptions& options_;
  Package package_;
  NodeProfile profile_;
  unsigned concurrency_ = 0;
  std::vector<std::string> deployed_;
};

std::string table_of(const NodeProfile& profile) {
  TextTable table({"MEASURED", ">VALUE", "MEANING"});
  const auto ms = [](double seconds) {
    char text[40];
    std::snprintf(text, sizeof(text), "%.3g ms", seconds * 1e3);
    return std::string(text);
  };
  table.add({"sandbox", ms(profile.sandbox_s), "of a cold start"});
  table.add({"init floor", ms(profile.init_floor_s), "opening the device"});
  table.add({"init overhead", ms(profile.init_overhead_s), "beyond what the function does"});
  table.add({"stop", ms(profile.stop_s), "until a sandbox is gone"});
  table.add({"run overhead", ms(profile.run_overhead_s), "of a warm invocation, on its device"});
  table.add({"request overhead", ms(profile.request_overhead_s), "between client and worker"});
  for (size_t i = 0; i < profile.contention.size(); ++i) {
    char text[40];
    std::snprintf(text, sizeof(text), "%.3f", profile.contention[i]);
    table.add({"contention " + std::to_string(i + 1), text, "times as long as by itself"});
  }
  char in[40], out[40];
  std::snprintf(in, sizeof(in), "%.2f GB/s", profile.host_to_device_bytes_per_s * 1e-9);
  std::snprintf(out, sizeof(out), "%.2f GB/s", profile.device_to_host_bytes_per_s * 1e-9);
  table.add({"link in", in, "as memory moves"});
  table.add({"link out", out, "as memory moves"});
  table.add({"first way out", ms(profile.first_out_s_per_gib), "longer, of a GiB"});
  return table.str();
}

}  // namespace

int run_calibrate(Transport& transport, const Destination& destination, Console& console,
                  const CalibrateOptions& options) {
  if (options.paper_function.empty()) {
    return fail(console, {ErrorCode::kNotFound,
                          "the paper function's folder was not found; name it with "
                          "--paper-function"});
  }
  const auto profile = Calibration(transport, destination, console, options).run();
  if (!profile.ok()) return fail(console, profile.error());
  const auto written = write_file_atomically(options.output, text_of(*profile), false);
  if (!written.ok()) return fail(console, written.error());
  if (console.json) {
    console.out << Json{{"profile", options.output},
                        {"gpu", profile->gpu},
                        {"emulated", profile->emulated},
                        {"time_scale", profile->time_scale},
                        {"sandbox_ms", profile->sandbox_s * 1e3},
                        {"init_floor_ms", profile->init_floor_s * 1e3},
                        {"init_overhead_ms", profile->init_overhead_s * 1e3},
                        {"stop_ms", profile->stop_s * 1e3},
                        {"run_overhead_ms", profile->run_overhead_s * 1e3},
                        {"request_overhead_ms", profile->request_overhead_s * 1e3},
                        {"contention", profile->contention},
                        {"host_to_device_gb_per_s", profile->host_to_device_bytes_per_s * 1e-9},
                        {"device_to_host_gb_per_s", profile->device_to_host_bytes_per_s * 1e-9},
                        {"first_out_ms_per_gib", profile->first_out_s_per_gib * 1e3}}
                       .dump(2)
                << "\n";
    return 0;
  }
  console.out << table_of(*profile)
              << (profile->emulated ? "The device is emulated, and its times are modelled.\n" : "");
  console.err << "wrote " << options.output << "\n";
  return 0;
}

}  // namespace lambent::cli
