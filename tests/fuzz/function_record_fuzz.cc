// The text of a function: what was read is written and read the same.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "core/base/check.h"
#include "core/domain/function_record.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace lambent;
  const auto spec = function_from_record({reinterpret_cast<const char*>(data), size});
  if (!spec.ok()) return 0;
  const auto again = function_from_record(to_record(*spec));
  CHECK(again.ok(), "what was written is read");
  CHECK(to_record(*again) == to_record(*spec), "and says the same");
  return 0;
}
