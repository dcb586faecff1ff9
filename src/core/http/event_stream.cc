#include "core/http/event_stream.h"

#include <zlib.h>

#include <cstdint>

namespace lambent::http {
namespace {

constexpr size_t kPrelude = 12;  // total size, size of the headers, checksum of these two
constexpr size_t kChecksum = 4;
constexpr size_t kMostHeaders = 64 * 1024;
constexpr char kText = 7;  // the type of a header's value

uint32_t checksum_of(std::string_view bytes) {
  const auto* data = reinterpret_cast<const Bytef*>(bytes.data());
  return static_cast<uint32_t>(crc32_z(crc32_z(0, nullptr, 0), data, bytes.size()));
}

void put(std::string& to, uint32_t value) {
  for (const int shift : {24, 16, 8, 0}) to += static_cast<char>(value >> shift & 0xff);
}

uint32_t take_number(std::string_view bytes, size_t size) {
  uint32_t value = 0;
  for (size_t i = 0; i < size; ++i) value = value << 8 | static_cast<unsigned char>(bytes[i]);
  return value;
}

Error bad_frame(std::string_view what) {
  return {ErrorCode::kInvalidArgument, "the event stream has " + std::string(what)};
}

// Of all types of values, those of our frames are text.
Result<void> read_headers(std::string_view bytes, EventFrame& frame) {
  const auto cut = [&bytes](size_t size) {
    const std::string_view taken = bytes.substr(0, size);
    bytes.remove_prefix(taken.size());
    return taken;
  };
  while (!bytes.empty()) {
    const size_t name_size = take_number(cut(1), 1);
    if (bytes.size() < name_size + 3) return bad_frame("a header that is cut off");
    const std::string_view name = cut(name_size);
    if (cut(1).front() != kText) return bad_frame("a header that is no text");
    const size_t value_size = take_number(cut(2), 2);
    if (bytes.size() < value_size) return bad_frame("a header that is cut off");
    frame.headers.emplace_back(name, cut(value_size));
  }
  return {};
}

}  // namespace

std::string_view EventFrame::header(std::string_view name) const {
  for (const auto& [each, value] : headers) {
    if (each == name) return value;
  }
  return {};
}

std::string encode_frame(const EventFrame& frame) {
  std::string headers;
  for (const auto& [name, value] : frame.headers) {
    headers += static_cast<char>(name.size());
    headers += name;
    headers += kText;
    headers += static_cast<char>(value.size() >> 8);
    headers += static_cast<char>(value.size() & 0xff);
    headers += value;
  }
  const size_t total = kPrelude + headers.size() + frame.payload.size() + kChecksum;
  std::string text;
  text.reserve(total);
  put(text, static_cast<uint32_t>(total));
  put(text, static_cast<uint32_t>(headers.size()));
  put(text, checksum_of(text));
  text += headers;
  text += frame.payload;
  put(text, checksum_of(text));
  return text;
}

Result<std::optional<EventFrame>> EventStreamDecoder::next() {
  if (pending_.size() < kPrelude) return std::optional<EventFrame>();
  const std::string_view bytes = pending_;
  if (take_number(bytes.substr(8), 4) != checksum_of(bytes.substr(0, 8))) {
    return Error{ErrorCode::kDataLoss, "a frame of the event stream begins with a wrong checksum"};
  }
  const size_t total = take_number(bytes, 4);
  const size_t headers = take_number(bytes.substr(4), 4);
  if (headers > kMostHeaders || total < kPrelude + headers + kChecksum ||
      total > kPrelude + headers + kMostEventPayload + kChecksum) {
    return bad_frame("a frame of a size that it cannot have");
  }
  if (bytes.size() < total) return std::optional<EventFrame>();
  const std::string_view checked = bytes.substr(0, total - kChecksum);
  if (take_number(bytes.substr(checked.size()), 4) != checksum_of(checked)) {
    return Error{ErrorCode::kDataLoss, "a frame of the event stream has a wrong checksum"};
  }
  EventFrame frame;
  RETURN_IF_ERROR(read_headers(checked.substr(kPrelude, headers), frame));
  frame.payload = checked.substr(kPrelude + headers);
  pending_.erase(0, total);
  return std::optional<EventFrame>(std::move(frame));
}

}  // namespace lambent::http
