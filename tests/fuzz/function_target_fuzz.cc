// The target and the Host of a request, a line each: what is for a function and what for the
// worker's own API. And the command of a function: what is read is written so that it reads the
// same.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "core/base/check.h"
#include "core/domain/command_line.h"
#include "edge/frontend/function_target.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace lambent;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const size_t end = std::min(text.find('\n'), text.size());
  http::Request request{.method = "GET", .target = std::string(text.substr(0, end))};
  request.headers.add("Host", std::string(text.substr(std::min(end + 1, text.size()))));
  if (const auto target = frontend::function_target(request, "lambent.localhost")) {
    CHECK(target->target.starts_with('/'), "a program gets a path");
    CHECK(target->name.find('/') == std::string::npos, "a function's name is one segment");
    const char* const begin = target->tenant.empty() ? "/f/" : "/t/";
    CHECK(target->prefix.empty() || request.target.starts_with(begin), "and what it was taken off");
    CHECK(target->tenant.find('/') == std::string::npos, "a tenant's name is one segment");
    CHECK(target->protocol == frontend::Protocol::kNone || target->target == request.target,
          "a model's program gets the protocol's path");
  } else {
    CHECK(!request.target.starts_with("/f/"), "a path of a function is none of the API");
  }

  const auto words = command_words(text);
  if (!words.ok()) return 0;
  const auto again = command_words(command_text(*words));
  CHECK(again.ok() && *again == *words, "a command is read as it was written");
  return 0;
}
