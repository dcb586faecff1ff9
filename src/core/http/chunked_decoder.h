// ChunkedDecoder: takes the chunked transfer coding off a body (RFC 9112, 7.1), strictly: one way
// to read each byte, however the bytes are cut. Pure; used by the parsers of requests and
// responses.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace lambent::http {

class ChunkedDecoder {
 public:
  enum class Status { kMore, kDone, kMalformed, kTooLarge };

  ChunkedDecoder() = default;
  // kTooLarge as soon as a chunk is announced that would take the body above `max_body`; of
  // trailers there are at most `max_trailers` bytes.
  ChunkedDecoder(size_t max_body, size_t max_trailers)
      : body_left_(max_body), trailers_left_(max_trailers) {}

  // Consumes from the front of `data`, up to the end of the body, which it appends to `body`.
  Status feed(std::string_view& data, std::string& body);
  // The lines behind the body, each ended by a line feed, as they came.
  const std::string& trailers() const { return trailers_; }

 private:
  enum class State { kSize, kExtension, kSizeEnd, kData, kDataEnd, kDataLineFeed, kTrailers };

  Status feed_byte(unsigned char byte);
  Status size_known();
  Status feed_trailer(unsigned char byte);

  State state_ = State::kSize;
  uint64_t size_ = 0;
  unsigned digits_ = 0;
  size_t extension_ = 0;
  bool line_is_empty_ = true;
  bool after_return_ = false;
  size_t body_left_ = 0;
  size_t trailers_left_ = 0;
  std::string trailers_;
};

}  // namespace lambent::http
