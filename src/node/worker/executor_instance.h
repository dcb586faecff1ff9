// An instance of ExecutorHost: what the worker knows of one kernel function that is loaded, or
// being loaded, in an executor. Only for the files of ExecutorHost.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "node/worker/executor_host.h"
#include "node/worker/log_store.h"

namespace lambent::worker {

struct ExecutorHost::Instance {
  explicit Instance(BackendObserver& started_for) : observer(started_for) {}

  BackendObserver& observer;
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
  Bytes constants;  // on the device while its memory is in
  Bytes device_memory;
  Bytes device_memory_peak;
  bool out = false;  // its memory is, or will be
  std::optional<InvocationId> current;
  Instant given_at{};
  std::optional<Duration> time_to_live;  // of the objects that `current` makes
  // What `current` is to run with, until the instance's memory is in.
  std::optional<protocol::Run> waiting;
  std::vector<OwnedFd> waiting_fds;
  LogTail tail;
  std::optional<EndWords> end_words;  // why it is being stopped
  // Its share could not be changed: it takes no new request, and goes when it has answered this
  // one.
  std::optional<EndWords> share_failed;
  loop::TimerId grace;
};

}  // namespace lambent::worker
