// Traces, catalogues and result files are foreign bytes: whatever they hold, reading them ends in
// a value or an error.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "workload/catalogue.h"
#include "workload/result_file.h"
#include "workload/trace_reader.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace lambent::workload;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto as_functions = lines_of(text);
  if (auto trace = read_trace(lines_of(text), as_functions.get(), "t.csv", {}); trace.ok()) {
    // Counts may promise billions of arrivals; some are enough.
    for (int i = 0; i < 1000 && trace->arrivals->next(); ++i) {
    }
  }
  (void)read_catalogue(*lines_of(text), "c.csv").ok();
  if (const auto run = read_run(*lines_of(text), "r.jsonl"); run.ok()) (void)summarise(*run);
  return 0;
}
