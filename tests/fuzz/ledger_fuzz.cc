// The worker reads ledgers that a tenant may have scribbled in: any bytes must decode to sane
// numbers.
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "gpu/ledger/ledger.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using lambent::Bytes;
  const Bytes limit = Bytes::mib(64);
  const auto readings =
      lambent::ledger::decode_ledger(std::as_bytes(std::span<const uint8_t>(data, size)), limit);
  if (readings.used > limit || readings.peak > limit || readings.peak < readings.used) abort();
  return 0;
}
