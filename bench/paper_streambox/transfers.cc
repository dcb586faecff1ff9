// Objects between the calls of a workflow, and the transfers that bring them and weights.
#include <algorithm>

#include "bench/paper_streambox/node.h"

namespace lambent::paper_streambox {

using scheduling::kHost;

uint32_t Node::new_object(double bytes, uint32_t place) {
  uint32_t index = 0;
  if (free_objects_.empty()) {
    index = static_cast<uint32_t>(objects_.size());
    objects_.emplace_back();
  } else {
    index = free_objects_.back();
    free_objects_.pop_back();
  }
  objects_[index] = {Bytes(static_cast<uint64_t>(bytes)), place, false,
                     static_cast<uint64_t>(events_.now() * 1e9)};
  if (place != kHost) {
    devices_[place]->objects_bytes += bytes;
    charge(place, bytes);
    if (setup_.system == System::kStreamBox && !store_looks_) {
      store_looks_ = true;
      look_at_store();
    }
  }
  return index;
}

void Node::drop_object(uint32_t index) {
  if (const auto moving = waits_for_object_.find(index); moving != waits_for_object_.end()) {
    moving->second.push_back([this, index] { drop_object(index); });
    return;
  }
  scheduling::StoredObject& object = objects_[index];
  if (object.place != kHost) {
    const auto bytes = static_cast<double>(object.size.count);
    devices_[object.place]->objects_bytes -= bytes;
    charge(object.place, -bytes);
  }
  object = {};
  free_objects_.push_back(index);
}

void Node::fetch(uint32_t index, uint32_t device, uint64_t owner, std::function<void()> done) {
  const scheduling::StoredObject& object = objects_[index];
  if (const auto moving = waits_for_object_.find(index); moving != waits_for_object_.end()) {
    moving->second.push_back([this, index, device, owner, done = std::move(done)] {
      fetch(index, device, owner, done);
    });
    return;
  }
  const auto bytes = static_cast<double>(object.size.count);
  const bool opens = setup_.system == System::kAstraea || setup_.system == System::kStreamOnly;
  if (object.place == kHost) {
    double get_s = 0;
    if (goes_over_host(setup_.system)) {
      get_s = constants_.store_fixed_s / 2 + bytes / constants_.store_bytes_per_s;
    }
    events_.after(get_s, [this, device, owner, size = object.size, done = std::move(done)] {
      send_in(device, owner, {size}, [done](uint32_t) { done(); });
    });
    return;
  }
  const double look_s = opens ? constants_.open_handle_s : constants_.address_s;
  if (object.place == device) {
    events_.after(look_s, std::move(done));
    return;
  }
  const uint32_t from = object.place;
  events_.after(look_s, [this, from, device, owner, bytes, done = std::move(done)] {
    send_between(from, device, owner, bytes, done);
  });
}

void Node::send_in(uint32_t device, uint64_t owner, std::vector<Bytes> pieces, Link::Done done) {
  double delay_s = 0;
  for (Bytes& piece : pieces) {
    const auto bytes = static_cast<double>(piece.count);
    if (setup_.host_memory == Setup::HostMemory::kPinnedEachTime) {
      delay_s += bytes * constants_.pin_s_per_byte;
    } else if (setup_.host_memory == Setup::HostMemory::kPageable) {
      // On its way through the driver's own buffer it takes the link for longer.
      piece = Bytes(static_cast<uint64_t>(
          bytes * std::max(1.0, constants_.link_bytes_per_s / constants_.pageable_bytes_per_s)));
    }
  }
  events_.after(delay_s, [this, device, owner, pieces = std::move(pieces), done = std::move(done)] {
    devices_[device]->in->send(owner, pieces, done);
  });
}

void Node::send_out(uint32_t device, uint64_t owner, double bytes, std::function<void()> done) {
  if (setup_.host_memory == Setup::HostMemory::kPageable) {
    bytes *= std::max(1.0, constants_.link_bytes_per_s / constants_.pageable_bytes_per_s);
  }
  devices_[device]->out->send(owner, Bytes(static_cast<uint64_t>(bytes)), std::move(done));
}

void Node::send_between(uint32_t from, uint32_t to, uint64_t owner, double bytes,
                        std::function<void()> done) {
  between_.at({from, to})->send(owner, Bytes(static_cast<uint64_t>(bytes)), std::move(done));
}

// What is not for objects: weights, runtimes, what functions and the other task will need.
std::vector<scheduling::StoreDevice> Node::store_devices() const {
  std::vector<scheduling::StoreDevice> devices(setup_.devices);
  for (uint32_t i = 0; i < setup_.devices; ++i) {
    double needed = devices_[i]->used_bytes - devices_[i]->objects_bytes;
    for (unsigned tenant = 0; tenant < setup_.tenants; ++tenant) {
      const double pool = runtime(tenant, i).pool_bytes;
      const auto running = running_on(i, tenant);
      const Bytes needs = scheduling::functions_need(setup_.store, running);
      needed += std::max(0.0, static_cast<double>(needs.count) - pool);
    }
    if (setup_.other_task_bytes > 0) {
      const scheduling::RunningFunction task{other_task_is_high_[i] ? &high_ : &low_, 0,
                                             from_seconds(events_.now() - other_task_turn_s_[i])};
      const Bytes needs = scheduling::functions_need(setup_.store, {&task, 1});
      needed += std::max(0.0, static_cast<double>(needs.count) - devices_[i]->other_task_bytes);
    }
    devices[i].memory = Bytes(static_cast<uint64_t>(constants_.device_memory));
    devices[i].needed = Bytes(static_cast<uint64_t>(std::max(0.0, needed)));
    for (uint32_t other = 0; other < setup_.devices; ++other) {
      if (other != i) devices[i].neighbours.push_back(other);
    }
  }
  return devices;
}

// Moves out what must leave the device, by the rules of the store, or to the host if there is none.
void Node::relieve(uint32_t device) {
  scheduling::StoreOptions options = setup_.store;
  if (setup_.system != System::kStreamBox)
    options = {.share_of_idle = 1, .aware_of_pressure = false, .adaptive_movement = false};
  const auto devices = store_devices();
  for (const scheduling::StoreMove& move :
       scheduling::relieve(options, {devices, objects_}, device)) {
    scheduling::StoredObject& object = objects_[move.object];
    object.in_use = true;
    waits_for_object_[move.object];
    const auto bytes = static_cast<double>(object.size.count);
    const auto moved = [this, move, bytes] {
      scheduling::StoredObject& object = objects_[move.object];
      devices_[move.from]->objects_bytes -= bytes;
      charge(move.from, -bytes);
      object.place = move.to;
      object.in_use = false;
      if (move.to != kHost) {
        devices_[move.to]->objects_bytes += bytes;
        charge(move.to, bytes);
      }
      const auto waiting = std::move(waits_for_object_.at(move.object));
      waits_for_object_.erase(move.object);
      for (const auto& one : waiting) one();
      serve();
    };
    ++(move.to == kHost ? result_.to_host : result_.to_neighbours);
    constexpr uint64_t kStoreOwner = UINT64_MAX;
    if (move.to == kHost) {
      send_out(device, kStoreOwner, bytes, moved);
    } else {
      send_between(device, move.to, kStoreOwner, bytes, moved);
    }
  }
}

void Node::look_at_store() {
  double objects_bytes = 0;
  for (uint32_t device = 0; device < setup_.devices; ++device) {
    objects_bytes += devices_[device]->objects_bytes;
    if (devices_[device]->objects_bytes > 0) relieve(device);
  }
  store_looks_ = objects_bytes > 0;
  if (store_looks_)
    events_.after(to_seconds(setup_.store.look_ahead) / 2, [this] { look_at_store(); });
}

// The other task takes its memory, or gives some back; whoever is in its way is moved.
void Node::turn_other_task(uint32_t device, bool high) {
  constexpr Duration kTurn = milliseconds(50);
  if (low_.kernels.empty()) {
    const Bytes least(static_cast<uint64_t>(setup_.other_task_least_bytes));
    const Bytes most(static_cast<uint64_t>(setup_.other_task_bytes));
    low_.kernels = {{kTurn, least}, {kTurn, most}};
    high_.kernels = {{kTurn, most}, {kTurn, least}};
  }
  other_task_is_high_[device] = high;
  other_task_turn_s_[device] = events_.now();
  const double wants = high ? setup_.other_task_bytes : setup_.other_task_least_bytes;
  charge(device, wants - devices_[device]->other_task_bytes);
  devices_[device]->other_task_bytes = wants;
  if (devices_[device]->objects_bytes > 0 && free_bytes(device) < 0) relieve(device);
  if (events_.now() < ends_s_) {
    events_.after(to_seconds(kTurn), [this, device, high] { turn_other_task(device, !high); });
  }
}

}  // namespace lambent::paper_streambox
