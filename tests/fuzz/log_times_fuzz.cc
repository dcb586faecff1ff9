// Bytes as the times beside a log file: marks that rise and lie within the file, which are read
// again as they are written.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "core/base/check.h"
#include "node/worker/log_times.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace lambent;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  constexpr uint64_t kSize = 1000;
  const auto marks = worker::read_log_times(text, kSize);
  std::string again;
  uint64_t least = 0;
  for (const LogMark& mark : marks) {
    CHECK(mark.offset >= least, "marks rise");
    CHECK(mark.offset < kSize, "marks lie within the file");
    CHECK(mark.at >= Duration::zero(), "times are since 1970");
    least = mark.offset + 1;
    again += worker::log_time_line(mark.offset, mark.at);
  }
  CHECK(worker::read_log_times(again, kSize) == marks, "marks are read as they were written");
  return 0;
}
