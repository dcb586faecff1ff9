// The part of Residency for working sets: what the program has named, what is offloaded, and how
// much of that may come onto the device.
#include "gpu/shim/accounting.h"
#include "gpu/shim/locked.h"
#include "gpu/shim/residency.h"

namespace lambent::shim {

using device_memory::Allocation;
using device_memory::Block;

bool Residency::touch(Address address) {
  Locked lock(mutex_);
  Block* block = allocations_.blocks().containing(address);
  if (block == nullptr) return false;
  working_set_.touch(block);
  return block->is_offloaded && working_set_.may_fetch();
}

bool Residency::note_access(Address address) {
  Locked lock(mutex_);
  Block* block = allocations_.blocks().containing(address);
  if (block == nullptr) return false;
  working_set_.touch(block);
  return block->is_offloaded;
}

bool Residency::may_retry() {
  Locked lock(mutex_);
  return working_set_.may_retry();
}

void Residency::give_up_retrying() {
  Locked lock(mutex_);
  working_set_.give_up();
}

bool Residency::can_have_offload() {
  Locked lock(mutex_);
  return working_set_.can_have_offload();
}

void Residency::a_fetch_is_wanted() {
  Locked lock(mutex_);
  working_set_.want_fetch();
}

void Residency::a_fetch_begins() {
  Locked lock(mutex_);
  working_set_.count_fetch();
}

void Residency::a_fetch_has_ended(bool is_done) {
  const uint64_t wanted = wanted_bytes();
  const bool is_full = wanted > 0 && wanted <= room_on_device();
  Locked lock(mutex_);
  if (!is_done || is_full) working_set_.refuse_fetches();
}

// Of every allocation its block and as how much it counts against the limit. The mutex is held.
template <typename Act>
void Residency::for_each_counted(Act act) {
  const Accounting* accounting = Accounting::current();
  for (const Allocation& allocation : allocations_.all()) {
    if (allocation.is_leaving) continue;
    Block* block = allocations_.blocks().containing(allocation.base);
    if (block == nullptr) continue;
    act(*block, accounting == nullptr ? allocation.bytes : accounting->charge_of(allocation.bytes));
  }
}

template <typename Counts>
uint64_t Residency::sum_of_blocks(Counts counts) {
  uint64_t sum = 0;
  Locked lock(mutex_);
  for_each_counted([&](const Block& block, uint64_t bytes) { sum += counts(block) ? bytes : 0; });
  return sum;
}

void Residency::note_counted_bytes() {
  Locked lock(mutex_);
  for (Block& block : allocations_.blocks()) block.counted_bytes = 0;
  for_each_counted([](Block& block, uint64_t bytes) { block.counted_bytes += bytes; });
}

uint64_t Residency::offloaded_bytes() {
  return sum_of_blocks([](const Block& block) { return block.is_offloaded; });
}

uint64_t Residency::wanted_bytes() {
  return sum_of_blocks(
      [this](const Block& block) { return block.is_offloaded && working_set_.holds(block); });
}

void Residency::spare(uint64_t bytes) {
  Locked lock(mutex_);
  spared_bytes_ = bytes;
}

void Residency::grant(uint64_t bytes) {
  Locked lock(mutex_);
  spared_bytes_ -= bytes < spared_bytes_ ? bytes : spared_bytes_;
}

uint64_t Residency::spared_bytes() {
  Locked lock(mutex_);
  return spared_bytes_;
}

Residency::Share Residency::share_of_device() {
  const Accounting* accounting = Accounting::current();
  const uint64_t limit = accounting == nullptr ? 0 : accounting->limit_bytes();
  if (limit == 0) return {};
  const uint64_t used = accounting->promised_bytes();
  const uint64_t offloaded = offloaded_bytes();
  const uint64_t spared = spared_bytes();
  return {.on_device = used > offloaded ? used - offloaded : 0,
          .most = limit > spared ? limit - spared : 0};
}

uint64_t Residency::room_on_device() {
  const Share share = share_of_device();
  return share.most > share.on_device ? share.most - share.on_device : 0;
}

uint64_t Residency::host_bytes() {
  Locked lock(mutex_);
  uint64_t sum = 0;
  for (const Block& block : allocations_.blocks()) {
    if (block.is_offloaded) sum += block.bytes;
  }
  return sum;
}

void Residency::note_reference(Address address) {
  Locked lock(mutex_);
  Block* block = allocations_.blocks().containing(address);
  if (block != nullptr) working_set_.note_reference(block);
}

void Residency::touch_anything() {
  Locked lock(mutex_);
  working_set_.touch_anything();
}

uint64_t Residency::changes_of_working_set() {
  Locked lock(mutex_);
  return working_set_.changes();
}

}  // namespace lambent::shim
