#include "node/worker/executor_process.h"

#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <utility>

#include "core/base/packet.h"
#include "node/objects/limits.h"

namespace lambent::worker {
namespace {

using protocol::ExecutorMessage;

// What one executor may have of a turn of the loop.
constexpr int kMessagesPerTurn = 64;
constexpr size_t kOutputPerTurn = 64 * 1024;
// Messages that it has not read. Short ones are of objects, of which many may go in one turn.
constexpr size_t kMostOutgoing = 4096;
constexpr size_t kMostShortOutgoing = 4 * limits::kObjectsOfTenant;
constexpr size_t kShortMessage = 128;
// From the launch until its context is there.
constexpr Duration kHelloTimeout = seconds(30);
// How long one that is not wanted yet waits for memory, and how often is looked: others' memory
// moves in as much.
constexpr Duration kRoomTimeout = seconds(30);
constexpr Duration kRoomPeriod = milliseconds(10);
// From hanging up until it is gone.
constexpr Duration kEndTimeout = milliseconds(250);

std::vector<int> numbers_of(const std::vector<OwnedFd>& fds) {
  std::vector<int> numbers;
  for (const OwnedFd& fd : fds) numbers.push_back(fd.get());
  return numbers;
}

Error end_of(const sandbox::Exit& exit) {
  if (exit.out_of_memory) {
    return {ErrorCode::kResourceExhausted, "lambent-executor used more host memory than it may"};
  }
  // No kernel does that: another process killed it.
  const bool was_killed = exit.signal == SIGKILL;
  return {was_killed ? ErrorCode::kUnavailable : ErrorCode::kInternal,
          "lambent-executor ended: " + sandbox::to_string(exit)};
}

// What came with a message whose descriptors did not: who waits for them is told. The process is
// not to blame; it is the worker that has no room for them. An export without its memory goes back.
void without_descriptors(ExecutorMessage& message) {
  const Error lost{ErrorCode::kResourceExhausted, "the worker cannot have as many files open"};
  if (auto* finished = std::get_if<protocol::Finished>(&message)) {
    if (!finished->error) finished->error = lost;
  } else if (auto* written = std::get_if<protocol::ObjectWritten>(&message)) {
    if (!written->error) written->error = lost;
  }
}

}  // namespace

ExecutorProcess::ExecutorProcess(loop::EventLoop& loop, LogSink& log, sandbox::Launcher& launcher,
                                 const ExecutorSetting& setting, ExecutorRequest request,
                                 Events events)
    : loop_(loop),
      log_(log),
      launcher_(launcher),
      request_(std::move(request)),
      seen_(devices_seen(setting, request_)),
      plan_(plan_executor(setting, request_)),
      context_memory_(setting.context_memory),
      events_(std::move(events)),
      room_by_(loop.clock().now() + kRoomTimeout) {
  auto listener = listen_packets(request_.socket_path, 0666);
  if (!listener.ok()) {
    loop_.call_after(Duration(0), [this, alive = std::weak_ptr(alive_), error = listener.error()] {
      if (!alive.expired()) end(error.with_context("listen for lambent-executor"));
    });
    return;
  }
  listener_ = std::move(listener).value();
  listener_watch_ =
      loop_.watch(listener_.get(), true, false, [this](loop::Readiness) { accept_it(); });
  if (!events_.has_room) {
    launch();
    return;
  }
  // Its launch has told by then that it takes memory.
  loop_.call_after(Duration(0), [this, alive = std::weak_ptr(alive_)] {
    if (!alive.expired()) launch_when_it_has_room();
  });
}

void ExecutorProcess::launch_when_it_has_room() {
  if (ending_) return end(*ending_);
  const bool has_room = events_.has_room();
  if (ending_) return end(*ending_);
  if (has_room) return launch();
  if (loop_.clock().now() >= room_by_) {
    found_no_room_ = true;
    return end({ErrorCode::kResourceExhausted,
                "functions that run leave no room on the device for the context of "
                "lambent-executor, which needs " +
                    to_string(context_memory_) + " of its memory free"});
  }
  loop_.call_after(kRoomPeriod, [this, alive = std::weak_ptr(alive_)] {
    if (!alive.expired()) launch_when_it_has_room();
  });
}

void ExecutorProcess::launch() {
  launcher_.launch(*std::exchange(plan_, std::nullopt),
                   [this, alive = std::weak_ptr(alive_)](Result<sandbox::Started> result) {
                     if (!alive.expired()) started(std::move(result));
                   });
  loop_.call_after(kHelloTimeout, [this, alive = std::weak_ptr(alive_)] {
    if (alive.expired() || ready_) return;
    kill({ErrorCode::kDeadlineExceeded,
          "lambent-executor had no context on the device within 30 seconds"});
  });
}

ExecutorProcess::~ExecutorProcess() {
  if (!ended_) launcher_.kill(request_.executor);
  unlink(request_.socket_path.c_str());
  if (!request_.link_path.empty()) unlink(request_.link_path.c_str());
}

void ExecutorProcess::started(Result<sandbox::Started> result) {
  if (!result.ok()) {
    end(ending_ ? *ending_ : result.error().with_context("start lambent-executor"));
    return;
  }
  pid_ = result->pid;
  output_ = std::move(result->output);
  output_watch_ = loop_.watch(output_.get(), true, false,
                              [this](loop::Readiness) { read_output(kOutputPerTurn); });
}

// The first who calls is the executor: the socket is shown only in its sandbox.
void ExecutorProcess::accept_it() {
  socket_ = OwnedFd(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (!socket_.valid()) return;
  listener_watch_.reset();
  listener_.reset();
  socket_watch_ = loop_.watch(socket_.get(), true, false, [this](loop::Readiness readiness) {
    if (readiness.writable) flush();
    receive();
  });
}

void ExecutorProcess::receive() {
  // Written to by recvmsg before it is read.
  std::array<char, protocol::kExecutorMessage.count> buffer;
  for (int count = 0; count < kMessagesPerTurn; ++count) {
    auto packet = receive_packet(socket_.get(), buffer);
    if (packet.ok() && !packet->has_value()) return;
    if (!packet.ok()) {
      // It hung up: mostly because it ended, and then the launcher says how. Should it live on, it
      // is of no use.
      socket_watch_.reset();
      loop_.call_after(kEndTimeout, [this, alive = std::weak_ptr(alive_)] {
        if (!alive.expired()) kill({ErrorCode::kInternal, "lambent-executor hung up"});
      });
      return;
    }
    Packet& got = **packet;
    Result<ExecutorMessage> message =
        got.truncated && !got.lost_fds
            ? Result<ExecutorMessage>(Error{ErrorCode::kInvalidArgument, "too long a message"})
            : protocol::decode_executor_message({buffer.data(), got.size});
    if (got.lost_fds) {
      got.fds.clear();  // some may have come, and which is unknown
      if (message.ok()) without_descriptors(*message);
    }
    const std::weak_ptr alive = alive_;
    if (!message.ok() || !take(std::move(message).value(), std::move(got.fds))) {
      if (alive.expired()) return;
      socket_watch_.reset();
      return kill({ErrorCode::kInternal, "lambent-executor does not keep to the protocol"});
    }
    if (alive.expired() || ending_) return;
  }
}

bool ExecutorProcess::take(ExecutorMessage message, std::vector<OwnedFd> fds) {
  if (const auto* hello = std::get_if<protocol::ExecutorHello>(&message)) {
    if (hello->version != protocol::kExecutorProtocolVersion || std::exchange(ready_, true)) {
      return false;
    }
    for (const uint32_t ordinal : hello->peers) {
      if (ordinal == 0 || ordinal >= seen_.size()) return false;
      peers_.push_back(seen_[ordinal]);
    }
    log_.info("executor_ready", {{"gpu", static_cast<int64_t>(request_.device.value) - 1},
                                 {"pid", int64_t{pid_}},
                                 {"context_ms", to_milliseconds(hello->context_time)}});
    launcher_.ready(request_.executor);
    events_.on_ready();
    return true;
  }
  if (!ready_) return false;
  events_.on_message(std::move(message), std::move(fds));
  return true;
}

void ExecutorProcess::send(ExecutorMessage message, std::vector<OwnedFd> fds) {
  if (!socket_.valid() || ending_) return;  // its end is on the way
  std::string bytes = protocol::encode(std::move(message));
  if (outgoing_.empty()) {
    const auto sent = send_packet(socket_.get(), bytes, numbers_of(fds));
    if (sent.ok()) return;
    if (sent.error().code == ErrorCode::kUnavailable) return;  // receive() finds out
    if (sent.error().code != ErrorCode::kResourceExhausted) return kill(sent.error());
  }
  const bool is_short = bytes.size() <= kShortMessage && fds.empty();
  if (is_short ? outgoing_.size() >= kMostShortOutgoing : long_outgoing_ >= kMostOutgoing) {
    return kill({ErrorCode::kInternal, "lambent-executor does not read its messages"});
  }
  if (!is_short) ++long_outgoing_;
  outgoing_.push_back({std::move(bytes), std::move(fds), is_short});
  socket_watch_.update(true, true);
}

void ExecutorProcess::flush() {
  while (!outgoing_.empty()) {
    const Outgoing& next = outgoing_.front();
    const auto sent = send_packet(socket_.get(), next.bytes, numbers_of(next.fds));
    if (!sent.ok()) {
      if (sent.error().code == ErrorCode::kResourceExhausted) return;
      if (sent.error().code == ErrorCode::kUnavailable) return;
      return kill(sent.error());
    }
    if (!next.is_short) --long_outgoing_;
    outgoing_.pop_front();
  }
  socket_watch_.update(true, false);
}

void ExecutorProcess::kill(Error reason) {
  if (!ending_) ending_ = std::move(reason);
  launcher_.kill(request_.executor);
}

void ExecutorProcess::exited(const sandbox::Exit& exit) {
  read_output(kOutputPerTurn * 16);
  const bool by_itself = !exit.killed || !ending_;
  end(by_itself ? end_of(exit) : *ending_);
}

void ExecutorProcess::end(Error reason) {
  if (std::exchange(ended_, true)) return;
  log_.warning("executor_ended", {{"gpu", static_cast<int64_t>(request_.device.value) - 1},
                                  {"error", to_string(reason)}});
  socket_watch_.reset();
  listener_watch_.reset();
  output_watch_.reset();
  const auto on_end = std::move(events_.on_end);
  on_end(std::move(reason));
}

void ExecutorProcess::read_output(size_t most) {
  std::array<char, 16 * 1024> buffer;
  for (size_t total = 0; total < most && output_.valid();) {
    const ssize_t got = read(output_.get(), buffer.data(), buffer.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return;
    if (got == 0) {
      output_watch_.reset();
      output_.reset();
      return;
    }
    total += static_cast<size_t>(got);
    events_.on_output(std::string_view(buffer.data(), static_cast<size_t>(got)));
  }
}

}  // namespace lambent::worker
