// DeviceCache: who leaves the device's memory when room is needed. Pure bookkeeping; the executor's
// loop thread asks, and does what is decided.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "core/base/units.h"

namespace lambent::executor {

// Entries that were used once go before those that were used more often, each set the least
// recently used first. What a waiting request needs goes after all others. What is pinned stays.
class DeviceCache {
 public:
  using EntryNumber = uint64_t;

  // A new entry, unpinned and not yet used; the number is the caller's own.
  void add(EntryNumber entry, Bytes size);
  void remove(EntryNumber entry);

  // A use begins: counts it, makes the entry the most recently used, and pins it until unpin() was
  // called as often.
  void pin(EntryNumber entry);
  void unpin(EntryNumber entry);
  // A request that waits will use it; forgotten by as many unneed().
  void need(EntryNumber entry);
  void unneed(EntryNumber entry);

  // Those that have to go so that at least `size` is free, in the order in which they go; none if
  // even all that are not pinned are too few. Nothing changes.
  std::optional<std::vector<EntryNumber>> victims(Bytes size) const;

  Bytes total() const { return total_; }
  Bytes pinned() const { return pinned_; }

 private:
  struct Entry {
    Bytes size;
    uint64_t uses = 0;
    uint64_t last_use = 0;  // a number that grows with every use
    uint32_t pins = 0;
    uint32_t needs = 0;
  };
  // Smallest first to go: needed, used more than once, last use, number.
  using Rank = std::tuple<bool, bool, uint64_t, EntryNumber>;
  static Rank rank_of(EntryNumber number, const Entry& entry);
  Entry& entry_of(EntryNumber number);
  // Changes an entry and puts it where it then belongs.
  template <typename Change>
  void change(EntryNumber number, Change change);

  std::unordered_map<EntryNumber, Entry> entries_;
  std::set<Rank> unpinned_;
  Bytes total_, pinned_;
  uint64_t clock_ = 0;
};

}  // namespace lambent::executor
