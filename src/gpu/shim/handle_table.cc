#include "gpu/shim/handle_table.h"

#include <stdlib.h>

namespace lambent::shim {
namespace {

constexpr size_t kFirstCapacity = 256;

size_t hash_of(Kind kind, uint64_t key) {
  uint64_t hash = (key ^ (static_cast<uint64_t>(kind) << 56)) * 0x9e3779b97f4a7c15ULL;
  return static_cast<size_t>(hash ^ (hash >> 32));
}

}  // namespace

HandleTable::~HandleTable() { free(entries_); }

// The slot of the entry, or the empty one where it would be put.
size_t HandleTable::place_of(Kind kind, uint64_t key) const {
  size_t slot = hash_of(kind, key) & (capacity_ - 1);
  while (entries_[slot].kind != Kind::kNone &&
         (entries_[slot].kind != kind || entries_[slot].key != key)) {
    slot = (slot + 1) & (capacity_ - 1);
  }
  return slot;
}

bool HandleTable::grow() {
  const size_t capacity = capacity_ == 0 ? kFirstCapacity : capacity_ * 2;
  Entry* entries = static_cast<Entry*>(calloc(capacity, sizeof(Entry)));
  if (entries == nullptr) return false;
  Entry* old_entries = entries_;
  const size_t old_capacity = capacity_;
  entries_ = entries;
  capacity_ = capacity;
  for (size_t slot = 0; slot < old_capacity; ++slot) {
    const Entry& entry = old_entries[slot];
    if (entry.kind != Kind::kNone) entries_[place_of(entry.kind, entry.key)] = entry;
  }
  free(old_entries);
  return true;
}

bool HandleTable::insert(const Entry& entry) {
  // A quarter stays empty, so that a search always ends soon.
  if (size_ + size_ / 3 + 1 >= capacity_ && !grow()) return false;
  const size_t slot = place_of(entry.kind, entry.key);
  if (entries_[slot].kind == Kind::kNone) ++size_;
  entries_[slot] = entry;
  return true;
}

Entry* HandleTable::find(Kind kind, uint64_t key) {
  if (capacity_ == 0) return nullptr;
  Entry& entry = entries_[place_of(kind, key)];
  return entry.kind == Kind::kNone ? nullptr : &entry;
}

// Entries behind the hole move up into it where their own place allows, so that no marks of removed
// entries are needed.
Entry HandleTable::remove(Kind kind, uint64_t key) {
  if (capacity_ == 0) return Entry{};
  size_t hole = place_of(kind, key);
  const Entry removed = entries_[hole];
  if (removed.kind == Kind::kNone) return removed;
  --size_;
  const size_t mask = capacity_ - 1;
  for (size_t next = (hole + 1) & mask; entries_[next].kind != Kind::kNone;
       next = (next + 1) & mask) {
    const size_t home = hash_of(entries_[next].kind, entries_[next].key) & mask;
    if (((next - home) & mask) >= ((next - hole) & mask)) {
      entries_[hole] = entries_[next];
      hole = next;
    }
  }
  entries_[hole] = Entry{};
  return removed;
}

}  // namespace lambent::shim
