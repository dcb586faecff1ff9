#include "core/telemetry/invocation_spans.h"

#include <cstdio>
#include <utility>

#include "core/domain/slice.h"
#include "core/domain/trace_id.h"

namespace lambent::telemetry {
namespace {

// Of a phase: the invocation's own with another last digit, so that the same invocation always has
// the same spans.
std::string id_of_phase(InvocationId invocation, uint64_t number) {
  return span_id_of({invocation.high, (invocation.low + number) | (uint64_t{1} << 63)});
}

Span whole(const InvocationRequest& request, const InvocationResult& result, Duration ended) {
  Span span{.id = span_id_of(request.id),
            .name = request.function.name,
            .kind = SpanKind::kServer,
            .begin = ended - result.phases.total(),
            .end = ended};
  span.attributes = {{"faas.invocation_id", to_string(request.id)},
                     {"faas.name", request.function.name},
                     {"faas.version", result.version},
                     {"faas.coldstart", result.start == StartClass::kCold},
                     {"lambent.tenant", static_cast<int64_t>(request.function.tenant.value)},
                     {"lambent.outcome", std::string(name_of(result.outcome))},
                     {"lambent.asynchronous", request.kind == InvocationKind::kAsynchronous}};
  if (result.outcome != Outcome::kRejected) {
    span.attributes.emplace_back("lambent.start", std::string(name_of(result.start)));
  }
  if (result.device) {
    span.attributes.emplace_back("lambent.gpu", place_names(*result.device, result.beside));
  }
  if (!result.wait_reason.empty()) {
    span.attributes.emplace_back("lambent.wait_reason", result.wait_reason);
  }
  if (result.in_time) span.attributes.emplace_back("lambent.in_time", *result.in_time);
  if (result.outcome == Outcome::kSucceeded) return span;
  span.failed = true;
  span.message = result.error ? result.error->message : result.error_type;
  const std::string type = result.error_type.empty() && result.error
                               ? std::string(name_of(result.error->code))
                               : result.error_type;
  span.attributes.emplace_back("error.type", type);
  return span;
}

}  // namespace

std::vector<Span> spans_of(const InvocationRequest& request, const InvocationResult& result,
                           Duration ended) {
  const TracePlace place = trace_place_of(request.trace_id, request.id);
  if (!place.sampled) return {};
  std::vector<Span> spans = {whole(request, result, ended)};
  spans[0].parent = place.parent;
  const Phases& phases = result.phases;
  Duration begin = spans[0].begin;
  uint64_t number = 0;
  for (const auto& [name, took] :
       {std::pair("queue", phases.queue), std::pair("sandbox", phases.sandbox),
        std::pair("init", phases.init), std::pair("memory", phases.memory),
        std::pair("run", phases.run)}) {
    ++number;
    if (took <= Duration(0)) continue;
    spans.push_back({.id = id_of_phase(request.id, number),
                     .parent = spans[0].id,
                     .name = name,
                     .begin = begin,
                     .end = begin + took});
    begin += took;
  }
  for (Span& span : spans) span.trace = place.trace;
  return spans;
}

}  // namespace lambent::telemetry
