// What a server says of a file that is fetched: the heads of its answers as curl writes them, and
// after an empty line the body of a refusal.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "core/base/check.h"
#include "edge/cli/curl.h"
#include "edge/cli/file_fetch.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace lambent;
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const size_t end = bytes.find("\n\n");
  const cli::CurlHead head = cli::last_head(bytes.substr(0, end));
  const cli::ServedFile file = cli::served_file(head);
  CHECK(file.tag.empty() || file.tag == head.headers.get("ETag") ||
            file.tag == head.headers.get("Last-Modified"),
        "a file is told by what the server says");
  CHECK(file.tag != head.headers.get("ETag") || !file.tag.starts_with("W/") ||
            file.tag == head.headers.get("Last-Modified"),
        "a weak tag tells nothing of bytes");
  if (cli::first_byte(head)) {
    CHECK(head.headers.get("Content-Range").starts_with("bytes "), "a part says where it begins");
  }
  const std::string_view body = end == std::string_view::npos ? "" : bytes.substr(end + 2);
  const Error error = cli::error_of_status(head.status, body);
  CHECK(error.message.size() < 300, "a message keeps to its length");
  for (const char c : error.message) {
    CHECK(static_cast<unsigned char>(c) >= 0x20 && c != 0x7f, "nothing in it moves a cursor");
  }
  return 0;
}
