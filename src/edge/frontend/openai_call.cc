#include "edge/frontend/openai_call.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

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

// Looks for the text under "model" in the outermost object, and stops there.
class ModelFinder final : public nlohmann::json_sax<json> {
 public:
  bool found = false;
  std::optional<size_t> broken_at;  // so many bytes were read
  std::string model;

  bool null() override { return pass(); }
  bool boolean(bool) override { return pass(); }
  bool number_integer(int64_t) override { return pass(); }
  bool number_unsigned(uint64_t) override { return pass(); }
  bool number_float(double, const std::string&) override { return pass(); }
  bool binary(json::binary_t&) override { return pass(); }
  bool string(std::string& text) override {
    if (!std::exchange(is_next_, false)) return depth_ > 0;
    found = true;
    model = std::move(text);
    return false;
  }
  bool key(std::string& name) override {
    is_next_ = depth_ == 1 && name == "model";
    return true;
  }
  bool start_object(size_t) override { return enter(); }
  bool end_object() override { return leave(); }
  bool start_array(size_t) override { return depth_ > 0 && enter(); }
  bool end_array() override { return leave(); }
  bool parse_error(size_t position, const std::string&, const json::exception&) override {
    broken_at = position;
    return false;
  }

 private:
  // A value that is no text: the model's is none, and the outermost one is an object.
  bool pass() { return !std::exchange(is_next_, false) && depth_ > 0; }
  bool enter() {
    if (std::exchange(is_next_, false)) return false;
    ++depth_;
    return true;
  }
  bool leave() {
    --depth_;
    return true;
  }

  size_t depth_ = 0;
  bool is_next_ = false;  // the value that comes is the model's name
};

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
  response.body = to_text({{"error", error}});
  return response;
}

}  // namespace

bool is_for_openai_model(std::string_view path) {
  return std::find(std::begin(kOfModels), std::end(kOfModels), path) != std::end(kOfModels);
}

bool is_openai_path(std::string_view path) {
  const bool is_list = path.starts_with(kOpenaiModels) &&
                       (path.size() == kOpenaiModels.size() || path[kOpenaiModels.size()] == '/');
  return is_list || is_for_openai_model(path);
}

Result<std::optional<std::string>> openai_model_of(std::string_view content_type,
                                                   std::string_view beginning, bool is_whole) {
  const Error no_model{ErrorCode::kInvalidArgument,
                       "the body names no model: it is an object with the text 'model', or a form "
                       "with such a part"};
  if (http::same_name(content_type.substr(0, http::kMultipartForm.size()), http::kMultipartForm)) {
    const auto part = http::find_part(content_type, beginning, "model");
    if (!part.ok()) return part.error();
    if (!part->has_value() && !is_whole) return std::optional<std::string>();
    if (!part->has_value() || (*part)->empty()) return no_model;
    return std::optional<std::string>(**part);
  }
  ModelFinder finder;
  json::sax_parse(beginning, &finder);
  if (finder.broken_at) {
    // What is not whole breaks off where it ends.
    if (!is_whole && *finder.broken_at >= beginning.size()) return std::optional<std::string>();
    return Error{ErrorCode::kInvalidArgument, "the body is no JSON"};
  }
  if (!finder.found || finder.model.empty()) return no_model;
  return std::optional(std::move(finder.model));
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
