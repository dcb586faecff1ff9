// The executor's seats: added, moved, removed.
#include <algorithm>
#include <utility>

#include "core/base/check.h"
#include "core/domain/limits.h"
#include "gpu/executor/executor.h"

namespace lambent::executor {

void Executor::handle(protocol::AddSeat message, std::vector<OwnedFd> fds) {
  const auto refuse = [&](Error error) {
    connection_.send(protocol::SeatFailed{message.seat, std::move(error)});
  };
  if (find(message.seat) != nullptr) {
    return refuse({ErrorCode::kAlreadyExists, "there is a seat of this number"});
  }
  if (seats_.size() >= limits::kExecutorSeats) {
    return refuse({ErrorCode::kResourceExhausted,
                   "an executor has at most " + std::to_string(limits::kExecutorSeats) + " seats"});
  }
  if (fds.size() != message.files.size()) {
    return refuse({ErrorCode::kInvalidArgument, std::to_string(message.files.size()) +
                                                    " files were named and " +
                                                    std::to_string(fds.size()) + " came"});
  }
  auto seat = std::make_unique<Seat>();
  seat->id = message.seat;
  seat->memory = message.memory;
  seat->arrival_began = loop_.now();
  seat->was_added = true;
  seat->share = seat->loaded_share = message.share;
  seats_.emplace(message.seat, std::move(seat));
  set_limit();

  auto order = std::make_shared<SeatLoader::Order>();
  order->seat = message.seat;
  order->graph = std::move(message.graph);
  order->names = std::move(message.files);
  order->files = std::move(fds);
  order->memory = message.memory;
  order->modelled = message.modelled;
  order->groups = groups_for(message.seat, message.share);
  auto loaded = std::make_shared<Result<std::unique_ptr<LoadedSeat>>>(Error{});
  loads_->run([this, order, loaded] { *loaded = loader_->load(std::move(*order)); },
              [this, id = message.seat, loaded] { seat_loaded(id, std::move(*loaded)); });
}

void Executor::seat_loaded(SandboxId id, Result<std::unique_ptr<LoadedSeat>> loaded) {
  Seat* seat = find(id);
  if (loaded.ok() && (seat == nullptr || seat->is_removed)) discard(std::move(*loaded));
  if (seat == nullptr) return;
  if (seat->is_removed) return remove(id);
  if (!loaded.ok()) {
    connection_.send(protocol::SeatFailed{id, loaded.error()});
    remove(id);
    end_if_broken(nullptr, loaded.error());
    return;
  }
  seat->loaded = std::move(*loaded);
  seat->memory = std::max(seat->memory, counted(*seat->loaded));
  if (has_layers(*seat)) layers_->add(id, seat->loaded->window, *seat->loaded->layers);
  set_limit();
  if (seat->share != seat->loaded_share) change_share(*seat);
  begin_arrival(*seat);
}

// Has the constants brought that are not there; answers when all are, or, if requests may begin
// before, when they have their places.
void Executor::begin_arrival(Seat& seat) {
  seat.is_arriving = true;
  seat.arrival_moved = Bytes(0);
  for (const Constant& constant : seat.loaded->constants) {
    const bool was_there = store_->find(constant.name) != nullptr;
    const auto pinned = contents_->pin_constant(constant, user_of(seat.id));
    if (!pinned.ok()) return arrival_failed(seat, pinned.error());
    seat.arriving.push_back(constant.name);
    if (!was_there) seat.arrival_moved += constant.size;
  }
  grow_ahead(seat);
  if (options_.pipelined) say_arrived(seat);
  arrive(seat);
}

// Looks whether all are there.
void Executor::arrive(Seat& seat) {
  for (const Constant& constant : seat.loaded->constants) {
    const auto content = contents_->look(constant, user_of(seat.id));
    if (!content.ok()) return arrival_failed(seat, content.error());
    if (!content->is_here) return;
  }
  end_arrival(seat);
  if (seat.is_removed) return seat.request == nullptr ? remove(seat.id) : void();
  if (!options_.pipelined) say_arrived(seat);
  if (std::exchange(seat.goes_out, false)) move_out(seat);
}

void Executor::end_arrival(Seat& seat) {
  seat.is_arriving = false;
  for (const DeviceName& name : std::exchange(seat.arriving, {})) contents_->unpin(name);
}

void Executor::say_arrived(Seat& seat) {
  const Duration elapsed = loop_.clock().now() - seat.arrival_began;
  if (std::exchange(seat.was_added, false)) {
    Bytes constants;
    for (const Constant& constant : seat.loaded->constants) {
      constants += pool_->rounded(constant.size);
    }
    connection_.send(protocol::SeatReady{seat.id, elapsed, constants});
  } else {
    connection_.send(protocol::SeatMoved{.seat = seat.id,
                                         .moved = seat.arrival_moved,
                                         .left = memory_of(seat),
                                         .duration = elapsed});
  }
  seat.is_usable = true;
}

void Executor::arrival_failed(Seat& seat, const Error& error) {
  end_arrival(seat);
  if (end_if_broken(nullptr, error)) return;
  if (seat.is_removed) return seat.request == nullptr ? remove(seat.id) : void();
  if (std::exchange(seat.goes_out, false)) return move_out(seat);
  if (seat.is_usable) return;  // requests ask for them again, and get the error
  if (seat.was_added) {
    connection_.send(protocol::SeatFailed{seat.id, error});
    return remove(seat.id);
  }
  seat.is_in = false;
  set_limit();
  connection_.send(protocol::SeatMoved{
      .seat = seat.id, .done = false, .duration = loop_.clock().now() - seat.arrival_began});
}

void Executor::handle(protocol::MoveSeat message, std::vector<OwnedFd>) {
  Seat* seat = find(message.seat);
  const bool is_idle =
      seat != nullptr && seat->loaded != nullptr && !seat->is_removed && seat->request == nullptr;
  if (is_idle && seat->is_arriving && seat->is_usable && message.out) {
    // Nothing can be taken away from what is on its way: it goes when it is there.
    seat->arrival_began = loop_.now();
    seat->is_usable = false;
    seat->goes_out = true;
    return;
  }
  if (!is_idle || seat->is_arriving) {
    // Unknown, or busy: its memory is needed where it is.
    connection_.send(protocol::SeatMoved{.seat = message.seat, .out = message.out, .done = false});
    return;
  }
  seat->arrival_began = loop_.now();
  if (message.out) return move_out(*seat);
  seat->is_in = true;
  seat->is_usable = false;
  set_limit();
  begin_arrival(*seat);
}

void Executor::move_out(Seat& seat) {
  use_reserved(seat);
  const Bytes before = memory_of(seat);
  seat.is_in = false;
  seat.is_usable = false;
  // Its own things go first, as far as the others' part does not hold them all.
  Bytes allowed = object_room_;
  for (const auto& [id, other] : seats_) {
    if (other->is_in) allowed += other->memory - window_of(*other);
  }
  if (store_->used() > allowed) drop_memory_of(seat);
  set_limit();
  watch_memory();
  const Bytes moved = before - memory_of(seat);
  if (!has_layers(seat)) return say_moved_out(seat.id, moved);
  layers_->move_out(seat.id, [this, id = seat.id, moved] { say_moved_out(id, moved); });
}

void Executor::say_moved_out(SandboxId id, Bytes moved) {
  const Seat* seat = find(id);
  if (seat == nullptr || seat->loaded == nullptr || ended_) return;
  connection_.send(protocol::SeatMoved{.seat = id,
                                       .out = true,
                                       .moved = moved,
                                       .left = memory_of(*seat),
                                       .duration = loop_.clock().now() - seat->arrival_began});
}

void Executor::handle(protocol::RemoveSeat message, std::vector<OwnedFd>) {
  Seat* seat = find(message.seat);
  if (seat == nullptr) return;
  seat->is_removed = true;
  if (seat->request != nullptr) seat->request->is_withdrawn = true;
  if (seat->loaded != nullptr) seat->loaded->program->stop_loops();
  if (seat->request != nullptr && (seat->request->awaits_constant || seat->request->awaits_layer ||
                                   seat->request->awaits_room)) {
    return fail(*seat, {ErrorCode::kUnavailable, "it was removed"});
  }
  // What another thread or the device still works on goes when that has ended.
  const bool is_loading = seat->loaded == nullptr;
  const bool waits =
      seat->request != nullptr && seat->request->stage == RequestUnderWay::Stage::kContents;
  if (is_loading || (seat->request != nullptr && !waits)) return;
  remove(message.seat);
}

void Executor::remove(SandboxId id) {
  Seat& seat = *seats_.at(id);
  if (seat.request != nullptr) {
    protocol::Finished finished;
    finished.invocation = seat.request->message.invocation;
    finished.error = Error{ErrorCode::kUnavailable, "the seat was removed"};
    release(seat);
    connection_.send(std::move(finished));
  }
  // What is on its way for it takes memory until it is there, and counts as long.
  if (seat.is_arriving) return;
  use_reserved(seat);
  if (seat.loaded != nullptr) drop_memory_of(seat);
  if (seat.loaded != nullptr && has_layers(seat)) {
    auto going = std::make_shared<std::unique_ptr<LoadedSeat>>(std::move(seat.loaded));
    layers_->remove(id, [this, going] { discard(std::move(*going)); });
  } else if (seat.loaded != nullptr) {
    discard(std::move(seat.loaded));
  }
  if (shares_) shares_->take_back(user_of(id));
  seats_.erase(id);
  set_limit();
  watch_memory();
  if (layers_ != nullptr) layers_->room_came();
}

// To give page-locked memory back, the driver may wait for all that runs on the device.
void Executor::discard(std::unique_ptr<LoadedSeat> loaded) {
  auto going = std::make_shared<std::unique_ptr<LoadedSeat>>(std::move(loaded));
  PagePool* pages = (*going)->window != 0 ? &layers_->pages() : nullptr;
  loads_->run(
      [going, pages] {
        if (pages != nullptr) pages->close((*going)->window);
        going->reset();
      },
      [] {});
}

// Everything that is the seat's alone, and constants that no other seat has.
Bytes Executor::drop_memory_of(Seat& seat) {
  const Bytes before = store_->used();
  const LoadedSeat& loaded = *seat.loaded;
  store_->drop(DeviceName::of(seat.id, DeviceName::kTemporaries));
  for (uint32_t i = 0; i < loaded.graph.buffers.size(); ++i) {
    store_->drop(DeviceName::of(seat.id, i));
    store_->drop(DeviceName::of(seat.id, i | kCopiedOutput));
  }
  for (const Constant& constant : loaded.constants) {
    const bool is_shared = std::any_of(seats_.begin(), seats_.end(), [&](const auto& other) {
      if (other.first == seat.id || other.second->loaded == nullptr) return false;
      const auto& theirs = other.second->loaded->constants;
      return other.second->is_in &&
             std::any_of(theirs.begin(), theirs.end(),
                         [&](const Constant& each) { return each.name == constant.name; });
    });
    if (!is_shared) store_->drop(constant.name);
  }
  return before - store_->used();
}

Bytes Executor::memory_of(const Seat& seat) {
  Bytes sum;
  const auto add = [&](const DeviceName& name) {
    if (const auto* entry = store_->find(name)) sum += entry->size;
  };
  add(DeviceName::of(seat.id, DeviceName::kTemporaries));
  for (uint32_t i = 0; i < seat.loaded->graph.buffers.size(); ++i) {
    if (seat.loaded->graph.buffers[i].role == kernel_graph::BufferRole::kConstant) continue;
    add(DeviceName::of(seat.id, i));
    add(DeviceName::of(seat.id, i | kCopiedOutput));
  }
  for (const Constant& constant : seat.loaded->constants) add(constant.name);
  return sum;
}

// Dispatch counts with bytes; what lies on the device is in whole blocks of the pool.
Bytes Executor::counted(const LoadedSeat& loaded) const {
  Bytes sum = pool_->rounded(loaded.plan.temporaries);
  for (uint32_t i = 0; i < loaded.graph.buffers.size(); ++i) {
    if (loaded.graph.buffers[i].role == kernel_graph::BufferRole::kTemporary) continue;
    sum += pool_->rounded(loaded.plan.sizes[i]);
  }
  return sum;
}

void Executor::set_limit() {
  Bytes limit = object_room_;
  for (const auto& [id, seat] : seats_) {
    if (seat->is_in) limit += seat->memory - window_of(*seat);
  }
  store_->set_limit(limit);
}

}  // namespace lambent::executor
