// Workflows come in packages that anyone may upload: whatever is accepted survives a round trip,
// and runs to one outcome whatever its functions answer.
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "decide/workflow/graph_json.h"
#include "decide/workflow/kernel_call.h"
#include "decide/workflow/run.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace lambent::workflow;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  // Answers are foreign bytes, too.
  const auto value = parse_value(text);
  if (value.ok() && *parse_value(to_text(*value)) != *value) abort();
  const auto outputs = kernel_outputs(text);
  if (outputs.ok() && !Value::accept(to_text(*outputs))) abort();
  if (value.ok()) {
    const auto request = kernel_request(*value, KernelOutputs::kObjects);
    if (request.ok() && !Value::accept(*request)) abort();
  }

  const auto workflow = parse_workflow(text);
  if (!workflow.ok()) return 0;
  const auto again = parse_workflow(to_json(*workflow));
  if (!again.ok() || !(*again == *workflow)) abort();
  const Value answers[] = {Value(), Value(3), Value({{"boxes", {1, 2}}, {"n", "x"}}),
                           Value({1, 2})};
  for (const Value& answer : answers) {
    Run run(std::make_shared<const Workflow>(*workflow), "fuzz", {.fan_out = 4});
    size_t outcomes = 0;
    std::vector<Call> calls;
    const auto take = [&](RunStep step) {
      for (;; step = run.next()) {
        if (step.call) calls.push_back(std::move(*step.call));
        outcomes += step.outcome ? 1 : 0;
        if (!step.more) return;
      }
    };
    take(run.start({answer, lambent::Bytes(1)}));
    while (!calls.empty()) {
      const Call call = std::move(calls.back());
      calls.pop_back();
      take(run.ended(call.key, CallResult{answer, lambent::Bytes(1)}));
    }
    if (outcomes != 1) abort();
  }
  return 0;
}
