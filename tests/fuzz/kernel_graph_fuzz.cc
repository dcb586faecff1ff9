// Graphs come in packages that anyone may upload: whatever is accepted survives a round trip, and
// what is valid can be ordered and planned.
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "decide/kernel_graph/graph_json.h"
#include "decide/kernel_graph/plan.h"
#include "decide/kernel_graph/validation.h"
#include "tests/fuzz/accepted.h"

namespace {
[[maybe_unused]] const bool kTold = lambent::fuzz::tells_what_it_accepts();
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace lambent::kernel_graph;
  const auto graph = parse_graph({reinterpret_cast<const char*>(data), size});
  if (!graph.ok()) return 0;
  const auto again = parse_graph(to_json(*graph));
  if (!again.ok() || *again != *graph) abort();
  // Kernels that fit, so that what else is wrong decides.
  KernelLookup kernels;
  const auto add = [&](const auto& self, const std::vector<Step>& steps) -> void {
    for (const Step& step : steps) {
      if (const auto* repeat = std::get_if<Repeat>(&step)) {
        self(self, repeat->steps);
        continue;
      }
      const auto& launch = std::get<Launch>(step);
      KernelFacts facts;
      for (const Argument& argument : launch.arguments) {
        const auto* literal = std::get_if<LiteralArgument>(&argument);
        facts.parameter_sizes.push_back(literal == nullptr ? 8 : literal->bytes.size());
      }
      kernels[launch.bundle][launch.kernel] = facts;
    }
  };
  add(add, graph->steps);
  if (!validate(*graph, kernels).ok()) return 0;
  lambent::fuzz::accepted.last = true;
  const MemoryPlan plan = plan_memory(*graph, order_of(graph->steps));
  for (size_t i = 0; i < graph->buffers.size(); ++i) {
    if (graph->buffers[i].role != BufferRole::kTemporary) continue;
    if (plan.offsets[i] + plan.sizes[i] > plan.temporaries) abort();
  }
  return 0;
}
