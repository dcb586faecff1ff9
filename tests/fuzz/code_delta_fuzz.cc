// A delta from a stranger over a package that the worker has: nothing is read beyond either, and no
// more is made than it may. The same bytes as a package fall into parts that are all of it.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "core/archive/code_delta.h"
#include "core/base/check.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace lambent;
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const std::string base(300, 'b');
  constexpr Bytes kMost = Bytes::kib(64);
  if (const auto made = archive::apply_code_delta(base, bytes, kMost); made.ok()) {
    CHECK(made->size() <= kMost.count, "no more bytes than the limit");
  }
  const auto parts = archive::code_parts_of(bytes);
  if (!parts.ok()) return 0;
  uint64_t whole = 0;
  for (const CodePart& part : *parts) {
    CHECK(part.size > Bytes(0), "a part has bytes");
    whole += part.size.count;
  }
  CHECK(whole == size, "the parts are the package");
  const auto delta = archive::make_code_delta(bytes, *parts);
  CHECK(delta.ok(), "a package that has parts can be told by them");
  const auto again = archive::apply_code_delta(bytes, *delta, Bytes(size));
  CHECK(again.ok(), "what was made can be applied");
  CHECK(*again == bytes, "and makes what it was made of");
  return 0;
}
