// The executor reads a ring that a sandboxed process writes: whatever lies in it and whatever it
// says of how much that is, calls that come out are well formed, and reading ends.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <vector>

#include "gpu/forward_ring/ring.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace lambent::forward_ring;
  static const auto pages = std::make_unique<SharedPages>();
  static std::vector<char> content(kMostInlineBytes);
  uint64_t submitted = 0;
  std::memcpy(&submitted, data, size < sizeof(submitted) ? size : sizeof(submitted));
  const size_t begin = size < sizeof(submitted) ? size : sizeof(submitted);
  const size_t bytes = size - begin < kRingBytes ? size - begin : kRingBytes;
  std::memset(pages->ring, 0, sizeof(pages->ring));
  if (bytes > 0) std::memcpy(pages->ring, data + begin, bytes);
  pages->control.submitted = submitted;
  CallReader reader(pages.get());
  for (size_t count = 0;; ++count) {
    Call call;
    if (reader.next(call, content.data()) != CallReader::Next::kCall) break;
    if (!is_well_formed(call)) abort();
    if (call.bytes > kMostCallBytes) abort();
    if (count > kRingBytes / sizeof(Call)) abort();
  }
  return 0;
}
