// What a client of OpenAI's API asks for: the list of models, or something of one model that its
// body names. And errors in the form that its clients read. Pure; fuzzed; any thread.
#pragma once

#include <string>
#include <string_view>

#include "core/base/result.h"
#include "core/base/time.h"
#include "core/http/message.h"

namespace lambent::frontend {

inline constexpr std::string_view kOpenaiModels = "/v1/models";
// That and what lies below, and the paths whose bodies name a model.
bool is_openai_path(std::string_view path);
// "/v1/chat/completions", "/v1/completions", "/v1/embeddings", "/v1/responses": such a request is a
// function's, which gets the path as it is.
bool is_for_openai_model(std::string_view path);

// The model that a body names: the text under "model" in the object that it is. What is behind that
// is not looked at. INVALID_ARGUMENT if there is none.
Result<std::string> openai_model_of(std::string_view body);

// {"error": {"message", "type", "param", "code"}}
http::Response openai_error(int status, const std::string& message);
http::Response openai_error(const Error& error, Duration retry_after = {});
// 404: no function of the tenant serves it.
http::Response no_such_openai_model(const std::string& model);

}  // namespace lambent::frontend
