#include "gpu/shim/offload_budget.h"

#include "gpu/shim/accounting.h"

namespace lambent::shim {
namespace {

using device_memory::Allocation;
using device_memory::Block;

// Of every allocation its block and as how much it counts against the limit.
template <typename Act>
void for_each_counted(MemoryTable& table, Act act) {
  const Accounting* accounting = Accounting::current();
  for (const Allocation& allocation : table.allocations.all()) {
    if (allocation.is_leaving) continue;
    Block* block = table.blocks().containing(allocation.base);
    if (block == nullptr) continue;
    act(*block, accounting == nullptr ? allocation.bytes : accounting->charge_of(allocation.bytes));
  }
}

}  // namespace

void OffloadBudget::note_counted_bytes() {
  auto table = table_.hold();
  for (Block& block : table->blocks()) block.counted_bytes = 0;
  for_each_counted(*table, [](Block& block, uint64_t bytes) { block.counted_bytes += bytes; });
}

uint64_t OffloadBudget::offloaded_bytes() {
  uint64_t sum = 0;
  auto table = table_.hold();
  for_each_counted(*table, [&](const Block& block, uint64_t bytes) {
    if (block.is_offloaded) sum += bytes;
  });
  return sum;
}

uint64_t OffloadBudget::wanted_bytes() {
  uint64_t sum = 0;
  auto table = table_.hold();
  for_each_counted(*table, [&](const Block& block, uint64_t bytes) {
    if (block.is_offloaded && table->working_set.holds(block)) sum += bytes;
  });
  return sum;
}

uint64_t OffloadBudget::host_bytes() {
  uint64_t sum = 0;
  auto table = table_.hold();
  for (const Block& block : table->blocks()) {
    if (block.is_offloaded) sum += block.bytes;
  }
  return sum;
}

void OffloadBudget::spare(uint64_t bytes) {
  auto table = table_.hold();
  spared_bytes_ = bytes;
}

void OffloadBudget::grant(uint64_t bytes) {
  auto table = table_.hold();
  spared_bytes_ -= bytes < spared_bytes_ ? bytes : spared_bytes_;
}

uint64_t OffloadBudget::spared_bytes() {
  auto table = table_.hold();
  return spared_bytes_;
}

OffloadBudget::Share OffloadBudget::share_of_device() {
  const Accounting* accounting = Accounting::current();
  const uint64_t limit = accounting == nullptr ? 0 : accounting->limit_bytes();
  if (limit == 0) return {};
  const uint64_t used = accounting->promised_bytes();
  const uint64_t offloaded = offloaded_bytes();
  const uint64_t spared = spared_bytes();
  return {.on_device = used > offloaded ? used - offloaded : 0,
          .most = limit > spared ? limit - spared : 0};
}

uint64_t OffloadBudget::room_on_device() {
  const Share share = share_of_device();
  return share.most > share.on_device ? share.most - share.on_device : 0;
}

bool OffloadBudget::is_exceeded() {
  if (spared_bytes() == 0) return false;
  const Share share = share_of_device();
  return share.on_device > share.most;
}

bool OffloadBudget::can_fetch_wanted() {
  const uint64_t wanted = wanted_bytes();
  return wanted > 0 && wanted <= room_on_device();
}

}  // namespace lambent::shim
