#include "edge/frontend/openai_call.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "core/base/json_text.h"
#include "core/http/forward_words.h"
#include "core/http/multipart.h"
#include "edge/frontend/json_text.h"
#include "edge/frontend/outcome_headers.h"

namespace lambent::frontend {
namespace {

using nlohmann::json;

// With what vLLM and llama.cpp's server have beside OpenAI's own.
constexpr std::string_view kOfModels[] = {"/v1/audio/speech",
                                          "/v1/audio/transcriptions",
                                          "/v1/audio/translations",
                                          "/v1/chat/completions",
                                          "/v1/completions",
                                          "/v1/embeddings",
                                          "/v1/images/edits",
                                          "/v1/images/generations",
                                          "/v1/images/variations",
                                          "/v1/messages",
                                          "/v1/messages/count_tokens",
                                          "/v1/moderations",
                                          "/v1/rerank",
                                          "/v1/responses",
                                          "/v1/score",
                                          kOpenaiRealtime};

const Error& no_model() {
  static const Error error{ErrorCode::kInvalidArgument,
                           "the body names no model: it is an object with the text 'model', or a "
                           "form with such a part"};
  return error;
}

Error no_json() { return {ErrorCode::kInvalidArgument, "the body is no JSON"}; }

std::string_view type_of(int status) {
  if (status >= 500) return "server_error";
  if (status == 429) return "rate_limit_error";
  if (status == 403) return "permission_error";
  return "invalid_request_error";
}

json code_of(int status) {
  if (status == 401) return "invalid_api_key";
  if (status == 429) return "rate_limit_exceeded";
  return nullptr;
}

http::Response error_response(int status, const json& error) {
  http::Response response;
  response.status = status;
  response.headers.add("Content-Type", "application/json");
  response.body = json_text(json{{"error", error}});
  return response;
}

}  // namespace

bool is_for_openai_model(std::string_view path) {
  return std::find(std::begin(kOfModels), std::end(kOfModels), path) != std::end(kOfModels);
}

bool is_openai_list(std::string_view path) {
  return path.starts_with(kOpenaiModels) &&
         (path.size() == kOpenaiModels.size() || path[kOpenaiModels.size()] == '/');
}

bool is_openai_path(std::string_view path) {
  return is_openai_list(path) || is_for_openai_model(path);
}

OpenaiModelFinder::OpenaiModelFinder(std::string content_type)
    : content_type_(std::move(content_type)),
      is_form_(http::same_name(content_type_.substr(0, http::kMultipartForm.size()),
                               http::kMultipartForm)) {}

Result<std::optional<std::string>> OpenaiModelFinder::look(std::string_view beginning,
                                                           bool is_whole) {
  std::optional<std::string> model;
  if (is_form_) {
    ASSIGN_OR_RETURN(const auto part, http::find_part(content_type_, beginning, "model"));
    if (part) model = *part;
  } else {
    ASSIGN_OR_RETURN(model, look_at_json(beginning));
    if (!model && is_whole) return no_json();  // its object has not ended
  }
  if (model ? model->empty() : is_whole) return no_model();
  return model;
}

// Structure alone: whether all of it is JSON is the program's to say.
Result<std::optional<std::string>> OpenaiModelFinder::look_at_json(std::string_view body) {
  for (; seen_ < body.size(); ++seen_) {
    const char c = body[seen_];
    if (in_string_) {
      if (std::exchange(is_escaped_, !is_escaped_ && c == '\\') || c != '"') continue;
      in_string_ = false;
      if (depth_ > 1) continue;
      ASSIGN_OR_RETURN(auto model, string_ended(body.substr(string_at_, seen_ + 1 - string_at_)));
      if (model) return model;
      continue;
    }
    const bool is_space = c == ' ' || c == '\t' || c == '\r' || c == '\n';
    if (is_space) continue;
    const bool is_value = depth_ == 1 && !is_key_ && c != ':' && c != ',';
    if (depth_ == 0 && c != '{') return c == '[' || c == '"' ? no_model() : no_json();
    if (is_value && is_model_ && c != '"') return no_model();
    if (c == '"') {
      in_string_ = true;
      string_at_ = seen_;
    } else if (c == '{' || c == '[') {
      is_key_ = ++depth_ == 1;
    } else if (c == '}' || c == ']') {
      if (--depth_ == 0) return no_model();
    } else if (depth_ == 1 && (c == ',' || c == ':')) {
      is_key_ = c == ',';
    }
  }
  return std::optional<std::string>();
}

Result<std::optional<std::string>> OpenaiModelFinder::string_ended(std::string_view quoted) {
  if (!is_key_ && !is_model_) return std::optional<std::string>();
  const json text = json::parse(quoted, nullptr, false);
  if (!text.is_string()) return no_json();
  if (!is_key_) return std::optional(text.get<std::string>());
  is_model_ = text == "model";
  return std::optional<std::string>();
}

http::Response openai_error(int status, const std::string& message) {
  return error_response(status, {{"message", message},
                                 {"type", type_of(status)},
                                 {"param", nullptr},
                                 {"code", code_of(status)}});
}

http::Response openai_error(const Error& error, Duration retry_after) {
  // A body that is too large, as servers say it.
  const int status = error.code == ErrorCode::kOutOfRange ? 413 : http_status_of(error.code);
  http::Response response = openai_error(status, error.message);
  http::tell_not_begun(response.headers, error.code, error.message);
  if (status == 429) add_retry_after(response.headers, retry_after);
  return response;
}

http::Response no_such_openai_model(const std::string& model) {
  return error_response(404, {{"message", "no function serves the model '" + model +
                                              "'; GET /v1/models lists those that there are"},
                              {"type", "invalid_request_error"},
                              {"param", "model"},
                              {"code", "model_not_found"}});
}

}  // namespace lambent::frontend
