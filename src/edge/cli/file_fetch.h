// FileFetch: one file of a server, in pieces that go on. What came stays in WORK.part, with what
// the server said of it in WORK.state. A resource; used by model_fetch, on its thread.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "core/base/fd.h"
#include "core/base/result.h"
#include "core/base/units.h"
#include "edge/cli/console.h"
#include "edge/cli/curl_hops.h"
#include "edge/cli/volume_upload.h"

namespace lambent::cli {

// So often what a server, or the way to it, did not give whole is asked for.
constexpr int kFetchTries = 4;

// What a server says of a file, by which one knows whether it is the same.
struct ServedFile {
  std::string tag;            // a strong ETag, or a date; empty: it says neither
  std::optional<Bytes> size;  // of the whole file

  bool operator==(const ServedFile&) const = default;
};
// Of an answer with a body. Foreign. Pure.
ServedFile served_file(const CurlHead& head);
// Where the body of a 206 begins; nothing: it does not say. Pure.
std::optional<Bytes> first_byte(const CurlHead& head);
// The digest of the whole file that a store of S3 tells; empty: none. Foreign. Pure.
std::string told_sha256(const CurlHead& head);
// What a status above 299 means; `body` is what came with it. Pure.
Error error_of_status(int status, std::string_view body);

class FileFetch {
 public:
  // Into `local`, which is there only once it is whole; `work`, on the same disk, is what it is
  // made from.
  FileFetch(Console& console, CurlRequest request, std::string local, std::string work, Bytes most)
      : console_(console),
        request_(std::move(request)),
        local_(std::move(local)),
        work_(std::move(work)),
        most_(most) {}

  // `sha256`: empty: whatever it is.
  Result<void> run(const std::string& sha256);

 private:
  Result<void> open();
  Result<void> begin_again();
  Result<void> try_once();
  Result<void> take(const CurlHead& head, std::string_view piece);
  Result<void> begin_body(const CurlHead& head);
  Result<void> check_size(Bytes size) const;
  Result<void> finish(const std::string& sha256);
  void read_state();
  Result<void> write_state() const;
  std::string part() const { return work_ + ".part"; }
  std::string state() const { return work_ + ".state"; }

  Console& console_;
  const CurlRequest request_;
  const std::string local_;
  const std::string work_;
  const Bytes most_;
  OwnedFd file_;
  Bytes size_;          // of the part
  Bytes furthest_;      // the most that it had
  ServedFile served_;   // as it was when that came
  std::string sha256_;  // that the server says it has; empty: it says none
  // Of the transfer that goes on.
  bool has_begun_ = false;
  std::string refusal_;  // the body of an answer that is none
  std::unique_ptr<TransferProgress> progress_;
};

}  // namespace lambent::cli
