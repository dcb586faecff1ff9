#include "edge/frontend/openai_call.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "edge/frontend/json_text.h"
#include "edge/frontend/outcome_headers.h"

namespace lambent::frontend {
namespace {

using nlohmann::json;

constexpr std::string_view kOfModels[] = {"/v1/chat/completions", "/v1/completions",
                                          "/v1/embeddings", "/v1/responses"};

// Looks for the text under "model" in the outermost object, and stops there.
class ModelFinder final : public nlohmann::json_sax<json> {
 public:
  bool found = false;
  bool is_broken = false;
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
  bool parse_error(size_t, const std::string&, const json::exception&) override {
    is_broken = true;
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

Result<std::string> openai_model_of(std::string_view body) {
  ModelFinder finder;
  json::sax_parse(body, &finder);
  if (finder.is_broken) return Error{ErrorCode::kInvalidArgument, "the body is no JSON"};
  if (!finder.found || finder.model.empty()) {
    return Error{ErrorCode::kInvalidArgument,
                 "the body names no model: it is an object with the text 'model'"};
  }
  return std::move(finder.model);
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
