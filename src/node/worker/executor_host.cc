// The part of ExecutorHost that keeps seats: they start, get requests, move, stop and end with
// their executors.
#include <algorithm>
#include <utility>

#include "core/base/sealed_memory.h"
#include "node/runtime_api/error_type.h"
#include "node/worker/executor_seat.h"

namespace lambent::worker {
namespace {

// What a seat is given to end what it runs, before its executor is ended: a round of a loop with a
// flag, or all that is queued of other steps.
constexpr Duration kGrace = milliseconds(250);

// Why a seat could not be made.
std::string start_error_type_of(ErrorCode code) {
  const bool is_mistake = code == ErrorCode::kInvalidArgument || code == ErrorCode::kNotFound ||
                          code == ErrorCode::kFailedPrecondition || code == ErrorCode::kDataLoss;
  return is_mistake ? "Runtime.InvalidEntrypoint" : kPlatformFailure;
}

}  // namespace

ExecutorHost::ExecutorHost(Foundations foundations, ExecutorSetting setting, std::string run_folder,
                           Events events)
    : loop_(foundations.loop),
      log_(foundations.log),
      objects_(foundations.objects),
      run_files_(std::move(foundations.run_files)),
      built_in_(setting.built_in),
      lends_(setting.lend_objects),
      elastic_on_(setting.lend_objects && setting.elastic_objects),
      context_memory_(setting.context_memory),
      calls_cublas_(!setting.cublas.empty()),
      events_(std::move(events)),
      supervisor_(
          foundations.loop, foundations.log, foundations.launcher, std::move(setting),
          std::move(run_folder),
          {.on_ready = [this](const Key& key) { executor_ready(key); },
           .on_message =
               [this](const Key& key, protocol::ExecutorMessage message, std::vector<OwnedFd> fds) {
                 heard(key, std::move(message), std::move(fds));
               },
           .on_output = [this](const Key& key, std::string_view text) { printed(key, text); },
           .on_broken = [this](const Key& key, const Error& error) { clients_.lose(key, error); },
           .on_end = [this](const Key& key, const ExecutorEnd& how) { executor_ended(key, how); },
           .on_count = [this](DeviceId device) { tell_taken(device); },
           .has_room = room_finder(),
           .is_used = [this](const Key& key) { return is_used(key); },
           .serve_link = link_server(),
           .forget_link = events_.forget_link}),
      clients_(supervisor_),
      loans_(foundations.loop, supervisor_, places_,
             [this](const auto& object, const Key& lender, const Key& borrower) {
               elastic_.moved(object, lender, borrower);
             }),
      elastic_(foundations.loop, supervisor_, places_, loans_, foundations.objects,
               store_options_) {
  if (objects_ == nullptr) return;
  objects_->on_gone([this](TenantId tenant, ObjectId object) { object_gone(tenant, object); });
}

ExecutorHost::~ExecutorHost() {
  if (objects_ != nullptr) objects_->on_gone({});
  for (const auto& [id, seat] : seats_) loop_.cancel(seat->grace);
}

// Executors have turns on the link, and lease nothing.
std::function<void(SandboxId, DeviceId, OwnedFd)> ExecutorHost::link_server() const {
  if (!events_.serve_link) return {};
  return [this](SandboxId executor, DeviceId device, OwnedFd listener) {
    events_.serve_link(executor, device, Bytes(0), std::move(listener));
  };
}

std::function<bool(const ExecutorKey&, size_t)> ExecutorHost::room_finder() const {
  if (!events_.has_room) return {};
  return [this](const Key& key, size_t contexts) {
    const auto is_there = [&](const Key& each) {
      return each == key || supervisor_.launched(each);
    };
    return events_.has_room(key.device, taken_by(key.device, contexts, is_there));
  };
}

// --- Executors ---

void ExecutorHost::keep(const FunctionSpec& spec, DeviceId device) {
  supervisor_.keep(executor_key(spec, device));
}

void ExecutorHost::leave(DeviceId device) {
  supervisor_.hide(device);
  for (const Key& key : supervisor_.kept()) {
    if (key.device == device) supervisor_.drop(key);
  }
}

void ExecutorHost::drop(const FunctionSpec& spec) {
  for (const Key& key : supervisor_.kept()) {
    if (key == executor_key(spec, key.device)) supervisor_.drop(key);
  }
}

bool ExecutorHost::is_used(const Key& key) const {
  return clients_.any_of(key) || !seats_of(key).empty();
}

Bytes ExecutorHost::taken(DeviceId device) const {
  return taken_by(device, supervisor_.contexts_on(device), [](const Key&) { return true; });
}

Bytes ExecutorHost::taken_by_used(DeviceId device) const {
  return taken_by(device, supervisor_.used_contexts_on(device), [](const Key&) { return true; });
}

Bytes ExecutorHost::taken_by(DeviceId device, size_t contexts,
                             const std::function<bool(const Key&)>& is_there) const {
  Bytes taken = context_memory_ * contexts;
  if (!calls_cublas_) return taken;
  for (const auto& [id, seat] : seats_) {
    if (seat->key.device == device && is_there(seat->key)) taken += kCallWorkspace;
  }
  return taken;
}

void ExecutorHost::tell_taken(DeviceId device) {
  const Bytes bytes = taken(device);
  if (std::exchange(told_[device], bytes) == bytes) return;
  if (events_.on_taken) events_.on_taken(device, bytes);
}

void ExecutorHost::executor_ready(const Key& key) {
  for (const SandboxId id : seats_of(key)) add_if_possible(*seats_.at(id));
  clients_.executor_ready(key);
}

void ExecutorHost::executor_ended(const Key& key, const ExecutorEnd& how) {
  places_.executor_ended(key);
  loans_.executor_ended(key);
  elastic_.executor_ended(key);
  for (auto& [object, need] : needs_) need.told.erase(key);
  if (how.retired) return;
  // What used it may be started again from within on_end: then in another executor.
  const std::vector<SandboxId> all = seats_of(key);
  size_t suspects = 0;  // what ran, and what was being loaded
  for (const SandboxId id : all) {
    const Seat& seat = *seats_.at(id);
    if (seat.ready ? seat.current && !seat.waiting : seat.added) ++suspects;
  }
  suspects += clients_.added_to(key);
  // One that ran alone did it. Otherwise it was one of several: from now on they run alone, so that
  // the next time shows which.
  if (!how.guilt_is_known && suspects > 1) {
    for (const SandboxId id : all) {
      const Seat& seat = *seats_.at(id);
      if (seat.current && !seat.waiting && !seat.end_words) suspects_.insert(*seat.current);
    }
  }
  clients_.executor_ended(key, how);
  for (const SandboxId id : all) {
    const auto found = seats_.find(id);
    if (found == seats_.end()) continue;
    const Seat& seat = *found->second;
    if (seat.end_words) {
      end(id, *seat.end_words, false);
    } else if (seat.current) {
      end(id, {how.cause, "Kernel.Fault"}, how.guilt_is_known || suspects > 1 || seat.waiting);
    } else {
      // Who is known to have broken one that was ready is not who was only being let in.
      end(id, {how.cause, how.no_room ? kNoRoom : kPlatformFailure},
          !seat.ready && how.guilt_is_known && how.was_ready);
    }
  }
}

void ExecutorHost::add_client(SandboxId sandbox, const FunctionSpec& spec, DeviceId device,
                              OwnedFd listener, OwnedFd ledger,
                              std::function<void(const Error&, const std::string&)> on_lost) {
  clients_.add({sandbox, spec.id, executor_key(spec, device), spec.gpu.memory, spec.gpu.share,
                std::move(listener), std::move(ledger), supervisor_.longest_wait(spec),
                std::move(on_lost)});
}

// --- Seats ---

void ExecutorHost::start(SandboxId id, const FunctionSpec& spec, const std::string& code_folder,
                         DeviceId device) {
  auto owned = std::make_unique<Seat>();
  Seat& seat = *owned;
  seat.id = id;
  seat.key = executor_key(spec, device);
  seat.spec = spec;
  seat.requested_at = loop_.clock().now();
  seats_[id] = std::move(owned);
  supervisor_.need(seat.key, supervisor_.longest_wait(spec));
  if (calls_cublas_) tell_taken(device);

  struct Opening {
    KernelPackageOptions options;
    Result<std::vector<PackageFile>> files = std::vector<PackageFile>();
  };
  auto opening = std::make_shared<Opening>();
  opening->options = {code_folder, spec.handler, built_in_};
  const bool queued =
      run_files_([opening] { opening->files = open_kernel_package(opening->options); },
                 [this, opening, id, alive = std::weak_ptr(alive_)] {
                   if (alive.expired()) return;
                   const auto found = seats_.find(id);
                   if (found == seats_.end()) return;
                   if (!opening->files.ok()) {
                     const Error& error = opening->files.error();
                     return end(id, {error, start_error_type_of(error.code)}, false);
                   }
                   found->second->files = std::move(opening->files).value();
                   add_if_possible(*found->second);
                 });
  if (queued) return;
  seat.end_words = EndWords{{ErrorCode::kResourceExhausted, "too much work for the disk at once"},
                            kPlatformFailure};
  end_soon(id);
}

void ExecutorHost::change_share(const FunctionSpec& spec) {
  clients_.change_share(spec.id, spec.gpu.share);
  for (const auto& [id, seat] : seats_) {
    if (seat->spec.id != spec.id || seat->spec.gpu.share == spec.gpu.share) continue;
    seat->spec.gpu.share = spec.gpu.share;
    if (seat->added) supervisor_.send(seat->key, protocol::SetShare{id, spec.gpu.share});
  }
}

void ExecutorHost::add_if_possible(Seat& seat) {
  if (!supervisor_.ready(seat.key)) return;
  if (!seat.files || seat.end_words || std::exchange(seat.added, true)) return;
  protocol::AddSeat message;
  message.seat = seat.id;
  message.graph = seat.spec.handler;
  message.memory = seat.spec.gpu.memory;
  message.modelled = seat.key.modelled;
  message.share = seat.spec.gpu.share;
  std::vector<OwnedFd> fds;
  for (PackageFile& file : *seat.files) {
    message.files.push_back(std::move(file.name));
    fds.push_back(std::move(file.fd));
  }
  seat.files.reset();
  seat.added_at = loop_.clock().now();
  supervisor_.send(seat.key, std::move(message), std::move(fds));
}

void ExecutorHost::on(const Key& key, const protocol::SeatReady& message) {
  Seat* seat = seat_of(key, message.seat);
  if (seat == nullptr || seat->end_words || !seat->added || std::exchange(seat->ready, true)) {
    return;
  }
  seat->constants = message.constants;
  events_.on_ready(seat->id, seat->added_at - seat->requested_at,
                   loop_.clock().now() - seat->added_at);
}

void ExecutorHost::on(const Key& key, const protocol::SeatFailed& message) {
  Seat* seat = seat_of(key, message.seat);
  if (seat == nullptr || (seat->end_words && seat->ready)) return;
  // The package was checked when it was deployed. What the place lacks, another try may find.
  EndWords words =
      seat->end_words.value_or(EndWords{message.error, start_error_type_of(message.error.code)});
  if (seat->ready && seat->current && !seat->waiting) {
    seat->share_failed = std::move(words);
    return;
  }
  leave(*seat, std::move(words));
}

// A seat that runs nothing; what waits for it comes back undelivered.
void ExecutorHost::leave(const Seat& seat, EndWords words) {
  supervisor_.send(seat.key, protocol::RemoveSeat{seat.id});
  end(seat.id, std::move(words), seat.waiting.has_value());
}

void ExecutorHost::give(SandboxId id, const InvocationRequest& request) {
  const auto found = seats_.find(id);
  if (found == seats_.end()) return;  // its end is on the way to the worker
  Seat& seat = *found->second;
  seat.current = request.id;
  running_[request.id] = id;
  seat.given_at = loop_.clock().now();
  seat.time_to_live = request.time_to_live;
  seat.tail.clear();
  seat.tail.append("START RequestId: " + to_string(request.id) + " Version: $LATEST\n");
  protocol::Run run;
  run.invocation = request.id;
  run.seat = id;
  run.content_type = request.content_type;
  std::vector<OwnedFd> fds;
  if (request.payload.size() <= protocol::kInlinePayload.count) {
    run.payload = request.payload;
  } else {
    run.payload_attached = true;
    auto memfd = sealed_memory(request.payload);
    if (!memfd.ok()) {
      protocol::Finished failed;
      failed.invocation = request.id;
      failed.error = memfd.error();
      loop_.call_after(Duration(0), [this, key = seat.key, failed, alive = std::weak_ptr(alive_)] {
        if (!alive.expired()) finished(key, failed, {});
      });
      return;
    }
    fds.push_back(std::move(*memfd));
  }
  seat.waiting = std::move(run);
  seat.waiting_fds = std::move(fds);
  send_waiting(seat.key);
}

void ExecutorHost::send_waiting(const Key& key) {
  // What is given to one that is broken comes back undelivered.
  if (!supervisor_.ready(key)) return;
  size_t running = 0;
  bool suspect_runs = false;
  std::vector<Seat*> waiting;
  const auto is_suspect = [this](const Seat& seat) { return suspects_.contains(*seat.current); };
  for (const auto& [id, seat] : seats_) {
    if (seat->key != key || !seat->current) continue;
    if (!seat->waiting) {
      ++running;
      suspect_runs = suspect_runs || is_suspect(*seat);
    } else if (!seat->out && !seat->share_failed) {
      waiting.push_back(seat.get());
    }
  }
  // Suspects first, for they wait until nothing runs; and nothing new is sent while one waits.
  std::sort(waiting.begin(), waiting.end(), [&](const Seat* a, const Seat* b) {
    return std::pair(!is_suspect(*a), a->id) < std::pair(!is_suspect(*b), b->id);
  });
  for (Seat* seat : waiting) {
    if (suspect_runs || (is_suspect(*seat) && running > 0)) return;
    suspect_runs = is_suspect(*seat);
    ++running;
    supervisor_.send(key, *std::exchange(seat->waiting, std::nullopt),
                     std::exchange(seat->waiting_fds, {}));
  }
}

void ExecutorHost::move_memory(SandboxId id, bool out) {
  const auto found = seats_.find(id);
  if (found == seats_.end()) return;
  if (!found->second->ready) return events_.on_memory_moved(id, {.out = out, .done = !out});
  found->second->out = true;
  supervisor_.send(found->second->key, protocol::MoveSeat{id, out});
}

void ExecutorHost::on(const Key& key, const protocol::SeatMoved& message) {
  Seat* seat = seat_of(key, message.seat);
  if (seat == nullptr || !seat->ready) return;
  seat->out = message.out == message.done;
  send_waiting(key);
  MemoryMove move;
  move.out = message.out;
  move.done = message.done;
  move.moved = message.moved;
  // What stays lies in the part of the pool that the seats which are in have anyway.
  move.left = Bytes(0);
  move.duration = message.duration;
  events_.on_memory_moved(seat->id, move);
}

void ExecutorHost::stop(SandboxId id, Error error, std::string error_type) {
  const auto found = seats_.find(id);
  if (found == seats_.end() || found->second->end_words) return;
  Seat& seat = *found->second;
  seat.end_words = EndWords{std::move(error), std::move(error_type)};
  if (!seat.current || seat.waiting) {
    seat.waiting.reset();
    if (seat.added) supervisor_.send(seat.key, protocol::RemoveSeat{id});
    return end_soon(id);
  }
  // A loop with a flag ends with its round. What takes longer than the grace, be it such a round,
  // steps that are queued or a kernel that hangs, takes its executor with it.
  supervisor_.send(seat.key, protocol::RemoveSeat{id});
  seat.grace = loop_.call_after(kGrace, [this, id] {
    const auto hung = seats_.find(id);
    if (hung == seats_.end()) return;
    supervisor_.end_hung(hung->second->key, hung->second->end_words->error);
  });
}

// The caller is in the middle of handling an event: its answer comes in the next turn.
void ExecutorHost::end_soon(SandboxId id) {
  loop_.call_after(Duration(0), [this, id, alive = std::weak_ptr(alive_)] {
    if (alive.expired()) return;
    const auto found = seats_.find(id);
    if (found != seats_.end()) end(id, *found->second->end_words, false);
  });
}

void ExecutorHost::end(SandboxId id, EndWords words, bool undelivered) {
  const auto found = seats_.find(id);
  const std::unique_ptr<Seat> seat = std::move(found->second);
  seats_.erase(found);
  supervisor_.left(seat->key);
  if (calls_cublas_) tell_taken(seat->key.device);
  loop_.cancel(seat->grace);
  if (seat->current) {
    running_.erase(*seat->current);
    if (!undelivered) suspects_.erase(*seat->current);
  }
  SandboxEnd end;
  end.sandbox = id;
  end.undelivered = undelivered;
  end.error = std::move(words.error);
  end.error_type = std::move(words.type);
  std::string message = end.error.message;
  if (seat->current) {
    const std::string invocation = to_string(*seat->current);
    message = "RequestId: " + invocation + " " + message;
    seat->tail.append("ERROR " + message + "\nEND RequestId: " + invocation + "\n");
    events_.on_output(seat->spec.id, seat->tail.text());
  }
  end.payload = runtime_api::error_json(end.error_type, message);
  end.device_memory_peak = seat->device_memory_peak;
  end.log_tail = seat->tail.text();
  events_.on_end(std::move(end));
}

ExecutorHost::Seat* ExecutorHost::seat_of(const Key& key, SandboxId id) {
  const auto found = seats_.find(id);
  return found != seats_.end() && found->second->key == key ? found->second.get() : nullptr;
}

std::vector<SandboxId> ExecutorHost::seats_of(const Key& key) const {
  std::vector<SandboxId> ids;
  for (const auto& [id, seat] : seats_) {
    if (seat->key == key) ids.push_back(id);
  }
  std::sort(ids.begin(), ids.end());
  return ids;
}

RunReport ExecutorHost::glimpse(SandboxId id) const {
  const auto found = seats_.find(id);
  if (found == seats_.end()) return {};
  RunReport report;
  report.device_memory_peak = found->second->device_memory_peak;
  report.log_tail = found->second->tail.text();
  return report;
}

std::vector<SandboxStatus> ExecutorHost::status() const {
  std::vector<SandboxStatus> all;
  for (const auto& [id, seat] : seats_) {
    SandboxStatus status;
    status.id = id;
    status.function = seat->spec.name;
    status.state = seat->end_words ? "stopping"
                   : !seat->ready  ? "starting"
                   : seat->current ? "busy"
                                   : "idle";
    status.pid = supervisor_.pid_of(seat->key);
    status.device = seat->key.device;
    status.age = loop_.clock().now() - seat->requested_at;
    status.invocations = seat->invocations;
    status.device_memory = seat->device_memory;
    all.push_back(std::move(status));
  }
  return all;
}

}  // namespace lambent::worker
