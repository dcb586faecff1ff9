// A journal is foreign bytes to whoever replays it: whatever a segment, or one of its blocks behind
// a sound checksum, holds, reading it ends in a value or an error.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "decide/journal/event_codec.h"
#include "decide/journal/replay.h"

namespace {

using namespace lambent;

void read_segment(std::string_view bytes) {
  journal::ReplayTotals totals;
  bool given = false;
  const auto source = [&]() -> Result<std::unique_ptr<journal::BlockReader>> {
    if (std::exchange(given, true)) return std::unique_ptr<journal::BlockReader>();
    return std::make_unique<journal::BlockReader>(
        "f", [bytes, at = size_t{0}](char* buffer, size_t size) mutable -> Result<size_t> {
          const size_t got = std::min(size, bytes.size() - at);
          std::copy_n(bytes.data() + at, got, buffer);
          at += got;
          return got;
        });
  };
  (void)journal::replay(source, {}, totals).ok();
}

void read_batch(std::string_view bytes) {
  journal::BatchReader reader(bytes);
  journal::RecordedEvent event;
  bool ok = reader.open().ok();
  while (ok && !reader.done()) ok = reader.next(event).ok();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  read_segment(bytes);
  read_batch(bytes);
  (void)journal::decode_header(bytes).ok();
  journal::Names names;
  (void)journal::decode_names(bytes, names).ok();
  dispatch::DispatchOptions options;
  options.fleet.devices = {{.id = DeviceId{1}, .memory = Bytes::gib(16)}};
  dispatch::Dispatcher dispatcher(options,
                                  std::move(scheduling::make_policy("mqfq-sticky")).value());
  (void)dispatcher.restore(bytes);
  return 0;
}
