// What another version of the worker wrote down of the sandboxes that it kept: whatever comes, it
// is read or refused, and what was read is written in the same way.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "core/crypto/crypto.h"
#include "node/worker/kept_record.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace lambent;
  const std::string bytes(reinterpret_cast<const char*>(data), size);
  (void)worker::decode_kept(bytes, 16);
  // Its digest would keep all changes out.
  const std::string empty = worker::encode_kept({});
  const size_t head =
      empty.size() - sizeof(crypto::Digest) - 3;  // without two empty lists and a node
  std::string body = empty.substr(0, head) + bytes;
  body += crypto::bytes_of(crypto::sha256(body));
  const auto record = worker::decode_kept(body, 16);
  if (!record.ok()) return 0;
  const std::string again = worker::encode_kept(*record);
  const auto read = worker::decode_kept(again, 16);
  if (!read.ok() || !(*read == *record)) abort();
  return 0;
}
