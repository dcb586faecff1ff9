#include "node/worker/stage_process_answer.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "core/base/json_text.h"
#include "core/domain/limits.h"
#include "node/runtime_api/error_type.h"

namespace lambent::worker {
namespace {

using nlohmann::json;

constexpr double kMostMilliseconds = 1e9;
constexpr double kMostBytes = 1e15;

Error malformed(const std::string& what) {
  return Error{ErrorCode::kInvalidArgument, "a stage's answer: " + what};
}

// Refuses what is nested deeper than a text may be, before it is built.
Result<json> parse(std::string_view text) {
  bool too_deep = false;
  const auto watch = [&too_deep](int depth, json::parse_event_t, json&) {
    too_deep |= depth > static_cast<int>(limits::kJsonDepth);
    return !too_deep;
  };
  json parsed = json::parse(text, watch, false);
  if (too_deep) {
    return Error{ErrorCode::kInvalidArgument,
                 "it is nested deeper than " + std::to_string(limits::kJsonDepth)};
  }
  if (parsed.is_discarded()) return Error{ErrorCode::kInvalidArgument, "it is no JSON"};
  return parsed;
}

// A number from 0 to `most`; 0 where there is none.
Result<double> number(const json& object, const char* key, double most) {
  const auto found = object.find(key);
  if (found == object.end()) return 0.0;
  const double value = found->is_number() ? found->get<double>() : -1;
  if (!(value >= 0) || value > most) return malformed(std::string(key) + " is out of range");
  return value;
}

Result<Duration> milliseconds_of(const json& object, const char* key) {
  ASSIGN_OR_RETURN(const double value, number(object, key, kMostMilliseconds));
  return from_seconds(value / 1e3);
}

Result<Bytes> bytes_of(const json& object, const char* key) {
  ASSIGN_OR_RETURN(const double value, number(object, key, kMostBytes));
  return Bytes(static_cast<uint64_t>(value));
}

Result<ComponentReading> read_component(const json& object, size_t component, size_t requests) {
  if (!object.is_object()) return malformed("components has something that is no object");
  ComponentReading reading;
  reading.component = component;
  ASSIGN_OR_RETURN(const double ran, number(object, "ran", static_cast<double>(requests)));
  reading.ran = static_cast<unsigned>(ran);
  ASSIGN_OR_RETURN(reading.time, milliseconds_of(object, "ms"));
  const auto together = object.find("together");
  reading.together = together != object.end() && together->is_boolean() && together->get<bool>();
  ASSIGN_OR_RETURN(reading.memory, bytes_of(object, "memory"));
  ASSIGN_OR_RETURN(reading.weights, bytes_of(object, "weights"));
  ASSIGN_OR_RETURN(reading.output, bytes_of(object, "output"));
  return reading;
}

Result<RequestAnswer> read_result(const json& object) {
  RequestAnswer answer;
  const auto value = object.find("value");
  if (value != object.end()) {
    answer.payload = json_text(*value);
    return answer;
  }
  const auto error = object.find("error");
  if (error == object.end() || !error->is_object()) {
    return malformed("a result has neither value nor error");
  }
  answer.succeeded = false;
  answer.payload = json_text(*error);
  answer.error_type = runtime_api::error_type_of("", answer.payload, "Runtime.HandlerError");
  return answer;
}

}  // namespace

std::string stage_process_payload(slice_scheduling::JobId job, size_t requests, uint64_t turn,
                                  const std::vector<std::string_view>& events) {
  std::string payload = "{\"job\":" + std::to_string(job.value) +
                        ",\"requests\":" + std::to_string(requests) +
                        ",\"turn\":" + std::to_string(turn);
  for (size_t i = 0; i < events.size(); ++i) {
    payload += i == 0 ? ",\"events\":[" : ",";
    payload += events[i].empty() ? "{}" : events[i];
  }
  return payload + (events.empty() ? "}" : "]}");
}

Result<StageProcessAnswer> parse_stage_process_answer(std::string_view text,
                                                      const pipeline::Dag& dag,
                                                      const std::vector<size_t>& components,
                                                      size_t requests, bool gathers) {
  auto parsed = parse(text);
  if (!parsed.ok()) return malformed(parsed.error().message);
  if (!parsed->is_object()) return malformed("it is no object");
  StageProcessAnswer answer;
  ASSIGN_OR_RETURN(answer.queue, milliseconds_of(*parsed, "queue_ms"));
  ASSIGN_OR_RETURN(answer.wait, milliseconds_of(*parsed, "wait_ms"));
  ASSIGN_OR_RETURN(answer.receive, milliseconds_of(*parsed, "receive_ms"));
  ASSIGN_OR_RETURN(answer.send, milliseconds_of(*parsed, "send_ms"));
  answer.is_broken = parsed->contains("broken");
  const auto told = parsed->find("components");
  if (told == parsed->end() || !told->is_object()) return malformed("it has no components");
  for (const size_t component : components) {
    const auto found = told->find(dag.components[component].name);
    if (found == told->end()) continue;
    ASSIGN_OR_RETURN(const ComponentReading reading, read_component(*found, component, requests));
    answer.components.push_back(reading);
  }
  if (!gathers) return answer;
  const auto results = parsed->find("results");
  if (results == parsed->end() || !results->is_array() || results->size() != requests) {
    return malformed("it has not a result for each of " + std::to_string(requests) + " requests");
  }
  for (const json& result : *results) {
    if (!result.is_object()) return malformed("a result is no object");
    ASSIGN_OR_RETURN(RequestAnswer one, read_result(result));
    if (one.payload.size() > limits::kResponsePayload.count) {
      one.succeeded = false;
      one.error_type = "Function.ResponseSizeTooLarge";
      one.payload = runtime_api::error_json(
          one.error_type, "the response has " + std::to_string(one.payload.size()) +
                              " bytes; at most " + std::to_string(limits::kResponsePayload.count) +
                              " are taken");
    }
    answer.results.push_back(std::move(one));
  }
  return answer;
}

Result<void> check_event(std::string_view payload) {
  if (payload.empty()) return {};
  // The parser would take the one for an end and skip the other; both would go on to the stages.
  if (payload.find('\0') != std::string_view::npos || payload.starts_with("\xef\xbb\xbf")) {
    return Error{ErrorCode::kInvalidArgument,
                 "a pipeline takes JSON events: no NUL, and no byte order mark"};
  }
  const auto parsed = parse(payload);
  if (parsed.ok()) return {};
  return Error{ErrorCode::kInvalidArgument,
               "a pipeline takes JSON events: " + parsed.error().message};
}

}  // namespace lambent::worker
