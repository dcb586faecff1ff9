#include "node/worker/object_places.h"

#include <algorithm>

namespace lambent::worker {

ObjectPlaces::Copy& ObjectPlaces::copy_of(const objects::ObjectKey& object,
                                          const ExecutorKey& holder) {
  Copies& copies = copies_[object];
  const auto known = std::ranges::find(copies, holder, &Copy::holder);
  return known != copies.end() ? *known : copies.emplace_back(Copy{.holder = holder});
}

void ObjectPlaces::note(const objects::ObjectKey& object, const ExecutorKey& holder) {
  copy_of(object, holder).last_use = ++uses_;
}

void ObjectPlaces::held(const objects::ObjectKey& object, const ExecutorKey& holder, Bytes size) {
  if (size == Bytes(0) && find(object, holder) == nullptr) return;
  Copy& copy = copy_of(object, holder);
  count(holder.device, size, copy.held);
  copy.held = size;
  copy.last_use = ++uses_;
  ++changes_;
  if (size > Bytes(0)) return;
  copy.going = Copy::Going::kNot;
  copy.told = copy.stays = false;
}

void ObjectPlaces::shared(const objects::ObjectKey& object, const ExecutorKey& holder,
                          bool begins) {
  const auto found = copies_.find(object);
  if (found == copies_.end()) return;
  const auto copy = std::ranges::find(found->second, holder, &Copy::holder);
  if (copy == found->second.end()) return;
  if (begins) ++copy->shared;
  if (!begins && copy->shared > 0) --copy->shared;
}

void ObjectPlaces::stays(const objects::ObjectKey& object, const ExecutorKey& holder) {
  Copy* copy = find(object, holder);
  if (copy == nullptr) return;
  copy->going = Copy::Going::kNot;
  copy->told = false;
  copy->stays = true;
  staying_.insert(holder);
  ++changes_;
}

void ObjectPlaces::may_release(const ExecutorKey& holder) {
  if (staying_.erase(holder) == 0) return;
  for_each([&](const objects::ObjectKey&, Copy& copy) {
    if (copy.holder == holder) copy.stays = false;
  });
  ++changes_;
}

std::vector<ExecutorKey> ObjectPlaces::forget(const objects::ObjectKey& object) {
  std::vector<ExecutorKey> holders;
  const auto found = copies_.find(object);
  if (found == copies_.end()) return holders;
  for (const Copy& copy : found->second) {
    holders.push_back(copy.holder);
    count(copy.holder.device, Bytes(0), copy.held);
  }
  copies_.erase(found);
  ++changes_;
  return holders;
}

void ObjectPlaces::executor_ended(const ExecutorKey& holder) {
  ++changes_;
  staying_.erase(holder);
  for (auto each = copies_.begin(); each != copies_.end();) {
    Copies& copies = each->second;
    std::erase_if(copies, [&](const Copy& copy) {
      if (copy.holder != holder) return false;
      count(holder.device, Bytes(0), copy.held);
      return true;
    });
    each = copies.empty() ? copies_.erase(each) : std::next(each);
  }
}

ObjectPlaces::Copy* ObjectPlaces::find(const objects::ObjectKey& object,
                                       const ExecutorKey& holder) {
  const auto found = copies_.find(object);
  if (found == copies_.end()) return nullptr;
  const auto copy = std::ranges::find(found->second, holder, &Copy::holder);
  return copy != found->second.end() && copy->held > Bytes(0) ? &*copy : nullptr;
}

const ObjectPlaces::Copies* ObjectPlaces::find(const objects::ObjectKey& object) const {
  const auto found = copies_.find(object);
  return found != copies_.end() ? &found->second : nullptr;
}

Bytes ObjectPlaces::on_device(DeviceId device) const {
  const auto found = taken_.find(device);
  return found != taken_.end() ? found->second : Bytes(0);
}

void ObjectPlaces::count(DeviceId device, Bytes more, Bytes less) {
  Bytes& taken = taken_[device];
  taken += more;
  taken -= less;
  on_devices_ += more;
  on_devices_ -= less;
}

}  // namespace lambent::worker
