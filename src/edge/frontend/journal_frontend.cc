#include "edge/frontend/journal_frontend.h"

#include <algorithm>
#include <cctype>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "core/base/json_text.h"
#include "edge/frontend/json_text.h"
#include "edge/frontend/native_error.h"
#include "edge/frontend/native_path.h"

namespace lambent::frontend {
namespace {

using nlohmann::json;

constexpr std::string_view kWhatIf = "/v1/what-if";
constexpr size_t kMostChanges = 16;
constexpr size_t kMostWord = 64;
constexpr double kMostLastSeconds = 24 * 3600;

Error bad_question(std::string message) {
  return {ErrorCode::kInvalidArgument, std::move(message)};
}

// It becomes a word of a command line.
bool is_word(std::string_view text) {
  return !text.empty() && text.size() <= kMostWord && text.front() != '-' &&
         std::ranges::all_of(text, [](unsigned char c) {
           return std::isalnum(c) != 0 || c == '.' || c == '_' || c == '-';
         });
}

Result<WhatIfQuery> read_what_if(const std::string& text) {
  ASSIGN_OR_RETURN(const json body, parse_json(text));
  if (!body.is_object()) return bad_question("the body must be a JSON object");
  WhatIfQuery query;
  for (const auto& [key, value] : body.items()) {
    if (key == "last_seconds") {
      if (!value.is_number() || !(value.get<double>() > 0) ||
          value.get<double>() > kMostLastSeconds) {
        return bad_question("last_seconds must be a number above 0 and at most 86400");
      }
      query.last = from_seconds(value.get<double>());
    } else if (key == "changes" && value.is_object() && value.size() <= kMostChanges) {
      for (const auto& [name, setting] : value.items()) {
        const std::string word =
            setting.is_string() ? setting.get<std::string>() : json_text(setting);
        if (!is_word(name) || !is_word(word)) {
          return bad_question("changes must be settings such as \"D\": 3 or \"policy\": \"fcfs\"");
        }
        query.changes.emplace_back(name, word);
      }
    } else {
      return bad_question("the body has last_seconds and changes, an object of at most " +
                          std::to_string(kMostChanges) + " settings");
    }
  }
  if (query.changes.empty()) {
    return bad_question("changes must name a setting, such as {\"changes\": {\"D\": 3}}");
  }
  return query;
}

JournalService::Done answer_to(http::Responder responder) {
  // Shared because a callback must be copyable and a responder is not.
  auto answer = std::make_shared<http::Responder>(std::move(responder));
  return [answer](Result<std::string> text) {
    if (!text.ok()) return answer->send(error_response(text.error()));
    http::Response response;
    response.headers.add("Content-Type", "application/json");
    response.body = std::move(*text);
    answer->send(std::move(response));
  };
}

}  // namespace

bool is_journal_path(std::string_view path) {
  return path == kWhatIf || (path.starts_with("/v1/invocations/") && path.ends_with("/why"));
}

JournalCall decode_journal_call(const http::Request& request) {
  const std::string_view path = http::path_of(request.target);
  if (path == kWhatIf) {
    if (request.method != "POST") return method_not_allowed(request.method, "POST");
    auto query = read_what_if(request.body);
    if (!query.ok()) return error_response(query.error());
    return std::move(*query);
  }
  const auto parts = path_parts(path);
  if (!parts || parts->size() != 4) return no_such_path(path);
  if (request.method != "GET") return method_not_allowed(request.method, "GET");
  const auto id = invocation_id_from_string(parts->at(2));
  if (id) return TellWhy{*id};
  return error_response(
      bad_question("the id of an invocation is a UUID, as 'lambent invoke' prints it"));
}

void JournalFrontend::handle(const http::Request& request, http::Responder responder) {
  JournalCall call = decode_journal_call(request);
  if (auto* refused = std::get_if<http::Response>(&call)) {
    return responder.send(std::move(*refused));
  }
  if (service_ == nullptr) {
    return responder.send(error_response(
        Error{ErrorCode::kFailedPrecondition, "this worker keeps no journal (--journal none)"}));
  }
  auto done = answer_to(std::move(responder));
  if (const auto* why = std::get_if<TellWhy>(&call)) {
    return service_->why(why->invocation, std::move(done));
  }
  service_->what_if(std::get<WhatIfQuery>(std::move(call)), std::move(done));
}

}  // namespace lambent::frontend
