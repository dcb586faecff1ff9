#include "core/http/chunked_decoder.h"

namespace lambent::http {
namespace {

constexpr unsigned kMostDigits = 15;
constexpr size_t kLongestExtension = 256;

int hex_digit(unsigned char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

bool is_control(unsigned char c) { return (c < ' ' && c != '\t') || c == 0x7f; }

}  // namespace

ChunkedDecoder::Status ChunkedDecoder::feed(std::string_view& data, std::string& body) {
  while (!data.empty()) {
    if (state_ == State::kData) {
      const std::string_view taken = data.substr(0, size_);
      body += taken;
      data.remove_prefix(taken.size());
      size_ -= taken.size();
      if (size_ == 0) state_ = State::kDataEnd;
      continue;
    }
    const auto byte = static_cast<unsigned char>(data.front());
    data.remove_prefix(1);
    const Status status = feed_byte(byte);
    if (status != Status::kMore) return status;
  }
  return Status::kMore;
}

ChunkedDecoder::Status ChunkedDecoder::feed_byte(unsigned char byte) {
  switch (state_) {
    case State::kSize:
      if (const int digit = hex_digit(byte); digit >= 0) {
        if (++digits_ > kMostDigits) return Status::kMalformed;
        size_ = size_ << 4 | static_cast<uint64_t>(digit);
        return Status::kMore;
      }
      if (digits_ == 0) return Status::kMalformed;
      if (byte == '\r') {
        state_ = State::kSizeEnd;
      } else if (byte == ';') {
        state_ = State::kExtension;
        extension_ = 0;
      } else {
        return Status::kMalformed;
      }
      return Status::kMore;
    case State::kExtension:
      if (byte == '\r') {
        state_ = State::kSizeEnd;
      } else if (is_control(byte) || ++extension_ > kLongestExtension) {
        return Status::kMalformed;
      }
      return Status::kMore;
    case State::kSizeEnd:
      return byte == '\n' ? size_known() : Status::kMalformed;
    case State::kDataEnd:
      state_ = State::kDataLineFeed;
      return byte == '\r' ? Status::kMore : Status::kMalformed;
    case State::kDataLineFeed:
      state_ = State::kSize;
      digits_ = 0;
      return byte == '\n' ? Status::kMore : Status::kMalformed;
    case State::kTrailers:
      return feed_trailer(byte);
    case State::kData:
      break;
  }
  return Status::kMalformed;
}

ChunkedDecoder::Status ChunkedDecoder::size_known() {
  if (size_ > body_left_) return Status::kTooLarge;
  body_left_ -= size_;
  state_ = size_ == 0 ? State::kTrailers : State::kData;
  return Status::kMore;
}

ChunkedDecoder::Status ChunkedDecoder::feed_trailer(unsigned char byte) {
  if (after_return_) {
    if (byte != '\n') return Status::kMalformed;
    if (line_is_empty_) return Status::kDone;
    trailers_ += '\n';
    after_return_ = false;
    line_is_empty_ = true;
  } else if (byte == '\r') {
    after_return_ = true;
  } else if (is_control(byte) || trailers_left_ == 0) {
    return Status::kMalformed;
  } else {
    trailers_left_--;
    trailers_ += static_cast<char>(byte);
    line_is_empty_ = false;
  }
  return Status::kMore;
}

}  // namespace lambent::http
