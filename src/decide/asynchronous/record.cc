#include "decide/asynchronous/record.h"

#include <cstdio>
#include <ctime>
#include <nlohmann/json.hpp>

#include "core/base/json_text.h"

namespace lambent::asynchronous {
namespace {

using Json = nlohmann::ordered_json;

// "2026-11-28T20:04:05.123Z"
std::string timestamp_of(Duration since_epoch) {
  const auto whole = std::chrono::floor<seconds>(since_epoch);
  const std::time_t time = whole.count();
  std::tm parts{};
  gmtime_r(&time, &parts);
  char day[32], text[48];
  std::strftime(day, sizeof day, "%Y-%m-%dT%H:%M:%S", &parts);
  const auto left = std::chrono::duration_cast<milliseconds>(since_epoch - whole).count();
  std::snprintf(text, sizeof text, "%s.%03dZ", day, static_cast<int>(left));
  return text;
}

// As it is written, so that no number of it changes; what is no JSON becomes a string.
std::string payload_of(std::string_view payload) {
  if (payload.empty()) return "null";
  // The parser takes a NUL for the end.
  const bool is_json = payload.find('\0') == std::string_view::npos && Json::accept(payload);
  return is_json ? std::string(payload) : json_text(Json(std::string(payload)));
}

// What was answered; of one that did not run, why.
std::string response_of(const InvocationResult& result) {
  if (!result.payload.empty() || !result.error) return payload_of(result.payload);
  const std::string type = result.error_type.empty()
                               ? std::string(lambent::name_of(result.error->code))
                               : result.error_type;
  return json_text(Json{{"errorMessage", result.error->message}, {"errorType", type}});
}

std::string compose(const Json& head, const std::string& request, const std::string& context,
                    const std::string& response, const Json& truncated) {
  std::string text = json_text(head);
  text.pop_back();
  text += ",\"requestPayload\":" + request;
  if (!context.empty()) text += ",\"responseContext\":" + context;
  text += ",\"responsePayload\":" + response;
  if (!truncated.empty()) text += ",\"truncated\":" + json_text(truncated);
  return text + "}";
}

}  // namespace

std::string destination_record(const Ended& ended, std::string_view request_payload, size_t most) {
  const InvocationResult& result = ended.result;
  const Json head = {{"version", "1.0"},
                     {"timestamp", timestamp_of(ended.at)},
                     {"requestContext",
                      {{"requestId", to_string(result.id)},
                       {"functionArn", ended.function_arn},
                       {"condition", std::string(name_of(ended.condition))},
                       {"approximateInvokeCount", result.runs}}}};
  std::string context;
  if (result.outcome != Outcome::kRejected) {
    Json of_response = {{"statusCode", 200}, {"executedVersion", result.version}};
    if (result.outcome == Outcome::kFunctionError) of_response["functionError"] = "Unhandled";
    context = json_text(of_response);
  }
  const std::string request = payload_of(request_payload);
  std::string text = compose(head, request, context, response_of(result), Json::array());
  if (text.size() <= most) return text;
  text = compose(head, request, context, "null", {"responsePayload"});
  if (text.size() <= most) return text;
  return compose(head, "null", context, "null", {"responsePayload", "requestPayload"});
}

}  // namespace lambent::asynchronous
