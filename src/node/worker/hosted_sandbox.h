// HostedSandbox: one sandbox of a SandboxHost. Included by the sources of SandboxHost only.
#pragma once

#include <algorithm>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "node/worker/sandbox_host.h"

namespace lambent::worker {

// What is told of the end of a sandbox that we stop.
struct EndWords {
  Error error;
  std::string type;
};

// What is read at most when an invocation ends, to catch the last lines that it printed.
constexpr size_t kOutputAtEnd = 1024 * 1024;
// A single turn of the loop reads at most this much of what one sandbox prints.
constexpr size_t kOutputPerTurn = 64 * 1024;

struct HostedSandbox {
  explicit HostedSandbox(BackendObserver& started_for) : observer(started_for) {}

  BackendObserver& observer;
  SandboxId id;
  FunctionSpec spec;
  DeviceId device;
  pid_t pid = 0;
  Instant requested_at{};
  Instant executed_at{};
  bool executed = false;
  bool initialised = false;
  enum class WarmUp { kNone, kRuns, kDone } warm_up = WarmUp::kNone;
  Instant warm_up_began{};
  Bytes most_response;
  size_t most_in_flight = 1;
  uint64_t invocations = 0;

  // By the Runtime API, or, of an HTTP function, by its own port.
  std::unique_ptr<runtime_api::Session> session;
  std::unique_ptr<http_relay::Session> relay;
  // Digest of the plan that it was started with; empty: another program could not go on with it.
  std::string plan_digest;
  Duration sandbox_time{}, init_time{};
  OwnedFd output;
  loop::Watch output_watch;
  std::unique_ptr<network::RefusalReader> refusals;  // null: it has no network
  std::string ledger_path;
  std::optional<ledger::LedgerReader> ledger;
  // Of one that takes several devices: the others, in their order.
  std::vector<DeviceId> beside;
  std::vector<ledger::LedgerReader> ledgers_beside;
  std::vector<std::string> ledger_paths_beside;
  std::string memory_path;
  std::string link_path;
  OwnedFd link_listener;                  // there; invalid: its processes take no turns
  std::string runtime_path;               // of one that shares a GPU runtime
  std::unique_ptr<MemoryChannel> memory;  // null: its device memory does not move
  bool memory_is_away = false;            // out, or on its way in either direction
  Bytes device_memory;
  Bytes device_memory_peak;
  sandbox::MemoryMeter host_memory;
  Bytes host_memory_peak;      // as it was read last
  Instant peak_read_at{};      // then
  bool peak_is_read = false;   // since the meter was reset
  uint32_t context_error = 0;  // a CUresult: its CUDA context is broken
  bool replaced = false;       // it is being stopped for that

  // Given and not answered, the oldest first.
  struct InFlight {
    InvocationId id;
    Instant given_at{};
    LogTail tail;  // what was printed since it was given
  };
  std::deque<InFlight> in_flight;
  LogTail idle_tail;  // while none is: of the last one, and what was printed since
  // Of the one that is answered next, if there is one.
  const LogTail& next_tail() const {
    return in_flight.empty() ? idle_tail : in_flight.front().tail;
  }
  // Since its processes were there; 0 once it has asked for work.
  Duration unfinished_init(Instant now) const {
    return !executed || initialised ? Duration(0) : now - executed_at;
  }
  std::deque<InFlight>::iterator find(InvocationId invocation) {
    return std::find_if(in_flight.begin(), in_flight.end(),
                        [&](const InFlight& each) { return each.id == invocation; });
  }
  // Those that came when this was being stopped already, which no caller saw, with their payloads.
  std::deque<std::pair<InvocationId, std::string>> too_late;

  // Why it is being stopped, if we stop it; or what the runtime said when its start failed.
  std::optional<EndWords> end_words;
  std::string end_payload;
  bool start_was_lost = false;   // lambent-launcher ended before it was ready
  bool ended_by_itself = false;  // as SandboxEnd::by_itself
  loop::TimerId grace;           // of one that was asked to end
  // It is to be kept for the next program once what it is in the middle of is over; if it cannot
  // be, it ends so, and has so much time for that.
  struct KeptLater {
    EndWords words;
    Duration grace{};
  };
  std::optional<KeptLater> kept_later;
  bool cannot_be_kept = false;  // that was tried
};

// How many invocations one may have and not have answered.
size_t most_in_flight(const FunctionSpec& spec, const StageProcessExtras& extras);
runtime_api::SessionOptions session_options(const HostedSandbox& sandbox);
// The other end of its link's socket is lambent-device's.
void serve_link(DeviceLinks& links, const HostedSandbox& sandbox);
std::function<void(Bytes)> on_wanted_of(HostedSandbox& sandbox);

}  // namespace lambent::worker
