#include "worker/executor_host.h"

#include <algorithm>
#include <utility>

#include "base/sealed_memory.h"
#include "domain/limits.h"
#include "runtime_api/error_type.h"

namespace lambent::worker {
namespace {

// What a seat is given to end what it runs, before its executor is ended.
constexpr Duration kGrace = milliseconds(250);

std::string_view error_type_of(ErrorCode code) {
  switch (code) {
    case ErrorCode::kInvalidArgument:
    case ErrorCode::kOutOfRange:
      return "Request.Invalid";
    case ErrorCode::kNotFound:
      return "Object.NotFound";
    case ErrorCode::kDeadlineExceeded:
      return "Object.NotThere";
    case ErrorCode::kResourceExhausted:
      return "Kernel.ResourceExhausted";
    case ErrorCode::kUnknown:
    case ErrorCode::kAborted:
    case ErrorCode::kCancelled:
    case ErrorCode::kDataLoss:
      return "Object.Failed";
    default:
      return "Kernel.Fault";
  }
}

// Why a seat could not be made: "Sandbox.Failure" is tried again.
std::string start_error_type_of(ErrorCode code) {
  const bool is_mistake = code == ErrorCode::kInvalidArgument || code == ErrorCode::kNotFound ||
                          code == ErrorCode::kFailedPrecondition;
  return is_mistake ? "Runtime.InvalidEntrypoint" : "Sandbox.Failure";
}

std::string milliseconds_text(Duration duration) {
  const int64_t hundredths = (duration.count() + 5'000) / 10'000;
  const std::string fraction = std::to_string(100 + hundredths % 100);
  return std::to_string(hundredths / 100) + "." + fraction.substr(1) + " ms";
}

// The content of the sealed memfd that an executor says it sent.
Result<std::string> read_answer(const OwnedFd& fd) {
  ASSIGN_OR_RETURN(const Bytes size, check_sealed(fd.get()));
  if (size > limits::kResponsePayload) {
    return Error{ErrorCode::kOutOfRange, "the answer has " + std::to_string(size.count) +
                                             " bytes; at most " +
                                             std::to_string(limits::kResponsePayload.count) +
                                             " fit. Ask for large outputs as objects"};
  }
  return read_memory(fd.get(), Bytes(0), size);
}

}  // namespace

struct ExecutorHost::Seat {
  SandboxId id;
  Key key;
  FunctionSpec spec;
  Instant requested_at{};
  Instant added_at{};
  // Until it is added.
  std::optional<std::vector<PackageFile>> files;
  bool added = false;
  bool ready = false;
  uint64_t invocations = 0;
  Bytes device_memory;
  Bytes device_memory_peak;
  bool out = false;  // its memory is, or will be
  std::optional<InvocationId> current;
  Instant given_at{};
  // What `current` is to run with, until the seat's memory is in.
  std::optional<protocol::Run> waiting;
  std::vector<OwnedFd> waiting_fds;
  LogTail tail;
  std::optional<EndWords> end_words;  // why it is being stopped
  loop::TimerId grace;
};

ExecutorHost::ExecutorHost(Foundations foundations, ExecutorSetting setting, std::string run_folder,
                           Events events)
    : loop_(foundations.loop),
      log_(foundations.log),
      objects_(foundations.objects),
      run_files_(std::move(foundations.run_files)),
      built_in_(setting.built_in),
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
           .is_used = [this](const Key& key) { return is_used(key); },
           .serve_link = link_server(),
           .forget_link = events_.forget_link}),
      clients_(supervisor_),
      loans_(foundations.loop, supervisor_) {}

ExecutorHost::~ExecutorHost() {
  for (const auto& [id, seat] : seats_) loop_.cancel(seat->grace);
}

// Executors have turns on the link, and lease nothing.
std::function<void(SandboxId, DeviceId, OwnedFd)> ExecutorHost::link_server() const {
  if (!events_.serve_link) return {};
  return [this](SandboxId executor, DeviceId device, OwnedFd listener) {
    events_.serve_link(executor, device, Bytes(0), std::move(listener));
  };
}

// --- Executors ---

void ExecutorHost::keep(const FunctionSpec& spec, DeviceId device) {
  supervisor_.keep(executor_key(spec, device));
}

void ExecutorHost::leave(DeviceId device) {
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

void ExecutorHost::executor_ready(const Key& key) {
  for (const SandboxId id : seats_of(key)) add_if_possible(*seats_.at(id));
  clients_.executor_ready(key);
}

void ExecutorHost::executor_ended(const Key& key, const ExecutorEnd& how) {
  loans_.executor_ended(key);
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
      end(id, {how.cause, "Sandbox.Failure"}, false);
    }
  }
}

void ExecutorHost::add_client(SandboxId sandbox, const FunctionSpec& spec, DeviceId device,
                              OwnedFd listener, OwnedFd ledger,
                              std::function<void(const Error&)> on_lost) {
  clients_.add({sandbox, executor_key(spec, device), spec.gpu.memory, spec.gpu.share,
                std::move(listener), std::move(ledger), std::move(on_lost)});
}

void ExecutorHost::heard(const Key& key, protocol::ExecutorMessage message,
                         std::vector<OwnedFd> fds) {
  if (auto* finish = std::get_if<protocol::Finished>(&message)) {
    finished(key, std::move(*finish), std::move(fds));
  } else if (const auto* ready = std::get_if<protocol::SeatReady>(&message)) {
    on(key, *ready);
  } else if (const auto* failed = std::get_if<protocol::SeatFailed>(&message)) {
    on(key, *failed);
  } else if (const auto* moved = std::get_if<protocol::SeatMoved>(&message)) {
    on(key, *moved);
  } else if (const auto* open = std::get_if<protocol::OpenObject>(&message)) {
    on(key, *open);
  } else if (const auto* lent = std::get_if<protocol::ObjectLent>(&message)) {
    on(key, *lent, std::move(fds));
  } else if (const auto* loan = std::get_if<protocol::LoanEnded>(&message)) {
    loans_.ended(key, loan->object);
  } else {
    supervisor_.end_broken(
        key, {ErrorCode::kInternal, "lambent-executor sent what only the worker says"});
  }
}

void ExecutorHost::on(const Key& key, const protocol::OpenObject& message) {
  // It must be there by now: who waits for one holds no place on a device meanwhile.
  const SandboxId executor = supervisor_.process_of(key);
  const auto reply = [this, key, executor, object = message.object, alive = std::weak_ptr(alive_)](
                         Result<objects::OpenedObject> opened,
                         std::optional<ObjectLoans::Loan> loan) {
    if (alive.expired() || supervisor_.process_of(key) != executor) return;
    protocol::ObjectOpened answer;
    answer.object = object;
    std::vector<OwnedFd> fds;
    if (opened.ok()) {
      answer.type = opened->type;
      fds.push_back(std::move(opened->memfd));
    } else {
      answer.error = opened.error();
    }
    if (loan) {
      answer.lent = loan->size;
      fds.push_back(std::move(loan->memory));
    }
    supervisor_.send(key, std::move(answer), std::move(fds));
  };
  if (objects_ == nullptr) {
    return reply(Error{ErrorCode::kNotFound, "there is no object " + to_string(message.object)},
                 std::nullopt);
  }
  objects_->open(key.tenant, message.object, loop_.clock().now(),
                 [this, key, reply, object = message.object,
                  alive = std::weak_ptr(alive_)](Result<objects::OpenedObject> opened) {
                   if (alive.expired()) return;
                   if (!opened.ok()) return reply(std::move(opened), std::nullopt);
                   auto found = std::make_shared<objects::OpenedObject>(std::move(*opened));
                   const auto with_loan = [reply, found](std::optional<ObjectLoans::Loan> loan) {
                     reply(std::move(*found), std::move(loan));
                   };
                   if (!loans_.borrow(object, key, with_loan)) with_loan(std::nullopt);
                 });
}

void ExecutorHost::on(const Key& key, const protocol::ObjectLent& message,
                      std::vector<OwnedFd> fds) {
  const bool is_lent = !message.error && fds.size() == 1;
  loans_.lent(key, message.object,
              is_lent ? std::optional(ObjectLoans::Loan{message.lent, std::move(fds.front())})
                      : std::nullopt);
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
  supervisor_.need(seat.key);

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
                            "Sandbox.Failure"};
  end_soon(id);
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
  events_.on_ready(seat->id, seat->added_at - seat->requested_at,
                   loop_.clock().now() - seat->added_at);
}

void ExecutorHost::on(const Key& key, const protocol::SeatFailed& message) {
  Seat* seat = seat_of(key, message.seat);
  if (seat == nullptr || seat->ready) return;
  if (seat->end_words) return end(seat->id, *seat->end_words, false);
  // The package was checked when it was deployed. What the place lacks, another try may find.
  end(seat->id, {message.error, start_error_type_of(message.error.code)}, false);
}

void ExecutorHost::give(SandboxId id, const InvocationRequest& request) {
  const auto found = seats_.find(id);
  if (found == seats_.end()) return;  // its end is on the way to the worker
  Seat& seat = *found->second;
  seat.current = request.id;
  running_[request.id] = id;
  seat.given_at = loop_.clock().now();
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
    } else if (!seat->out) {
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

void ExecutorHost::finished(const Key& key, protocol::Finished message, std::vector<OwnedFd> fds) {
  const auto given = running_.find(message.invocation);
  Seat* seat = given != running_.end() ? seat_of(key, given->second) : nullptr;
  if (seat == nullptr) return;
  seat->device_memory = message.device_memory;
  seat->device_memory_peak = std::max(seat->device_memory, message.device_memory_peak);
  if (!seat->end_words) {
    answer(*seat, message, take_results(key, message, fds));
    return send_waiting(key);
  }
  // It was to be stopped, and ended what it ran in time.
  supervisor_.send(key, protocol::RemoveSeat{seat->id});
  end(seat->id, *seat->end_words, false);
}

// Stores what became objects; the payload of the answer, or why it failed.
Result<std::string> ExecutorHost::take_results(const Key& key, protocol::Finished& message,
                                               std::vector<OwnedFd>& fds) {
  if (message.error) return *message.error;
  const size_t first_object = message.payload_attached ? 1 : 0;
  if (fds.size() != first_object + message.objects.size()) {
    return Error{ErrorCode::kInternal, "lambent-executor sent an answer without its objects"};
  }
  std::string payload = std::move(message.payload);
  if (message.payload_attached) {
    ASSIGN_OR_RETURN(payload, read_answer(fds.front()));
  }
  for (size_t i = 0; i < message.objects.size(); ++i) {
    const protocol::OutputObject& output = message.objects[i];
    if (output.object.maker != message.invocation || objects_ == nullptr) {
      return Error{ErrorCode::kInternal, "lambent-executor made an object that is not its own"};
    }
    auto stored =
        objects_->store(key.tenant, output.object, output.type, std::move(fds[first_object + i]));
    // One that ran twice, because its executor went in between, may have made it before.
    if (!stored.ok() && stored.error().code != ErrorCode::kAlreadyExists) {
      return stored.error().with_context("output " + std::to_string(output.object.number));
    }
    if (const auto size = byte_size(output.type); size.ok()) {
      loans_.made(output.object, *size, key);
    }
  }
  return payload;
}

void ExecutorHost::answer(Seat& seat, const protocol::Finished& message,
                          Result<std::string> payload) {
  seat.current.reset();
  running_.erase(message.invocation);
  suspects_.erase(message.invocation);
  ++seat.invocations;
  HandlerAnswer answer;
  answer.invocation = message.invocation;
  answer.succeeded = payload.ok();
  answer.execution = loop_.clock().now() - seat.given_at;
  const std::string id = to_string(message.invocation);
  if (payload.ok()) {
    answer.payload = std::move(payload).value();
  } else {
    answer.error_type = error_type_of(payload.error().code);
    answer.payload = runtime_api::error_json(answer.error_type, to_string(payload.error()));
    seat.tail.append("ERROR RequestId: " + id + " " + to_string(payload.error()) + "\n");
  }
  seat.tail.append("END RequestId: " + id + "\nREPORT RequestId: " + id +
                   "\tDuration: " + milliseconds_text(answer.execution) +
                   "\tObjects: " + milliseconds_text(message.objects_time) +
                   "\tCopy In: " + milliseconds_text(message.copy_in_time) +
                   "\tRun: " + milliseconds_text(message.run_time) +
                   "\tCopy Out: " + milliseconds_text(message.copy_out_time) + "\n");
  answer.device_memory_now = seat.device_memory;
  answer.device_memory_peak = seat.device_memory_peak;
  answer.log_tail = seat.tail.text();
  events_.on_output(seat.spec.id, answer.log_tail);
  events_.on_answer(seat.id, std::move(answer));
}

// What a kernel prints. Whose it is can only be said while one runs alone.
void ExecutorHost::printed(const Key& key, std::string_view text) {
  Seat* alone = nullptr;
  size_t running = 0;
  for (const SandboxId id : seats_of(key)) {
    Seat& seat = *seats_.at(id);
    if (!seat.current) continue;
    ++running;
    alone = &seat;
  }
  if (running == 1) return alone->tail.append(text);
  log_.info("executor_printed", {{"gpu", static_cast<int64_t>(key.device.value) - 1},
                                 {"text", std::string(text.substr(0, limits::kLogTail.count))}});
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

SandboxHost::Glimpse ExecutorHost::glimpse(SandboxId id) const {
  const auto found = seats_.find(id);
  if (found == seats_.end()) return {};
  return {found->second->tail.text(), found->second->device_memory_peak};
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
