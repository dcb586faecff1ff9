#include "edge/inference/compression.h"

#include <zlib.h>

#include <algorithm>
#include <limits>
#include <utility>

namespace lambent::inference {
namespace {

// Largest window; 16 more writes gzip's frame, 32 more reads either.
constexpr int kZlibWindow = 15;
constexpr int kGzipWindow = kZlibWindow + 16;
constexpr int kAnyWindow = kZlibWindow + 32;
constexpr size_t kPiece = size_t{256} << 10;

bool is_gzip(std::string_view coding) {
  return http::same_name(coding, "gzip") || http::same_name(coding, "x-gzip");
}
bool is_deflate(std::string_view coding) { return http::same_name(coding, "deflate"); }

class Inflater {
 public:
  Inflater() { is_open_ = inflateInit2(&stream_, kAnyWindow) == Z_OK; }
  ~Inflater() {
    if (is_open_) inflateEnd(&stream_);
  }
  Inflater(const Inflater&) = delete;
  Inflater& operator=(const Inflater&) = delete;

  bool is_open() const { return is_open_; }
  z_stream& stream() { return stream_; }

 private:
  z_stream stream_{};
  bool is_open_ = false;
};

// `has_room` is asked before each piece is kept.
template <class HasRoom>
Result<std::string> inflated(std::string_view body, std::string_view coding, Bytes most,
                             const HasRoom& has_room) {
  if (http::same_name(coding, "identity")) return std::string(body);
  if (!is_gzip(coding) && !is_deflate(coding)) {
    return Error{ErrorCode::kInvalidArgument, "Content-Encoding is '" +
                                                  std::string(coding.substr(0, 40)) +
                                                  "'; it can be gzip or deflate"};
  }
  const Error broken{ErrorCode::kInvalidArgument,
                     "the body is not compressed as Content-Encoding says"};
  if (body.size() > std::numeric_limits<uInt>::max()) return broken;
  Inflater inflater;
  if (!inflater.is_open()) return Error{ErrorCode::kResourceExhausted, "no memory for zlib"};
  z_stream& stream = inflater.stream();
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(body.data()));
  stream.avail_in = static_cast<uInt>(body.size());
  std::string plain;
  for (;;) {
    const size_t had = plain.size();
    plain.resize(had + kPiece);
    stream.next_out = reinterpret_cast<Bytef*>(plain.data() + had);
    stream.avail_out = static_cast<uInt>(kPiece);
    const int status = inflate(&stream, Z_NO_FLUSH);
    plain.resize(had + kPiece - stream.avail_out);
    if (Bytes(plain.size()) > most) {
      return Error{ErrorCode::kOutOfRange,
                   "the body is more than " + to_string(most) + " once it is decompressed"};
    }
    if (!has_room(plain.size() - had)) {
      return Error{ErrorCode::kResourceExhausted,
                   "the bodies of requests under way take too much once they are decompressed; try "
                   "again later"};
    }
    if (status == Z_STREAM_END) {
      if (stream.avail_in > 0) return broken;
      return plain;
    }
    if (status != Z_OK || (stream.avail_in == 0 && stream.avail_out > 0)) return broken;
  }
}

}  // namespace

DecompressedBodies::Part& DecompressedBodies::Part::operator=(Part&& other) noexcept {
  if (this == &other) return *this;
  release();
  all_ = std::move(other.all_);
  bytes_ = std::exchange(other.bytes_, 0);
  return *this;
}

void DecompressedBodies::Part::release() {
  if (all_ != nullptr) *all_ -= std::exchange(bytes_, 0);
}

bool DecompressedBodies::add(Part& part, uint64_t bytes) const {
  uint64_t held = held_->load();
  do {
    if (bytes > most_.count - held) return false;
  } while (!held_->compare_exchange_weak(held, held + bytes));
  part.all_ = held_;
  part.bytes_ += bytes;
  return true;
}

Result<std::string> decompress(std::string_view body, std::string_view coding, Bytes most) {
  return inflated(body, coding, most, [](uint64_t) { return true; });
}

Result<std::string> decompress(std::string_view body, std::string_view coding, Bytes most,
                               const DecompressedBodies& bodies, DecompressedBodies::Part& part) {
  return inflated(body, coding, most, [&](uint64_t bytes) { return bodies.add(part, bytes); });
}

void compress(http::Response& response, std::string_view accepted) {
  const bool gzip = is_gzip(accepted);
  if (!gzip && !is_deflate(accepted)) return;
  z_stream stream{};
  if (deflateInit2(&stream, Z_BEST_SPEED, Z_DEFLATED, gzip ? kGzipWindow : kZlibWindow, 8,
                   Z_DEFAULT_STRATEGY) != Z_OK) {
    return;
  }
  std::string packed(deflateBound(&stream, response.body.size()), '\0');
  stream.next_in = reinterpret_cast<Bytef*>(response.body.data());
  stream.avail_in = static_cast<uInt>(response.body.size());
  stream.next_out = reinterpret_cast<Bytef*>(packed.data());
  stream.avail_out = static_cast<uInt>(packed.size());
  const bool is_whole = response.body.size() <= std::numeric_limits<uInt>::max() &&
                        packed.size() <= std::numeric_limits<uInt>::max() &&
                        deflate(&stream, Z_FINISH) == Z_STREAM_END;
  packed.resize(stream.total_out);
  deflateEnd(&stream);
  if (!is_whole) return;
  response.body = std::move(packed);
  response.headers.add("Content-Encoding", std::string(accepted));
}

}  // namespace lambent::inference
