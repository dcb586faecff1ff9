// Bytes as an event stream: frames that are read are written as they were.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "core/base/check.h"
#include "core/http/event_stream.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace lambent;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  http::EventStreamDecoder decoder;
  decoder.feed(text);
  size_t read = 0;
  for (;;) {
    const auto frame = decoder.next();
    if (!frame.ok() || !*frame) break;
    const std::string again = http::encode_frame(**frame);
    CHECK(text.substr(read, again.size()) == again, "a frame is written as it was read");
    read += again.size();
  }
  return 0;
}
