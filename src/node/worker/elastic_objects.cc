#include "node/worker/elastic_objects.h"

#include <algorithm>
#include <utility>

namespace lambent::worker {
namespace {

using Going = ObjectPlaces::Copy::Going;

// Room is given in steps of this part of a device, so that not every change is told.
constexpr uint64_t kSteps = 64;
// Without a word for so long, an executor that was told to release one hangs.
constexpr Duration kLongestSilence = seconds(5);

}  // namespace

void ElasticObjects::look(std::vector<DeviceMemory> devices) {
  devices_ = std::move(devices);
  // Before rooms shrink, so that what moves is shared, and stays until it has arrived.
  std::vector<Bytes> needed;
  for (const DeviceMemory& device : devices_) needed.push_back(device.needed);
  if (places_.changes() != changes_then_ || needed != needed_then_) {
    for (uint32_t i = 0; i < devices_.size(); ++i) relieve(i);
    changes_then_ = places_.changes();
    needed_then_ = std::move(needed);
  }
  give_rooms();
}

// What is in no function's share is shared by the device's executors. A smaller room is told when
// what leaves the executor has left, or could have.
void ElasticObjects::give_rooms() {
  std::map<DeviceId, uint64_t> executors;
  const std::vector<ExecutorKey> ready = supervisor_.ready_ones();
  for (const ExecutorKey& key : ready) ++executors[key.device];
  due_.clear();
  for (const ExecutorKey& key : ready) {
    const auto index = index_of(key.device);
    if (!index) continue;
    const DeviceMemory& device = devices_[*index];
    const Bytes whole = scheduling::room_for_objects(
        options_, {.memory = device.memory, .needed = device.memory - device.unclaimed});
    const uint64_t step = std::max<uint64_t>(1, device.memory.count / kSteps);
    const Bytes room(whole.count / executors[key.device] / step * step);
    Bytes& told = rooms_[key];
    if (room == told) continue;
    bool moves = false;
    places_.for_each([&](const objects::ObjectKey&, const Copy& copy) {
      moves = moves || (copy.holder == key && copy.going == Going::kToNeighbour && !copy.told);
    });
    if (room < told && moves) {
      due_.insert(key);
      if (std::exchange(rooms_are_due_, true)) continue;
      loop_.call_after(options_.look_ahead, [this, alive = std::weak_ptr(alive_)] {
        if (alive.expired()) return;
        rooms_are_due_ = false;
        give_rooms();
      });
      continue;
    }
    tell_room(key, room, room < std::exchange(told, room));
  }
}

// Behind a smaller one it is asked to release no object at all: the answer to that comes when all
// that it was told before has been done.
void ElasticObjects::tell_room(const ExecutorKey& key, Bytes room, bool is_smaller) {
  supervisor_.send(key, protocol::SetObjectRoom{room});
  if (is_smaller) await(key);
}

void ElasticObjects::await(const ExecutorKey& key) {
  const auto [asked, is_first] = asked_.try_emplace(key);
  if (is_first) asked->second.since = loop_.clock().now();
  ++asked->second.times;
  supervisor_.send(key, protocol::DropObject{ObjectId{}, false});
}

bool ElasticObjects::evicts(DeviceId device) const {
  const auto is_there = [device](const ExecutorKey& key) { return key.device == device; };
  return std::ranges::any_of(due_, is_there) || std::ranges::any_of(asked_, [&](const auto& each) {
           return is_there(each.first) && loop_.clock().now() < each.second.since + kLongestSilence;
         });
}

void ElasticObjects::made_way(const ExecutorKey& key) {
  const auto asked = asked_.find(key);
  if (asked == asked_.end()) return;
  asked->second.since = loop_.clock().now();
  if (--asked->second.times == 0) asked_.erase(asked);
}

void ElasticObjects::executor_ended(const ExecutorKey& key) {
  rooms_.erase(key);
  due_.erase(key);
  asked_.erase(key);
}

void ElasticObjects::relieve(uint32_t device) {
  const DeviceMemory& memory = devices_[device];
  const Bytes room = scheduling::room_for_objects(
      options_, {.memory = memory.memory, .needed = memory.needed, .neighbours = {}});
  if (places_.on_device(memory.device) <= room) return;
  const View now = view();
  for (const scheduling::StoreMove& move :
       scheduling::relieve(options_, {now.devices, now.objects}, device)) {
    perform(now.names[move.object], now.objects[move.object].spare, move.to);
  }
}

void ElasticObjects::perform(const View::Named& named, bool is_spare, uint32_t to) {
  if (is_spare) return tell_to_go(named.object, named.holder, Going::kToReader);
  const auto target =
      to == scheduling::kHost ? std::nullopt : taker(named.holder, devices_[to].device);
  if (!target) return tell_to_go(named.object, named.holder, Going::kToHost);
  send_to(named.object, named.holder, *target);
}

void ElasticObjects::send_to(const objects::ObjectKey& object, const ExecutorKey& holder,
                             const ExecutorKey& taker) {
  const auto known = objects_->status(object.tenant, object.object);
  Copy* copy = places_.find(object, holder);
  if (!known.ok() || copy == nullptr) return;
  copy->going = Going::kToNeighbour;
  copy->to = taker.device;
  const auto done = [this, object, holder, taker, type = known->type](auto object_export) {
    if (!object_export) return tell_to_go(object, holder, Going::kToHost);
    // It was deleted meanwhile: no device takes it.
    if (!objects_->status(object.tenant, object.object).ok()) {
      return exports_.ended(taker, object.object);
    }
    std::vector<OwnedFd> fds;
    fds.push_back(std::move(object_export->memory));
    supervisor_.send(taker, protocol::TakeObject{object.object, type, object_export->size},
                     std::move(fds));
  };
  exports_.share(object.object, holder, taker, done);
}

// The host has the object, or the executor writes it before it lets it go: nothing is lost with a
// copy.
void ElasticObjects::tell_to_go(const objects::ObjectKey& object, const ExecutorKey& holder,
                                Going why) {
  Copy* copy = places_.find(object, holder);
  if (copy == nullptr) return;
  copy->going = why;
  copy->told = true;
  supervisor_.send(holder, protocol::DropObject{object.object, false});
}

void ElasticObjects::moved(const objects::ObjectKey& object, const ExecutorKey& exporter,
                           const ExecutorKey& importer) {
  const Copy* copy = places_.find(object, exporter);
  if (copy == nullptr || copy->told) return;
  const bool arrived = places_.find(object, importer) != nullptr;
  tell_to_go(object, exporter, arrived ? Going::kToNeighbour : Going::kToHost);
}

void ElasticObjects::held(const objects::ObjectKey& object, const ExecutorKey& holder, Bytes size) {
  if (const Copy* copy = places_.find(object, holder); copy != nullptr && copy->told) {
    if (size > Bytes(0)) return places_.stays(object, holder);
    Moved& moved = moves_[static_cast<size_t>(copy->going) - 1];
    ++moved.objects;
    moved.bytes += copy->held;
  }
  places_.held(object, holder, size);
}

std::optional<uint32_t> ElasticObjects::index_of(DeviceId device) const {
  const auto found = std::ranges::find(devices_, device, &DeviceMemory::device);
  if (found == devices_.end()) return std::nullopt;
  return static_cast<uint32_t>(found - devices_.begin());
}

// An executor of the tenant on that device which can reach the other; one for the same functions
// rather than another.
std::optional<ExecutorKey> ElasticObjects::taker(const ExecutorKey& from, DeviceId device) const {
  std::optional<ExecutorKey> best;
  for (const ExecutorKey& key : supervisor_.ready_ones()) {
    if (key.device != device || key.tenant != from.tenant) continue;
    if (!supervisor_.reaches(key, from.device)) continue;
    if (!best || key.domain == from.domain) best = key;
  }
  return best;
}

uint64_t ElasticObjects::may_lie(TenantId tenant, uint32_t from,
                                 const std::vector<ExecutorKey>& ready) const {
  uint64_t devices = 0;
  for (const ExecutorKey& key : ready) {
    const auto index = index_of(key.device);
    const bool can = index && *index < 64 && key.tenant == tenant &&
                     supervisor_.reaches(key, devices_[from].device);
    if (can) devices |= uint64_t{1} << *index;
  }
  return devices;
}

ElasticObjects::View ElasticObjects::view() {
  View now;
  const std::vector<ExecutorKey> ready = supervisor_.ready_ones();
  for (const DeviceMemory& device : devices_) {
    scheduling::StoreDevice each{
        .memory = device.memory, .needed = device.needed, .neighbours = {}};
    for (uint32_t other = 0; other < devices_.size(); ++other) {
      const bool joined = std::ranges::any_of(ready, [&](const ExecutorKey& key) {
        return key.device == devices_[other].device && supervisor_.reaches(key, device.device);
      });
      if (joined) each.neighbours.push_back(other);
    }
    now.devices.push_back(std::move(each));
  }
  std::map<std::pair<TenantId, uint32_t>, uint64_t> masks;
  places_.for_each([&](const objects::ObjectKey& object, const Copy& copy) {
    const auto device = index_of(copy.holder.device);
    if (!device) return;
    scheduling::StoredObject each{.size = copy.held, .place = *device, .last_use = copy.last_use};
    each.in_use = copy.shared > 0 || copy.stays || copy.going != Going::kNot;
    if (copy.told) {
      each.place = scheduling::kHost;  // as good as gone
    } else if (copy.going == Going::kToNeighbour) {
      each.place = index_of(copy.to).value_or(*device);
    }
    // Of several copies on one device, the one that was used last is not spare.
    for (const Copy& other : *places_.find(object)) {
      const bool lies = other.held > Bytes(0) && other.going == Going::kNot;
      const bool elsewhere = other.holder.device != copy.holder.device;
      each.spare = each.spare || (lies && (elsewhere || other.last_use > copy.last_use));
    }
    const auto [mask, is_new] = masks.try_emplace({object.tenant, *device}, 0);
    if (is_new) mask->second = may_lie(object.tenant, *device, ready);
    each.may_lie = mask->second;
    now.objects.push_back(each);
    now.names.push_back({object, copy.holder});
  });
  return now;
}

}  // namespace lambent::worker
