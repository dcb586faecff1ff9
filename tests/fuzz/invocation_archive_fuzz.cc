// Requests and results of asynchronous invocations in a shared PostgreSQL, whose rows another node
// or program may have written: any bytes are read or refused, and what was read is written and read
// again as the same. The first byte chooses between the two.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "core/base/check.h"
#include "node/catalog/invocation_archive.h"

using namespace lambent;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::string_view bytes(reinterpret_cast<const char*>(data + 1), size - 1);
  if ((data[0] & 1) != 0) {
    InvocationRequest request;
    if (!catalog::read_request(bytes, request).ok()) return 0;
    CHECK(catalog::bytes_of_request(request) == bytes, "a request is written as it was read");
    return 0;
  }
  const auto result = catalog::read_result(bytes);
  if (!result.ok()) return 0;
  // A code that this version does not know is kept as UNKNOWN.
  const std::string written = catalog::bytes_of_result(*result);
  const auto again = catalog::read_result(written);
  CHECK(again.ok(), "what was written is read");
  CHECK(catalog::bytes_of_result(*again) == written, "a result is written as it was read");
  return 0;
}
