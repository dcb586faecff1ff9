#include "gpu/executor/device_cache.h"

#include "core/base/check.h"

namespace lambent::executor {

DeviceCache::Rank DeviceCache::rank_of(EntryNumber number, const Entry& entry) {
  return {entry.needs > 0, entry.uses > 1, entry.last_use, number};
}

DeviceCache::Entry& DeviceCache::entry_of(EntryNumber number) {
  const auto found = entries_.find(number);
  CHECK(found != entries_.end(), "an entry of the device cache");
  return found->second;
}

template <typename Change>
void DeviceCache::change(EntryNumber number, Change change) {
  Entry& entry = entry_of(number);
  if (entry.pins == 0) unpinned_.erase(rank_of(number, entry));
  if (entry.pins > 0) pinned_ -= entry.size;
  change(entry);
  if (entry.pins == 0) unpinned_.insert(rank_of(number, entry));
  if (entry.pins > 0) pinned_ += entry.size;
}

void DeviceCache::add(EntryNumber number, Bytes size) {
  Entry entry;
  entry.size = size;
  entry.last_use = ++clock_;
  const auto [place, is_new] = entries_.emplace(number, entry);
  CHECK(is_new, "an entry is added once");
  unpinned_.insert(rank_of(number, place->second));
  total_ += size;
}

void DeviceCache::remove(EntryNumber number) {
  const Entry& entry = entry_of(number);
  CHECK(entry.pins == 0, "what is pinned stays");
  unpinned_.erase(rank_of(number, entry));
  total_ -= entry.size;
  entries_.erase(number);
}

void DeviceCache::pin(EntryNumber number) {
  change(number, [this](Entry& entry) {
    ++entry.pins;
    ++entry.uses;
    entry.last_use = ++clock_;
  });
}

void DeviceCache::unpin(EntryNumber number) {
  change(number, [](Entry& entry) {
    CHECK(entry.pins > 0, "it was pinned");
    --entry.pins;
  });
}

void DeviceCache::need(EntryNumber number) {
  change(number, [](Entry& entry) { ++entry.needs; });
}

void DeviceCache::unneed(EntryNumber number) {
  change(number, [](Entry& entry) {
    CHECK(entry.needs > 0, "it was needed");
    --entry.needs;
  });
}

std::optional<std::vector<DeviceCache::EntryNumber>> DeviceCache::victims(Bytes size) const {
  std::vector<EntryNumber> chosen;
  Bytes freed;
  for (const Rank& rank : unpinned_) {
    if (freed >= size) break;
    const EntryNumber number = std::get<3>(rank);
    chosen.push_back(number);
    freed += entries_.at(number).size;
  }
  if (freed < size) return std::nullopt;
  return chosen;
}

}  // namespace lambent::executor
