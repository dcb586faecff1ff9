// KernelInstances: the kernel functions that are loaded, or being loaded, in executors; which
// invocation each has, and which may be sent to its executor now. A value of ExecutorHost, on the
// loop thread.
#pragma once

#include <memory>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/base/error.h"
#include "core/domain/function.h"
#include "core/domain/invocation.h"
#include "core/loop/event_loop.h"
#include "core/protocol/executor_message.h"
#include "node/worker/backend.h"
#include "node/worker/executor_supervisor.h"
#include "node/worker/kernel_package.h"
#include "node/worker/log_store.h"
#include "node/worker/payload_copies.h"

namespace lambent::worker {

// Why an instance ends, and as what its invocation fails.
struct KernelInstanceEnd {
  Error error;
  std::string type;
};

struct KernelInstance {
  explicit KernelInstance(BackendObserver& started_for) : observer(started_for) {}

  // An invocation runs in its executor: it does not only wait to be sent there, and is not
  // answered.
  bool runs() const { return current && !waiting && answer == nullptr; }
  // What waits may be sent, as far as the instance is concerned.
  bool is_sendable() const {
    const bool is_copied = request == nullptr || request->is_made();
    return waiting && is_copied && !out && !share_failed && !end_words;
  }
  // What it needs of its device: one that has nothing to do no more than what it would be cold
  // without.
  Bytes needed_memory(bool has_queue) const;

  BackendObserver& observer;
  SandboxId id;
  ExecutorKey key;
  FunctionSpec spec;
  Instant requested_at{};
  Instant added_at{};
  // Until it is added.
  std::optional<std::vector<PackageFile>> files;
  bool added = false;
  bool ready = false;
  uint64_t invocations = 0;
  Bytes constants;  // on the device while its memory is in
  Bytes device_memory;
  Bytes device_memory_peak;
  bool out = false;  // its memory is, or will be
  std::optional<InvocationId> current;
  Instant given_at{};
  std::optional<Duration> time_to_live;  // of the objects that `current` makes
  // What `current` is to run with, until the instance's memory is in and its payload is copied.
  std::optional<protocol::Run> waiting;
  std::vector<OwnedFd> waiting_fds;
  // The payload of `current`, if it is long, until it is answered. Shared with the thread that
  // copies it, as is the next.
  std::shared_ptr<RequestCopy> request;
  // What the executor has answered to `current`, while the payload is copied.
  std::shared_ptr<AnswerCopy> answer;
  LogTail tail;
  std::optional<KernelInstanceEnd> end_words;  // why it is being stopped
  // Its share could not be changed: it takes no new request, and goes when it has answered this
  // one.
  std::optional<KernelInstanceEnd> share_failed;
  loop::TimerId grace;
};

class KernelInstances {
 public:
  using Map = std::unordered_map<SandboxId, std::unique_ptr<KernelInstance>>;

  KernelInstance& add(SandboxId id, BackendObserver& observer);
  // It runs nothing any more. `is_cleared`: what it ran is known not to have broken its executor.
  std::unique_ptr<KernelInstance> remove(SandboxId id, bool is_cleared);

  const Map& all() const { return instances_; }
  bool contains(SandboxId id) const { return instances_.contains(id); }
  // Null if it has ended.
  KernelInstance* find(SandboxId id) const;
  // Null too if it is not that executor's.
  KernelInstance* find(const ExecutorKey& key, SandboxId id) const;
  // The one of that executor that was given the invocation; null if none was.
  KernelInstance* given(const ExecutorKey& key, InvocationId invocation) const;
  std::vector<SandboxId> ids_of(const ExecutorKey& key) const;
  // The executor's only one that has an invocation; null if none has, or several.
  KernelInstance* only_busy(const ExecutorKey& key) const;

  void give(KernelInstance& instance, InvocationId invocation);
  void answered(KernelInstance& instance);
  // Each invocation that runs in this executor was perhaps what broke it: it runs by itself from
  // now on.
  void suspect(const ExecutorKey& key);
  // Those whose invocation may be sent now, in this order: all but what waits for its memory or a
  // copy, and suspects only where nothing else runs. Nothing new is sent while a suspect waits.
  std::vector<KernelInstance*> sendable(const ExecutorKey& key) const;

 private:
  bool is_suspect(const KernelInstance& instance) const {
    return suspects_.contains(*instance.current);
  }

  Map instances_;
  std::unordered_map<InvocationId, SandboxId> given_;
  // Ran when an executor broke, and one of them broke it.
  std::set<InvocationId> suspects_;
};

}  // namespace lambent::worker
