#include "gpu/monitor/device_monitor.h"

#include <errno.h>
#include <sys/socket.h>

#include <algorithm>
#include <map>
#include <optional>
#include <span>

#include "core/base/packet.h"
#include "core/protocol/memory_codec.h"
#include "gpu/monitor/device_process.h"

namespace lambent::monitor {
namespace {

using protocol::DeviceMessage;
using protocol::DevicesFaulted;
using protocol::DevicesFound;
using protocol::DevicesRead;
using protocol::DevicesUnavailable;
using protocol::MemoryMessage;
using protocol::MemoryMessageKind;

struct ServedSandbox {
  std::vector<uint32_t> devices;
  Bytes most_leased;
  OwnedFd listener;
};

}  // namespace

// At most one process at a time: a process that is stuck in the driver and does not die is waited
// for, not replaced, so that they cannot pile up.
struct DeviceMonitor::State {
  State(loop::EventLoop& on, LogSink& to, DeviceMonitorOptions with, DeviceMonitorCallbacks call)
      : loop(on), log(to), options(std::move(with)), callbacks(std::move(call)) {}
  ~State() {
    disarm();
    socket_watch.reset();
    exit_watch.reset();
  }

  void spawn();
  void socket_ready();
  void take(const DeviceMessage& message);
  void give_up(const Error& why);
  void process_ended();
  void arm(Duration delay, loop::EventLoop::Task task);
  void disarm();
  void tell_to_serve(SandboxId id, const ServedSandbox& sandbox);
  bool tell(const MemoryMessage& message, std::span<const int> fds);

  loop::EventLoop& loop;
  LogSink& log;
  DeviceMonitorOptions options;
  DeviceMonitorCallbacks callbacks;
  std::unique_ptr<DeviceProcess> process;
  loop::Watch socket_watch;
  loop::Watch exit_watch;
  // Runs out when the process is silent for too long, or when it is time to start the next.
  std::optional<loop::TimerId> timer;
  Duration back_off = Duration::zero();
  std::optional<std::vector<protocol::DeviceInventory>> known_devices;
  std::map<SandboxId, ServedSandbox> sandboxes;
};

void DeviceMonitor::State::arm(Duration delay, loop::EventLoop::Task task) {
  disarm();
  timer = loop.call_after(delay, [this, task = std::move(task)] {
    timer.reset();
    task();
  });
}

void DeviceMonitor::State::disarm() {
  if (timer.has_value()) loop.cancel(*timer);
  timer.reset();
}

void DeviceMonitor::State::spawn() {
  std::vector<std::string> more_words = {"--host-memory",
                                         std::to_string(options.host_memory.count)};
  if (options.sparse_leases) more_words.push_back("--sparse-leases");
  if (!options.driver_folder.empty()) {
    more_words.insert(more_words.end(), {"--driver-folder", options.driver_folder});
  }
  auto spawned = DeviceProcess::spawn(options.program, options.nvml, options.period, more_words,
                                      options.environment);
  if (!spawned.ok()) {
    give_up(spawned.error());
    return;
  }
  process = std::move(spawned).value();
  log.debug("device_process_started", {{"pid", int64_t{process->id()}}});
  socket_watch =
      loop.watch(process->socket(), true, false, [this](loop::Readiness) { socket_ready(); });
  exit_watch =
      loop.watch(process->exit_fd(), true, false, [this](loop::Readiness) { process_ended(); });
  for (const auto& [id, sandbox] : sandboxes) tell_to_serve(id, sandbox);
  arm(options.most_start_time, [this] {
    give_up(Error{ErrorCode::kUnavailable, "lambent-device did not come up in time"});
  });
}

// One message a turn: the loop comes back for more. Ends of file and errors are left to the exit
// watch, unless the process lives on without its socket.
void DeviceMonitor::State::socket_ready() {
  std::byte buffer[protocol::kMostDeviceMessage];
  const ssize_t got = recv(process->socket(), buffer, sizeof(buffer), MSG_DONTWAIT);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (got <= 0) {
    give_up(Error{ErrorCode::kUnavailable, "lambent-device closed its socket"});
    return;
  }
  const auto message = protocol::decode_device_message(std::span(buffer, static_cast<size_t>(got)));
  if (!message.ok()) {
    give_up(message.error().with_context("lambent-device"));
    return;
  }
  take(*message);
}

void DeviceMonitor::State::take(const DeviceMessage& message) {
  if (const auto* unavailable = std::get_if<DevicesUnavailable>(&message)) {
    give_up(Error{ErrorCode::kUnavailable, unavailable->reason});
    return;
  }
  arm(options.most_silence, [this] {
    give_up(Error{ErrorCode::kUnavailable, "lambent-device fell silent: NVML may hang"});
  });
  if (const auto* found = std::get_if<DevicesFound>(&message)) {
    if (known_devices == found->devices) return;
    known_devices = found->devices;
    callbacks.devices_found(found->devices);
  } else if (const auto* read = std::get_if<DevicesRead>(&message)) {
    back_off = Duration::zero();
    callbacks.devices_read(read->readings);
  } else if (const auto* faulted = std::get_if<DevicesFaulted>(&message)) {
    if (callbacks.devices_faulted) callbacks.devices_faulted(faulted->faults);
  }
}

// Ends the process, if there is one; the next starts after the back-off, but never before the end.
void DeviceMonitor::State::give_up(const Error& why) {
  log.warning("device_process_given_up", {{"error", to_string(why)}});
  back_off = std::clamp(back_off * 2, options.first_back_off, options.most_back_off);
  disarm();
  socket_watch.reset();
  if (process != nullptr) {
    process->kill();
  } else {
    arm(back_off, [this] { spawn(); });
  }
  callbacks.devices_silent(why);
}

void DeviceMonitor::State::process_ended() {
  const bool was_given_up = !socket_watch.active();
  if (!was_given_up) {
    // What it said last is still in the socket, and may be the reason.
    socket_ready();
    if (socket_watch.active()) return;
  }
  exit_watch.reset();
  process.reset();
  arm(back_off, [this] { spawn(); });
}

void DeviceMonitor::State::tell_to_serve(SandboxId id, const ServedSandbox& sandbox) {
  MemoryMessage message;
  message.sequence = id.value;
  message.kind = MemoryMessageKind::kServeOnDeviceToo;
  for (size_t i = 1; i < sandbox.devices.size(); ++i) {
    message.process = sandbox.devices[i];
    // Without one of them the numbers of all behind it would be wrong.
    if (!tell(message, {})) return;
  }
  message.kind = MemoryMessageKind::kServeSandbox;
  message.bytes = sandbox.most_leased.count;
  message.process = sandbox.devices.front();
  const int listener[] = {sandbox.listener.get()};
  tell(message, listener);
}

// A sandbox that it is not told of copies without turns and cannot lease: slower, but it works.
bool DeviceMonitor::State::tell(const MemoryMessage& message, std::span<const int> fds) {
  if (process == nullptr) return false;
  const auto sent = send_packet(process->memory_socket(), protocol::bytes_of(message), fds);
  if (!sent.ok()) log.warning("device_process_not_told", {{"error", to_string(sent.error())}});
  return sent.ok();
}

DeviceMonitor::DeviceMonitor(loop::EventLoop& loop, LogSink& log, DeviceMonitorOptions options,
                             DeviceMonitorCallbacks callbacks)
    : state_(std::make_unique<State>(loop, log, std::move(options), std::move(callbacks))) {}

DeviceMonitor::~DeviceMonitor() = default;

void DeviceMonitor::start() {
  if (state_->process == nullptr && !state_->timer.has_value()) state_->spawn();
}

void DeviceMonitor::serve_sandbox(SandboxId sandbox, std::vector<uint32_t> devices,
                                  Bytes most_leased, OwnedFd listener) {
  ServedSandbox& served = state_->sandboxes[sandbox];
  served = {std::move(devices), most_leased, std::move(listener)};
  state_->tell_to_serve(sandbox, served);
}

void DeviceMonitor::forget_sandbox(SandboxId sandbox) {
  if (state_->sandboxes.erase(sandbox) == 0) return;
  MemoryMessage message;
  message.kind = MemoryMessageKind::kForgetSandbox;
  message.sequence = sandbox.value;
  state_->tell(message, {});
}

}  // namespace lambent::monitor
