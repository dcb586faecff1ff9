// What sandboxed stage processes of a pipeline say about a job, and events of its callers: what is
// taken is within its bounds, and a result goes on as JSON.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "core/base/check.h"
#include "node/worker/stage_process_answer.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace lambent;
  static const pipeline::Dag kDag{
      .inputs = {"image"},
      .components = {{.name = "blur", .inputs = {{pipeline::Source::Kind::kInput, 0}}},
                     {.name = "classify", .inputs = {{pipeline::Source::Kind::kComponent, 0}}}},
      .outputs = {1}};
  constexpr size_t kRequests = 2;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  (void)worker::check_event(text);
  for (const bool gathers : {false, true}) {
    const auto answer = worker::parse_stage_process_answer(text, kDag, {0, 1}, kRequests, gathers);
    if (!answer.ok()) continue;
    for (const auto& component : answer->components) {
      CHECK(component.component < kDag.components.size(), "a component of the pipeline");
      CHECK(component.ran <= kRequests, "it ran for what there was");
      CHECK(component.time >= Duration(0), "no time is negative");
    }
    for (const Duration time : {answer->queue, answer->wait, answer->receive, answer->send}) {
      CHECK(time >= Duration(0), "no time is negative");
    }
    CHECK(answer->results.size() == (gathers ? kRequests : 0), "a result for each request");
    for (const auto& result : answer->results) {
      CHECK(worker::check_event(result.payload).ok(), "a result is JSON");
      CHECK(result.succeeded || !result.error_type.empty(), "an error has a type");
    }
  }
  return 0;
}
