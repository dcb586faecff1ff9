// SandboxHost: the backend that runs functions as sandboxed processes: starts them, speaks the
// Runtime API with them, collects what they print and allocate, and reports to their observers.
// Used on the loop thread.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/base/fd.h"
#include "core/base/log.h"
#include "core/domain/function.h"
#include "core/domain/invocation.h"
#include "core/domain/invocation_service.h"
#include "core/domain/secret.h"
#include "core/loop/event_loop.h"
#include "gpu/ledger/ledger.h"
#include "node/http_relay/session.h"
#include "node/network/refusals.h"
#include "node/runtime_api/session.h"
#include "node/sandbox/launcher.h"
#include "node/worker/backend.h"
#include "node/worker/log_store.h"
#include "node/worker/memory_channel.h"
#include "node/worker/sandbox_hand_over.h"
#include "node/worker/sandbox_keeping.h"
#include "node/worker/sandbox_plan.h"

namespace lambent::worker {

struct HostedSandbox;

class SandboxHost final : public Backend {
 public:
  // What it uses; all outlive it.
  struct Dependencies {
    loop::EventLoop& loop;
    LogSink& log;
    sandbox::Launcher& launcher;
    DeviceLinks* links = nullptr;        // null: device memory moves without turns and leases
    SharedRuntimes* runtimes = nullptr;  // null: functions that share a GPU runtime cannot start
    // A handler's call on objects; `path` is what follows the part that all such calls share. May
    // be empty.
    std::function<void(TenantId, http::Request, std::string_view path, http::Responder)> on_object =
        {};
    const SecretService* secrets = nullptr;  // null: functions refer to none
    // The request of an HTTP function that is this invocation. May be empty.
    std::function<std::shared_ptr<http_relay::RelayedRequest>(InvocationId)> relayed = {};
    // Where an invocation's answer goes piece by piece; null: it is wanted whole. May be empty.
    std::function<std::shared_ptr<http::AnswerSink>(InvocationId)> sink_of = {};
    // Programs of a function were refused connections or names, so many times. May be empty.
    std::function<void(const FunctionName&, uint64_t times)> on_network_refused = {};
    SandboxHandOver* hand_over = nullptr;  // null: all sandboxes end with the worker
  };

  // `run_folder` holds the ledgers; it is emptied first.
  SandboxHost(Dependencies dependencies, SandboxSetting setting, std::string run_folder);
  ~SandboxHost() override;
  SandboxHost(const SandboxHost&) = delete;
  SandboxHost& operator=(const SandboxHost&) = delete;

  void start(BackendStart start, BackendObserver& observer) override;
  bool has(SandboxId sandbox) const override { return sandboxes_.contains(sandbox); }
  // Takes the payload out of `request`.
  void deliver(SandboxId sandbox, InvocationRequest& request, Duration timeout) override;
  void move_memory_out(SandboxId sandbox, protocol::MemoryMoveDepth depth) override;
  void move_memory_in(SandboxId sandbox) override;
  void grant_memory(SandboxId sandbox, Bytes bytes) override;
  bool has_own_contexts() const override { return true; }
  void stop(SandboxId sandbox, Error error, std::string error_type) override;
  // The program of an HTTP function gets SIGTERM, and SIGKILL after `grace`; all others SIGKILL.
  void end(SandboxId sandbox, Duration grace, Error error, std::string error_type) override;
  void abandon(SandboxId sandbox, InvocationId invocation) override;
  RunReport partial_report(SandboxId sandbox, InvocationId invocation) override;
  std::vector<SandboxStatus> status(Metering metering,
                                    std::optional<TenantId> tenant) const override;
  // Goes on with a sandbox that the program before this one left on these devices, if one of the
  // function is there that was started by a plan with this digest.
  std::optional<KeptOnDevices> adopt_on_devices(BackendStart start, std::string plan,
                                                BackendObserver& observer);
  // Whether a sandbox that uses a GPU belongs to a tenant other than this one.
  bool has_gpu_sandboxes_of_others(TenantId tenant) const;

  // The launcher reports that a sandbox is gone; false if it is none of these.
  bool exited(SandboxId id, const sandbox::Exit& exit);

 private:
  using Sandbox = HostedSandbox;

  void started(SandboxId id, Result<sandbox::Started> result);
  void finish(SandboxId id, Error error, std::string error_type, Bytes host_memory_peak);
  // How we speak with what runs in it.
  runtime_api::Callbacks session_callbacks(Sandbox& sandbox);
  void hear(Sandbox& sandbox, OwnedFd refusals);
  void open_relay(Sandbox& sandbox);
  void hand_over(Sandbox& sandbox, InvocationRequest& request, Duration timeout);
  void ready(Sandbox& sandbox);
  // Before it is reported as ready: the event that its function is warmed up with.
  void warm_up(Sandbox& sandbox);
  void warmed_up(Sandbox& sandbox, bool succeeded, Duration took, const std::string& why);
  Bytes host_memory_peak(Sandbox& sandbox);
  void answered(Sandbox& sandbox, InvocationId invocation, bool succeeded, std::string payload,
                std::string error_type);
  void init_failed(Sandbox& sandbox, std::string json, std::string type);
  void stuck(Sandbox& sandbox);
  void replace_broken(Sandbox& sandbox, LogTail& tail);
  // Reads what the sandbox printed; at most `most` bytes, so that a noisy one cannot hold the loop.
  void read_output(Sandbox& sandbox, size_t most);
  void print(Sandbox& sandbox, std::string_view text);
  void refused(Sandbox& sandbox, const network::Refusal& refusal);
  // What the processes of a sandbox with a GPU are connected to.
  Result<void> connect_memory(Sandbox& sandbox, SandboxRequest& request);
  SandboxKeeping::Host keeping_uses();
  bool adopt(Sandbox& sandbox);
  Result<void> connect_runtime(Sandbox& sandbox, SandboxRequest& request);
  // The environment that the sandbox is started with, its secrets in place.
  Result<void> resolve_environment(FunctionSpec& spec, SandboxRequest& request);
  std::function<void(MemoryMove)> on_moved_of(Sandbox& sandbox);
  Result<std::string> make_ledger(Sandbox& sandbox, Bytes limit);
  void read_ledger(Sandbox& sandbox);

  loop::EventLoop& loop_;
  LogSink& log_;
  const Dependencies uses_;
  sandbox::Launcher& launcher_;
  SandboxSetting setting_;
  std::string run_folder_;
  std::unordered_map<SandboxId, std::unique_ptr<Sandbox>> sandboxes_;
  SandboxKeeping keeping_;
};

}  // namespace lambent::worker
