// NumberMap: values by number, for ids: one array, no allocation per entry.
// A value; used by the simulator, which looks several of them up for every invocation.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "core/base/check.h"

namespace lambent::simulator {

// Open addressing with linear probing, at most half full. Zero is no key. A reference to a value
// lasts until the next add or erase.
template <typename Value>
class NumberMap {
 public:
  size_t size() const { return used_; }
  bool empty() const { return used_ == 0; }

  Value* find(uint64_t key) {
    if (entries_.empty()) return nullptr;
    Entry& entry = entries_[place_of(key)];
    return entry.key == key ? &entry.value : nullptr;
  }
  const Value* find(uint64_t key) const { return const_cast<NumberMap*>(this)->find(key); }

  // The key must not be there yet.
  Value& add(uint64_t key, Value value) {
    CHECK(key != 0, "zero is no key");
    if ((used_ + 1) * 2 > entries_.size()) grow();
    Entry& entry = entries_[place_of(key)];
    CHECK(entry.key == 0, "the key is there already");
    entry = {key, std::move(value)};
    ++used_;
    return entry.value;
  }

  // Whether it was there.
  bool erase(uint64_t key) {
    if (entries_.empty()) return false;
    const size_t mask = entries_.size() - 1;
    size_t hole = place_of(key);
    if (entries_[hole].key != key) return false;
    // Close the gap: an entry after it moves in unless that would put it before its home.
    for (size_t next = (hole + 1) & mask; entries_[next].key != 0; next = (next + 1) & mask) {
      const size_t home = home_of(entries_[next].key);
      if (((next - home) & mask) >= ((next - hole) & mask)) {
        entries_[hole] = std::move(entries_[next]);
        hole = next;
      }
    }
    entries_[hole] = {};
    --used_;
    return true;
  }

 private:
  struct Entry {
    uint64_t key = 0;
    Value value{};
  };

  // Ids are given in order, and those that are asked for together mostly were given together: they
  // share lines of the cache. Not side by side, or closing a gap would walk past them all.
  size_t home_of(uint64_t key) const {
    return static_cast<size_t>(key * kStride) & (entries_.size() - 1);
  }
  static constexpr uint64_t kStride = 3;  // odd, so that every place is some key's

  // Where the key is, or else the empty place where it would go.
  size_t place_of(uint64_t key) const {
    size_t place = home_of(key);
    while (entries_[place].key != key && entries_[place].key != 0) {
      place = (place + 1) & (entries_.size() - 1);
    }
    return place;
  }

  void grow() {
    std::vector<Entry> old = std::move(entries_);
    entries_ = std::vector<Entry>(old.empty() ? 16 : old.size() * 2);
    for (Entry& entry : old) {
      if (entry.key != 0) entries_[place_of(entry.key)] = std::move(entry);
    }
  }

  std::vector<Entry> entries_;
  size_t used_ = 0;
};

}  // namespace lambent::simulator
