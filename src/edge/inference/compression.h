// Bodies that are compressed with gzip or deflate (zlib), both ways, and how much those take that
// were decompressed. Any thread.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <string_view>

#include "core/base/result.h"
#include "core/base/units.h"
#include "core/http/message.h"

namespace lambent::inference {

// What the decompressed bodies of all requests may take together. A few bytes become many, so that
// no bound on what arrives is one on what is held.
class DecompressedBodies {
 public:
  // `most` of one is as much as all may take. Shared: requests may outlive the rest.
  explicit DecompressedBodies(Bytes most)
      : most_(most), held_(std::make_shared<std::atomic<uint64_t>>(0)) {}

  // The part of one request, until it goes.
  class Part {
   public:
    Part() = default;
    Part(Part&& other) noexcept { *this = std::move(other); }
    Part& operator=(Part&& other) noexcept;
    ~Part() { release(); }

   private:
    friend class DecompressedBodies;
    void release();
    std::shared_ptr<std::atomic<uint64_t>> all_;
    uint64_t bytes_ = 0;
  };

  Bytes most() const { return most_; }
  // False: others leave no room for so many bytes more.
  bool add(Part& part, uint64_t bytes) const;

 private:
  Bytes most_;
  std::shared_ptr<std::atomic<uint64_t>> held_;
};

// `coding`: the value of Content-Encoding. INVALID_ARGUMENT if it is another coding or the bytes
// are broken; OUT_OF_RANGE if more than `most` comes out. With `bodies`, what comes out becomes a
// `part` of them; RESOURCE_EXHAUSTED: they have no room for it now.
Result<std::string> decompress(std::string_view body, std::string_view coding, Bytes most);
Result<std::string> decompress(std::string_view body, std::string_view coding, Bytes most,
                               const DecompressedBodies& bodies, DecompressedBodies::Part& part);

// Compresses the response's body where `accepted`, the request's Accept-Encoding, is one coding and
// no list: a client that lists several, as most do unasked, would wait longer for the same bytes.
void compress(http::Response& response, std::string_view accepted);

}  // namespace lambent::inference
