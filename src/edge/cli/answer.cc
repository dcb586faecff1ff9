#include "edge/cli/answer.h"

#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <utility>

#include "core/base/base64.h"
#include "core/base/parse_number.h"
#include "edge/cli/wait_words.h"

namespace lambent::cli {
namespace {

std::optional<int64_t> number_in(const http::Headers& headers, std::string_view name) {
  return parse_number<int64_t>(headers.get(name));
}

std::optional<Phases> phases_in(const http::Headers& headers) {
  const auto queue = number_in(headers, "x-lambent-queue-us");
  const auto sandbox = number_in(headers, "x-lambent-sandbox-us");
  const auto init = number_in(headers, "x-lambent-init-us");
  const auto run = number_in(headers, "x-lambent-run-us");
  // Workers of before memory moved do not tell it.
  const auto memory = number_in(headers, "x-lambent-memory-us");
  if (!queue || !sandbox || !init || !run) return std::nullopt;
  return Phases{.queue = microseconds(*queue),
                .sandbox = microseconds(*sandbox),
                .init = microseconds(*init),
                .memory = microseconds(memory.value_or(0)),
                .run = microseconds(*run)};
}

// Whole milliseconds, with one digit more below ten: "0", "0.4", "12".
std::string short_milliseconds(Duration duration) {
  const double ms = to_milliseconds(duration);
  char text[32];
  std::snprintf(text, sizeof(text), ms >= 9.95 || ms < 0.05 ? "%.0f" : "%.1f", ms);
  return text;
}

// " (every GPU was at its limit)"; empty for a wait that no user would ask about.
std::string reason_in_words(const Answer& answer) {
  if (answer.phases->queue < milliseconds(1)) return "";
  const std::string_view words = wait_in_words(answer.wait_reason);
  return words.empty() ? "" : " (" + std::string(words) + ")";
}

}  // namespace

Answer answer_of(const http::Response& response) {
  const http::Headers& headers = response.headers;
  Answer answer{.id = std::string(headers.get("x-amzn-requestid")),
                .function_failed = !headers.get("x-amz-function-error").empty(),
                .phases = phases_in(headers),
                .payload = response.body};
  for (const StartClass start : {StartClass::kCold, StartClass::kGpuCold, StartClass::kWarm}) {
    if (headers.get("x-lambent-start") == name_of(start)) answer.start = start;
  }
  if (const auto slo = headers.get("x-lambent-slo"); !slo.empty())
    answer.in_time = slo == "in_time";
  answer.device = headers.get("x-lambent-device");
  answer.wait_reason = headers.get("x-lambent-wait-reason");
  answer.runs = static_cast<unsigned>(number_in(headers, "x-lambent-runs").value_or(0));
  answer.destination = headers.get("x-lambent-destination");
  const auto peak = number_in(headers, "x-lambent-device-memory-peak-bytes");
  if (peak && *peak > 0) answer.device_memory_peak = Bytes(static_cast<uint64_t>(*peak));
  if (auto tail = base64_decode(headers.get("x-amz-log-result"))) answer.log_tail = *tail;
  return answer;
}

std::string phases_line(const Answer& answer) {
  std::string line;
  if (answer.phases) {
    const Phases& phases = *answer.phases;
    line = short_milliseconds(phases.total()) + " ms  queue " + short_milliseconds(phases.queue) +
           reason_in_words(answer) + " | sandbox " + short_milliseconds(phases.sandbox) +
           " | init " + short_milliseconds(phases.init);
    if (phases.memory > Duration(0)) line += " | memory " + short_milliseconds(phases.memory);
    line += " | run " + short_milliseconds(phases.run) + "   ";
  }
  if (answer.start) line += std::string(name_of(*answer.start)) + "   ";
  if (answer.in_time == false) line += "SLO missed   ";
  if (!answer.device.empty())
    line += (answer.device == "cpu" ? "" : "gpu ") + answer.device + "   ";
  if (answer.device_memory_peak.count > 0) {
    line += "gpu memory " + to_string(answer.device_memory_peak) + "   ";
  }
  if (answer.runs > 1) line += std::to_string(answer.runs) + " runs   ";
  line += "id " + answer.id;
  if (!answer.destination.empty()) line += "\ndestination   " + answer.destination;
  return line;
}

std::string readable_failure(const Answer& answer) {
  if (!answer.function_failed) return "";
  const auto json = nlohmann::json::parse(answer.payload, nullptr, false);
  if (!json.is_object() || !json.contains("stackTrace")) return "";
  const nlohmann::json& trace = json["stackTrace"];
  if (!trace.is_array() || trace.empty()) return "";
  const auto text_of = [&json](const char* key) {
    return json.contains(key) && json[key].is_string() ? json[key].get<std::string>() : "";
  };
  std::string said = text_of("errorType") + ": " + text_of("errorMessage") + "\n";
  for (const nlohmann::json& frame : trace) {
    if (!frame.is_string()) return "";
    said += frame.get<std::string>();
    if (!said.ends_with('\n')) said += '\n';
  }
  for (char& c : said) {
    if ((c >= 0 && c < ' ' && c != '\n' && c != '\t') || c == 127) c = '?';
  }
  return said;
}

}  // namespace lambent::cli
