// Lists of processors, as the kernel and NVML tell them: any text is a list or is refused.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "core/base/check.h"
#include "node/sandbox/plan.h"
#include "node/worker/cpu_list.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace lambent;
  const auto list = worker::parse_cpu_list({reinterpret_cast<const char*>(data), size});
  if (!list.ok()) return 0;
  for (size_t i = 0; i < list->size(); ++i) {
    CHECK((*list)[i] < sandbox::kMostProcessors, "no processor is beyond the limit");
    CHECK(i == 0 || (*list)[i - 1] < (*list)[i], "they are in order, each once");
  }
  return 0;
}
