// What a client of OpenAI's API asks for: the list of models, or something of one model that its
// body names. And errors in the form that its clients read. Pure; fuzzed; any thread.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "core/base/result.h"
#include "core/base/time.h"
#include "core/http/message.h"

namespace lambent::frontend {

inline constexpr std::string_view kOpenaiModels = "/v1/models";
// That and what lies below, and the paths whose bodies name a model.
bool is_openai_path(std::string_view path);
// Paths such as "/v1/chat/completions" (docs/guides/openai.md lists them): such a request is a
// function's, which gets the path as it is.
bool is_for_openai_model(std::string_view path);
// Whether it is the list of models, or one of them.
bool is_openai_list(std::string_view path);
// Its query names the model, because it asks for a WebSocket.
inline constexpr std::string_view kOpenaiRealtime = "/v1/realtime";

// Between nodes: the function that serves the model of a request, as the node found that was asked.
inline constexpr std::string_view kServingFunction = "X-Lambent-Serving-Function";

// The model that a body names: the text under "model" in the object that it is, or the part of that
// name of a form. What is behind that is not looked at. One body, one thread.
class OpenaiModelFinder {
 public:
  explicit OpenaiModelFinder(std::string content_type);

  // `beginning` is what has come, each time more of it; `is_whole`: nothing more comes. Nothing:
  // the model does not stand in it. INVALID_ARGUMENT if there is none.
  Result<std::optional<std::string>> look(std::string_view beginning, bool is_whole);

 private:
  // Goes on where it was; the same results, of what is no form.
  Result<std::optional<std::string>> look_at_json(std::string_view body);
  Result<std::optional<std::string>> string_ended(std::string_view quoted);

  const std::string content_type_;
  const bool is_form_;
  size_t seen_ = 0;  // bytes
  size_t depth_ = 0;
  size_t string_at_ = 0;  // where the string begins that goes on
  bool in_string_ = false;
  bool is_escaped_ = false;
  bool is_key_ = false;    // in the outermost object a name comes next
  bool is_model_ = false;  // the last name was "model"
};

// {"error": {"message", "type", "param", "code"}}
http::Response openai_error(int status, const std::string& message);
http::Response openai_error(const Error& error, Duration retry_after = {});
// 404: no function of the tenant serves it.
http::Response no_such_openai_model(const std::string& model);

}  // namespace lambent::frontend
