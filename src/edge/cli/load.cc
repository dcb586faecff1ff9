#include "edge/cli/load.h"

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "edge/cli/api_error.h"
#include "edge/cli/event_text.h"
#include "edge/cli/function_request.h"
#include "edge/cli/text_table.h"

namespace lambent::cli {
namespace {

using Json = nlohmann::ordered_json;

struct Phase {
  std::string name;  // "offline", "online"
  double rate = 0;   // asked for; zero: as fast as possible
  LoadTotals totals;
};

// The shares of a distribution that are printed: every hundredth, and finer at its end.
std::vector<double> shares() {
  std::vector<double> all;
  for (int i = 1; i <= 99; ++i) all.push_back(i / 100.0);
  for (const double share : {0.995, 0.999, 1.0}) all.push_back(share);
  return all;
}

// That each function is there, before thousands of requests say that it is not.
Result<void> look_for(Transport& transport, const std::vector<std::string>& functions) {
  for (const std::string& function : functions) {
    const auto response =
        good(transport.send({.method = "GET", .target = function_target(function)}, seconds(30)));
    if (response.ok()) continue;
    // Lambda's route answers in AWS's words; what it adds to them is for people.
    const std::string& said = response.error().message;
    const size_t hint = said.find("; did you mean");
    const bool is_plain = said.starts_with("Function not found") && !said.ends_with(')');
    if (!is_plain) return response.error();
    return Error{response.error().code, "function '" + function + "' does not exist" +
                                            (hint == said.npos ? "" : said.substr(hint))};
  }
  return {};
}

std::string fixed(double number, int digits) {
  char text[48];
  std::snprintf(text, sizeof(text), "%.*f", digits, number);
  return text;
}

std::string counts_in_words(const std::map<std::string, uint64_t>& counts) {
  std::string text;
  for (const auto& [name, count] : counts) {
    text += (text.empty() ? "" : ", ") + std::to_string(count) + " " + name;
  }
  return text.empty() ? "-" : text;
}

std::string table_of(const std::vector<Phase>& phases) {
  TextTable table({"RUN", ">ASKED /s", ">ANSWERS /s", ">ANSWERS", ">FAILED", ">P50 ms", ">P90 ms",
                   ">P99 ms", ">MOST ms", "STARTS"});
  for (const Phase& phase : phases) {
    const LoadTotals& totals = phase.totals;
    const auto ms = [&](double share) { return fixed(totals.latency_at(share) * 1e3, 3); };
    table.add({phase.name, phase.rate > 0 ? fixed(phase.rate, 1) : "-",
               fixed(totals.throughput(), 1), std::to_string(totals.succeeded),
               std::to_string(totals.failed()), ms(0.5), ms(0.9), ms(0.99), ms(1),
               counts_in_words(totals.starts)});
  }
  std::string text = table.str();
  for (const Phase& phase : phases) {
    if (phase.totals.makespan_s) {
      text += phase.name + ": the last answer came " + fixed(*phase.totals.makespan_s, 3) +
              " s after the first request was due\n";
    }
    if (const auto hits = phase.totals.slo_hit_ratio()) {
      text += phase.name + ": " + fixed(*hits * 100, 1) + " % of " +
              std::to_string(phase.totals.in_time + phase.totals.late) +
              " requests with an SLO kept it\n";
    }
    for (const auto& [code, count] : phase.totals.errors) {
      text += phase.name + ": " + std::to_string(count) + " " + code + ": " +
              phase.totals.first_errors.at(code) + "\n";
    }
    if (const double left_out = phase.totals.left_out(); left_out > 0.01) {
      text += phase.name + ": " + fixed(left_out * 100, 1) +
              " % of the requests were dropped or not answered; the percentiles leave them out\n";
    }
    if (phase.totals.worst_lateness_s > 0.005) {
      text += phase.name + ": requests were sent up to " +
              fixed(phase.totals.worst_lateness_s * 1e3, 1) +
              " ms late; this machine could not keep the pace\n";
    }
  }
  return text;
}

Json json_of(const Phase& phase) {
  const LoadTotals& totals = phase.totals;
  Json json;
  json["run"] = phase.name;
  json["rate"] = phase.rate > 0 ? Json(phase.rate) : Json();
  json["seconds"] = totals.seconds;
  json["sent"] = totals.sent;
  json["succeeded"] = totals.succeeded;
  json["failed"] = totals.failed();
  json["throughput"] = totals.throughput();
  json["makespan_s"] = totals.makespan_s ? Json(*totals.makespan_s) : Json();
  for (const auto& [key, share] :
       {std::pair("p50_ms", 0.5), std::pair("p90_ms", 0.9), std::pair("p99_ms", 0.99)}) {
    json[key] = totals.latencies_s.empty() ? Json() : Json(totals.latency_at(share) * 1e3);
  }
  json["starts"] = totals.starts;
  const auto hits = totals.slo_hit_ratio();
  json["slo_hit_ratio"] = hits ? Json(*hits) : Json();
  json["errors"] = totals.errors;
  json["worst_lateness_ms"] = totals.worst_lateness_s * 1e3;
  json["cdf"] = Json::array();
  for (const double share : shares()) {
    if (!totals.latencies_s.empty()) {
      json["cdf"].push_back({totals.latency_at(share) * 1e3, share});
    }
  }
  return json;
}

Result<void> write_csv(const std::string& path, const std::vector<Phase>& phases) {
  std::ofstream file(path, std::ios::trunc);
  file << "run,share,latency_ms\n";
  for (const Phase& phase : phases) {
    for (const double share : shares()) {
      if (phase.totals.latencies_s.empty()) continue;
      file << phase.name << "," << share << "," << fixed(phase.totals.latency_at(share) * 1e3, 6)
           << "\n";
    }
  }
  file.close();
  if (!file) return error_from_errno("write " + path, errno);
  return {};
}

// Of what is counted under a name of its own.
ErrorCode code_of(std::string_view name) {
  if (name == kDropped) return ErrorCode::kResourceExhausted;
  if (name == kUnanswered) return ErrorCode::kDeadlineExceeded;
  return error_code_from_name(name).value_or(ErrorCode::kUnknown);
}

// Nothing was answered well: says what was said most often; the verb's exit code.
int fail_with(Console& console, const LoadTotals& totals) {
  const auto most = std::max_element(
      totals.errors.begin(), totals.errors.end(),
      [](const auto& one, const auto& other) { return one.second < other.second; });
  if (most == totals.errors.end()) {
    return fail(console,
                {ErrorCode::kDeadlineExceeded,
                 "nothing was answered in the time that counts; run for longer with --seconds"});
  }
  const int code = fail(console, {code_of(most->first),
                                  "no request succeeded: " + totals.first_errors.at(most->first)});
  return most->first == kFunctionError ? kExitFunctionError : code;
}

}  // namespace

int run_load_verb(Transport& transport, const Destination& destination, Console& console,
                  const LoadOptions& options) {
  auto payload = event_text(options.payload, options.payload_file);
  if (!payload.ok()) return fail(console, payload.error());
  if (const auto found = look_for(transport, options.functions); !found.ok()) {
    return fail(console, found.error());
  }
  LoadRunOptions run{.destination = destination,
                     .functions = options.functions,
                     .clients = options.clients,
                     .outstanding = options.outstanding,
                     .seconds = options.seconds,
                     .warm_up_seconds = options.warm_up_seconds.value_or(options.seconds / 10),
                     .most_outstanding = options.most_outstanding,
                     .give_up_seconds = options.give_up_seconds,
                     .payload = std::move(payload).value(),
                     .content_type = options.content_type,
                     .seed = options.seed};
  std::vector<Phase> phases;
  const auto measure = [&](const std::string& name, double rate) {
    run.rate = rate;
    const auto progress = [&](uint64_t answered) {
      if (!console.err_is_terminal) return;
      console.err << "\r\033[K" << name << ": " << answered << " answered" << std::flush;
    };
    phases.push_back({name, rate, run_load(run, progress)});
    if (console.err_is_terminal) console.err << "\r\033[K";
  };
  if (!options.rate) {
    measure("offline", 0);
    if (phases[0].totals.succeeded == 0) return fail_with(console, phases[0].totals);
  }
  if (options.online) {
    const double rate =
        options.rate ? *options.rate : options.rate_of_peak * phases[0].totals.throughput();
    measure("online", rate);
  }

  if (options.csv) {
    if (const auto written = write_csv(*options.csv, phases); !written.ok()) {
      return fail(console, written.error());
    }
  }
  if (console.json) {
    Json json = Json::array();
    for (const Phase& phase : phases) json.push_back(json_of(phase));
    console.out << json.dump() << "\n";
  } else {
    console.out << table_of(phases);
  }
  const LoadTotals& last = phases.back().totals;
  return last.succeeded > 0 ? 0 : fail_with(console, last);
}

}  // namespace lambent::cli
