// Instances: where the memory of instances is: constants arrive on the device, and what can be read
// again leaves it.
#include <algorithm>
#include <utility>

#include "gpu/executor/instances.h"

namespace lambent::executor {

// Has the constants brought that are not there; answers when all are, or, if requests may begin
// before, when they have their places.
void Instances::begin_arrival(KernelInstance& instance) {
  Arrival& arrival = instance.arrival;
  arrival.is_under_way = true;
  if (!std::exchange(arrival.awaits_writes, false)) arrival.moved = Bytes(0);
  for (const Constant& constant : instance.loaded->constants) {
    const bool was_there = with_.store.find(constant.name) != nullptr;
    const auto pinned = with_.contents.pin_constant(constant, user_of(instance.id));
    if (!pinned.ok() && await_writes(instance, pinned.error())) return;
    if (!pinned.ok()) return arrival_failed(instance, pinned.error());
    arrival.constants.push_back(constant.name);
    if (!was_there) arrival.moved += constant.size;
  }
  reserve(instance);
  if (options_.pipelined) report_arrival(instance);
  look_for_arrival(instance);
}

// Kept objects lie in the memory that the constants need: they come when some are written.
bool Instances::await_writes(KernelInstance& instance, const Error& error) {
  const bool is_short = error.code == ErrorCode::kResourceExhausted;
  if (!is_short || !with_.kept.make_room()) return false;
  end_arrival(instance);
  instance.arrival.is_under_way = instance.arrival.awaits_writes = true;
  return true;
}

// Whether all are there.
void Instances::look_for_arrival(KernelInstance& instance) {
  if (instance.arrival.awaits_writes) {
    if (!instance.is_removed) return begin_arrival(instance);
    instance.arrival.awaits_writes = false;
    end_arrival(instance);
    return finish_removal(instance.id);
  }
  for (const Constant& constant : instance.loaded->constants) {
    const auto content = with_.contents.look(constant, user_of(instance.id));
    if (!content.ok()) return arrival_failed(instance, content.error());
    if (!content->is_here) return;
  }
  end_arrival(instance);
  if (instance.is_removed) {
    return with_.requests.has(instance.id) ? void() : finish_removal(instance.id);
  }
  if (!options_.pipelined) report_arrival(instance);
  if (std::exchange(instance.arrival.goes_out, false)) move_out(instance);
}

void Instances::end_arrival(KernelInstance& instance) {
  instance.arrival.is_under_way = false;
  for (const DeviceName& name : std::exchange(instance.arrival.constants, {})) {
    with_.contents.unpin(name);
  }
}

void Instances::report_arrival(KernelInstance& instance) {
  const Duration elapsed = with_.loop.clock().now() - instance.arrival.began;
  if (std::exchange(instance.arrival.was_added, false)) {
    Bytes constants;
    for (const Constant& constant : instance.loaded->constants) {
      constants += with_.pool.rounded(constant.size);
    }
    with_.connection.send(protocol::InstanceReady{instance.id, elapsed, constants});
  } else {
    with_.connection.send(protocol::InstanceMoved{.instance = instance.id,
                                                  .moved = instance.arrival.moved,
                                                  .left = memory_of(instance),
                                                  .duration = elapsed});
  }
  instance.is_usable = true;
}

void Instances::arrival_failed(KernelInstance& instance, const Error& error) {
  end_arrival(instance);
  if (with_.watch.end_if_broken(error)) return;
  if (instance.is_removed) {
    return with_.requests.has(instance.id) ? void() : finish_removal(instance.id);
  }
  if (std::exchange(instance.arrival.goes_out, false)) return move_out(instance);
  if (instance.is_usable) return;  // requests ask for them again, and get the error
  if (instance.arrival.was_added) {
    with_.connection.send(protocol::InstanceFailed{instance.id, error});
    return finish_removal(instance.id);
  }
  instance.is_in = false;
  set_limit();
  with_.connection.send(
      protocol::InstanceMoved{.instance = instance.id,
                              .done = false,
                              .duration = with_.loop.clock().now() - instance.arrival.began});
}

void Instances::progress() {
  std::vector<SandboxId> arriving;
  for (const auto& [id, instance] : instances_) {
    if (instance->arrival.is_under_way) arriving.push_back(id);
  }
  for (const SandboxId id : arriving) {
    KernelInstance* instance = find(id);
    if (instance != nullptr && instance->arrival.is_under_way) look_for_arrival(*instance);
  }
}

void Instances::move(const protocol::MoveInstance& message) {
  KernelInstance* instance = find(message.instance);
  const bool is_idle = instance != nullptr && instance->loaded != nullptr &&
                       !instance->is_removed && !with_.requests.has(message.instance);
  if (is_idle && instance->arrival.is_under_way && instance->is_usable && message.out) {
    // Nothing can be taken away from what is on its way: it goes when it is there.
    instance->arrival.began = with_.loop.now();
    instance->is_usable = false;
    instance->arrival.goes_out = true;
    return;
  }
  if (!is_idle || instance->arrival.is_under_way) {
    // Unknown, or busy: its memory is needed where it is.
    with_.connection.send(
        protocol::InstanceMoved{.instance = message.instance, .out = message.out, .done = false});
    return;
  }
  instance->arrival.began = with_.loop.now();
  if (message.out) return move_out(*instance);
  instance->is_in = true;
  instance->is_usable = false;
  set_limit();
  begin_arrival(*instance);
}

void Instances::move_out(KernelInstance& instance) {
  instance.reserved.release();
  const Bytes before = memory_of(instance);
  instance.is_in = false;
  instance.is_usable = false;
  // Its own things go first, as far as the others' part does not hold them all.
  if (with_.store.used() > allowed()) drop_memory_of(instance);
  set_limit();
  with_.trimmer.watch();
  const Bytes moved = before - memory_of(instance);
  const auto report = [this, id = instance.id, moved] {
    with_.kept.when_written([this, id, moved] { report_moved_out(id, moved); });
  };
  if (!instance.loaded->has_layers()) return report();
  with_.layers->move_out(instance.id, report);
}

void Instances::report_moved_out(SandboxId id, Bytes moved) {
  const KernelInstance* instance = find(id);
  if (instance == nullptr || instance->loaded == nullptr || with_.watch.has_ended()) return;
  with_.connection.send(
      protocol::InstanceMoved{.instance = id,
                              .out = true,
                              .moved = moved,
                              .left = memory_of(*instance),
                              .duration = with_.loop.clock().now() - instance->arrival.began});
}

// Everything that only the instance has, and constants that no other instance has.
void Instances::drop_memory_of(KernelInstance& instance) {
  for (const DeviceName& name : instance.own_buffers()) with_.store.drop(name);
  for (const Constant& constant : instance.loaded->constants) {
    const bool is_shared = std::ranges::any_of(instances_, [&](const auto& other) {
      return other.first != instance.id && other.second->is_in &&
             other.second->has_constant(constant.name);
    });
    if (!is_shared) with_.store.drop(constant.name);
  }
}

Bytes Instances::memory_of(const KernelInstance& instance) {
  Bytes sum;
  const auto add = [&](const DeviceName& name) {
    if (const auto* entry = with_.store.find(name)) sum += entry->size;
  };
  for (const DeviceName& name : instance.own_buffers()) add(name);
  for (const Constant& constant : instance.loaded->constants) add(constant.name);
  return sum;
}

}  // namespace lambent::executor
