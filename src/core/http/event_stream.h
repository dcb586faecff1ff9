// Event streams of AWS (application/vnd.amazon.eventstream), in which a streamed answer comes: each
// frame has headers of text and a payload, and two checksums. Pure; used by the frontend and the
// command.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/result.h"

namespace lambent::http {

constexpr std::string_view kEventStreamType = "application/vnd.amazon.eventstream";
// What a payload may have, here: more is cut into several frames by who sends it.
constexpr size_t kMostEventPayload = 16 * 1024 * 1024;

struct EventFrame {
  std::vector<std::pair<std::string, std::string>> headers;  // ":event-type", "PayloadChunk"
  std::string payload;

  std::string_view header(std::string_view name) const;
  bool operator==(const EventFrame&) const = default;
};

// The payload has at most kMostEventPayload bytes, the headers together at most 64 KiB.
std::string encode_frame(const EventFrame& frame);

// Cuts a stream into frames again.
class EventStreamDecoder {
 public:
  void feed(std::string_view bytes) { pending_ += bytes; }
  // The next frame; nothing if it is not whole yet. DATA_LOSS if a checksum is wrong, and
  // INVALID_ARGUMENT if a frame has no such form or is too large: nothing more comes then.
  Result<std::optional<EventFrame>> next();
  // Whether part of a frame is left.
  bool has_rest() const { return !pending_.empty(); }

 private:
  std::string pending_;
};

}  // namespace lambent::http
