// Which pages may call a function, as manifests and tags write it. What is accepted is written and
// read again as it was.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "core/base/check.h"
#include "core/domain/cors.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace lambent;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  if (const auto cors = parse_cors(text); cors.ok()) {
    const auto again = parse_cors(text_of(*cors));
    CHECK(again.ok() && *again == *cors, "what is written is read again");
  }
  return 0;
}
