// A request as an HTTP message, its target and headers a line each and its body behind: the event
// that is made of it is JSON. A handler's result and the beginning of a streamed answer: either a
// response of them or an error.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string_view>

#include "core/base/check.h"
#include "edge/frontend/function_event.h"

namespace {

using namespace lambent;

void check_response(const http::Response& response) {
  CHECK(response.status >= 200 && response.status < 600, "a status that ends a request");
  for (const auto& [name, value] : response.headers.fields()) {
    CHECK(!name.empty() && value.find_first_of("\r\n") == std::string::npos, "one line each");
  }
}

void check_event(std::string_view text) {
  frontend::EventRequest from;
  from.request.method = "POST";
  const size_t end = std::min(text.find('\n'), text.size());
  from.request.target = text.substr(0, end);
  text.remove_prefix(std::min(end + 1, text.size()));
  for (size_t i = 0; i < 4 && !text.empty(); ++i) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    const size_t colon = std::min(line.find(':'), line.size());
    from.request.headers.add(std::string(line.substr(0, colon)),
                             std::string(line.substr(std::min(colon + 1, line.size()))));
  }
  from.request.body = text;
  const auto event = nlohmann::json::parse(frontend::event_of(from), nullptr, false);
  CHECK(event.is_object(), "an event is JSON");
  CHECK(event.contains("body") == !from.request.body.empty(), "with the body that there was");
  if (event.contains("body") && event["isBase64Encoded"] == false) {
    CHECK(event["body"] == from.request.body, "which is the same as text");
  }
}

void check_head(std::string_view bytes) {
  frontend::StreamedHead whole(frontend::kIntegrationResponse);
  frontend::StreamedHead pieces(frontend::kIntegrationResponse);
  std::string_view left = bytes;
  const auto at_once = whole.feed(left);
  bool known = false;
  bool failed = false;
  size_t after = 0;
  for (size_t at = 0; at < bytes.size() && !failed; at += 3) {
    std::string_view piece = bytes.substr(at, 3);
    const auto fed = pieces.feed(piece);
    failed = !fed.ok();
    known = fed.ok() && *fed;
    if (known) after += piece.size();
  }
  if (bytes.empty()) return;
  CHECK(failed == !at_once.ok(), "however it is cut");
  CHECK(failed || known == *at_once, "it is known or not");
  if (failed || !known) return;
  CHECK(after == left.size(), "and its body begins at one place");
  check_response(whole.response());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  check_event(text);
  check_head(text);
  const auto response = frontend::response_of_result(text);
  if (response.ok()) check_response(*response);
  return 0;
}
