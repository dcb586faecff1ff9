// What clients and functions say and telemetry passes on: a trace id, an Accept header, a target of
// the access log, and metrics whose labels have the names of functions. The first line is the trace
// id, the second the header; all is a target and a text of metrics as well.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "core/base/check.h"
#include "core/domain/trace_id.h"
#include "core/telemetry/invocation_spans.h"
#include "edge/frontend/access_log.h"
#include "edge/frontend/metrics_formats.h"

namespace {

using namespace lambent;

bool is_hex(std::string_view text, size_t digits) {
  return text.size() == digits &&
         text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

void check_trace(std::string_view xray) {
  const InvocationId id{1, 2};
  const TracePlace place = trace_place_of(xray, id);
  CHECK(is_hex(place.trace, 32), "a trace id has 32 digits");
  CHECK(place.parent.empty() || is_hex(place.parent, 16), "and a span's 16");
  const std::string below = trace_id_below(xray, id);
  CHECK(trace_place_of(below, id).trace == place.trace, "a call stays in the trace");
  InvocationRequest request{.id = id};
  request.function.name = xray;
  request.trace_id = xray;
  const auto spans = telemetry::spans_of(request, {}, seconds(1));
  CHECK(spans.empty() != place.sampled, "what is not sampled has no spans");
  CHECK(!telemetry::traces_request({}, spans).empty(), "a request has its frame");
}

void check_line(std::string_view text) {
  const frontend::AccessRecord record{.origin = "127.0.0.1:1",
                                      .method = "GET",
                                      .target = std::string(text),
                                      .user_agent = std::string(text)};
  for (const auto format :
       {frontend::AccessLogFormat::kJson, frontend::AccessLogFormat::kCombined}) {
    const std::string line = frontend::line_of(record, format);
    CHECK(line.find('\n') == line.size() - 1, "a request is one line");
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view all(reinterpret_cast<const char*>(data), size);
  const std::string_view first = all.substr(0, all.find('\n'));
  check_trace(first);
  const std::string_view rest = all.substr(std::min(first.size() + 1, all.size()));
  (void)lambent::frontend::wants_openmetrics(rest.substr(0, rest.find('\n')));
  check_line(all);
  const std::string open = lambent::frontend::openmetrics_of(all);
  CHECK(open.ends_with("# EOF\n"), "OpenMetrics has an end");
  (void)lambent::frontend::triton_metrics(all, [](const auto&) { return true; });
  return 0;
}
