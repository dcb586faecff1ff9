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
// Its query names the model, because it asks for a WebSocket.
inline constexpr std::string_view kOpenaiRealtime = "/v1/realtime";

// The model that a body names, of which `beginning` has come, and nothing more comes if that is the
// whole: the text under "model" in the object that it is, or the part of that name of a form. What
// is behind that is not looked at. Nothing: it does not stand in what has come. INVALID_ARGUMENT if
// there is none.
Result<std::optional<std::string>> openai_model_of(std::string_view content_type,
                                                   std::string_view beginning, bool is_whole);

// {"error": {"message", "type", "param", "code"}}
http::Response openai_error(int status, const std::string& message);
http::Response openai_error(const Error& error, Duration retry_after = {});
// 404: no function of the tenant serves it.
http::Response no_such_openai_model(const std::string& model);

}  // namespace lambent::frontend
