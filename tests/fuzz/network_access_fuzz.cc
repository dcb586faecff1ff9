// Where a function may connect to, as its manifest, its tags and an operator write it. What is
// accepted is written and read again as it was.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "core/base/check.h"
#include "core/domain/network_access.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace lambent;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  if (const auto access = parse_network_access(text); access.ok()) {
    const auto again = parse_network_access(text_of(*access));
    CHECK(again.ok() && *again == *access, "what is written is read again");
    for (const char* bounds : {"none", "public", "10.0.0.0/8"}) {
      (void)check_within(*access, *parse_network_bounds(bounds));
    }
  }
  if (const auto bounds = parse_network_bounds(text); bounds.ok()) {
    const auto again = parse_network_bounds(text_of(*bounds));
    CHECK(again.ok() && *again == *bounds, "what is written is read again");
  }
  return 0;
}
