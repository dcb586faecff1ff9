#include "gpu/shim/accounting.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <new>

#include "gpu/shim/abi.h"
#include "gpu/shim/environment.h"
#include "gpu/shim/log.h"
#include "gpu/shim/memory_view.h"

namespace lambent::shim {
namespace {

// The smallest piece that the driver hands out.
constexpr uint64_t kGranularity = 512;

// Null before the first use and in a forked child.
Accounting* instance = nullptr;
pid_t process_without_ledger = 0;
bool fork_is_watched = false;

}  // namespace

// The parent's object is left behind as it is, mutex perhaps taken and all; only its hold on the
// parent's row goes, else the row would outlive the parent.
void start_afresh_in_child() {
  Accounting* parents = __atomic_exchange_n(&instance, nullptr, __ATOMIC_ACQ_REL);
  if (parents == nullptr) return;
  parents->ledger_.forget_after_fork();
  for (int i = 1; i < parents->devices_; ++i) parents->of(i).forget_after_fork();
}

Accounting::Accounting() : owner_(getpid()) {}

Accounting* Accounting::current() {
  const pid_t self = getpid();
  Accounting* known = __atomic_load_n(&instance, __ATOMIC_ACQUIRE);
  if (known != nullptr) {
    if (known->owner_ == self) return known;
    start_afresh_in_child();  // a child of a plain clone(), which runs no fork handlers
  }
  if (__atomic_load_n(&process_without_ledger, __ATOMIC_RELAXED) == self) return nullptr;
  const char* path = ledger_path();
  void* memory = path == nullptr ? nullptr : malloc(sizeof(Accounting));
  Accounting* made = memory == nullptr ? nullptr : new (memory) Accounting;
  if (made == nullptr || !made->attach(path)) {
    if (path != nullptr) log_line("cannot use the ledger %s: allocations are not counted", path);
    if (made != nullptr) made->~Accounting();
    free(memory);
    __atomic_store_n(&process_without_ledger, self, __ATOMIC_RELAXED);
    return nullptr;
  }
  Accounting* expected = nullptr;
  if (!__atomic_compare_exchange_n(&instance, &expected, made, false, __ATOMIC_ACQ_REL,
                                   __ATOMIC_ACQUIRE)) {
    made->~Accounting();  // another thread was faster
    free(memory);
    return expected;
  }
  if (!__atomic_exchange_n(&fork_is_watched, true, __ATOMIC_ACQ_REL)) {
    pthread_atfork(nullptr, nullptr, start_afresh_in_child);
  }
  return made;
}

// The ledgers of the others lie beside that of the first: "ledger.1" and so on.
bool Accounting::attach(const char* path) {
  if (!ledger_.attach(path)) return false;
  const int count = gpu_count() < kMostDevices ? gpu_count() : kMostDevices;
  for (int i = 1; i < count; ++i) {
    char beside[4096];
    const int length = snprintf(beside, sizeof beside, "%s.%d", path, i);
    if (length < 0 || length >= static_cast<int>(sizeof beside)) return false;
    if (!others_[i - 1].attach(beside)) return false;
    devices_ = i + 1;
  }
  return true;
}

uint64_t Accounting::charge_of(uint64_t bytes) const {
  const uint64_t limit = ledger_.limit_bytes();
  if (bytes > UINT64_MAX - kGranularity) return bytes;
  const uint64_t charge = (bytes + kGranularity - 1) / kGranularity * kGranularity;
  return bytes <= limit && charge > limit ? limit : charge;
}

void Accounting::record(Kind kind, uint64_t key, uint64_t charge, void* context, int device) {
  Entry entry;
  entry.key = key;
  entry.kind = kind;
  entry.bytes = charge;
  entry.context = context;
  entry.device = device;
  of(device).keep(charge);
  const PlainLock lock(mutex_);
  if (!table_.insert(entry)) of(device).release(charge);
}

void Accounting::pool_is_made(uint64_t pool, int device) {
  Entry entry;
  entry.key = pool;
  entry.kind = Kind::kPool;
  entry.device = device;
  const PlainLock lock(mutex_);
  (void)table_.insert(entry);
}

void Accounting::pool_is_gone(uint64_t pool) {
  const PlainLock lock(mutex_);
  table_.remove(Kind::kPool, pool);
}

int Accounting::device_of_pool(uint64_t pool) {
  const PlainLock lock(mutex_);
  const Entry* known = table_.find(Kind::kPool, pool);
  return known == nullptr ? -1 : known->device;
}

void Accounting::record_host(uint64_t address, uint64_t bytes, void* context) {
  Entry entry;
  entry.key = address;
  entry.kind = Kind::kHost;
  entry.bytes = bytes;
  entry.context = context;
  const PlainLock lock(mutex_);
  if (table_.insert(entry)) ledger_.add_pinned_host(bytes);
}

Entry Accounting::forget(Kind kind, uint64_t key) {
  const PlainLock lock(mutex_);
  return table_.remove(kind, key);
}

void Accounting::settle(const Entry& forgotten, bool freed) {
  if (forgotten.kind == Kind::kNone) return;
  if (!freed) {
    const PlainLock lock(mutex_);
    if (table_.insert(forgotten)) return;
  }
  give_back(forgotten);
}

void Accounting::give_back(const Entry& entry) {
  if (entry.kind == Kind::kHost) {
    ledger_.remove_pinned_host(entry.bytes);
  } else {
    of(entry.device).release(entry.bytes);
  }
}

uint64_t Accounting::next_pooled(void* context, uint64_t after) {
  uint64_t lowest = 0;
  const PlainLock lock(mutex_);
  table_.find_if([&](const Entry& entry) {
    const bool counts = entry.kind == Kind::kPooled && entry.context == context;
    if (counts && entry.key > after && (lowest == 0 || entry.key < lowest)) lowest = entry.key;
    return false;
  });
  return lowest;
}

void Accounting::context_is_gone(void* context, bool with_pools) {
  const PlainLock lock(mutex_);
  table_.remove_if(
      [=](const Entry& entry) {
        if (entry.kind == Kind::kPooled && !with_pools) return false;
        return entry.context == context && entry.kind <= Kind::kHost;
      },
      [this](const Entry& gone) { give_back(gone); });
  // Of two broken ones the other will say so again.
  ledger_.context_is_whole();
}

void Accounting::context_is_inherited(void* context, void* heir) {
  const PlainLock lock(mutex_);
  table_.find_if([=](Entry& entry) {
    if (entry.context == context) entry.context = heir;
    return false;
  });
}

void Accounting::narrow(uint64_t* free, uint64_t* total, int device) {
  ledger::LedgerWriter& ledger = of(device);
  ledger.reclaim_dead_rows();
  const MemoryView view =
      narrowed(MemoryView{*free, *total}, ledger.limit_bytes(), ledger.used_bytes());
  *free = view.free_bytes;
  *total = view.total_bytes;
}

}  // namespace lambent::shim
