// The part of Accounting that counts memory which no call names an amount of: the driver took it,
// and only then is it known how much.
#include "gpu/shim/accounting.h"
#include "gpu/shim/log.h"

namespace lambent::shim {

void Accounting::grow(Kind kind, uint64_t key, uint64_t bytes, int device) {
  const uint64_t counted = of(device).reserve_what_fits(bytes);
  if (counted < bytes) {
    log_line("%llu bytes of graphs go beyond the limit and are not counted",
             static_cast<unsigned long long>(bytes - counted));
  }
  if (Entry* known = table_.find(kind, key); known != nullptr) {
    known->bytes += counted;
    return;
  }
  Entry entry;
  entry.kind = kind;
  entry.key = key;
  entry.bytes = counted;
  entry.device = device;
  if (!table_.insert(entry)) of(device).release(counted);
}

void Accounting::graph_memory_is(int device, uint64_t bytes) {
  const uint64_t key = static_cast<uint64_t>(device) + 1;
  const PlainLock lock(mutex_);
  Entry* known = table_.find(Kind::kGraph, key);
  const uint64_t before = known == nullptr ? 0 : known->bytes;
  if (bytes > before) grow(Kind::kGraph, key, bytes - before, device);
  if (bytes >= before) return;
  of(device).release(before - bytes);
  known->bytes = bytes;
}

}  // namespace lambent::shim
