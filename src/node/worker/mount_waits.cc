#include "node/worker/mount_waits.h"

#include <vector>

#include "node/worker/limits.h"

namespace lambent::worker {

MountWaits::~MountWaits() {
  for (const auto& [invocation, waiting] : waiting_) loop_.cancel(waiting.timer);
}

bool MountWaits::begin(InvocationId invocation, const FunctionSpec& spec) {
  if (spec.mounts.empty() || !files_.bring || files_.are_here(spec)) return false;
  if (waiting_.size() >= limits::kInvocationsWaiting) {
    done_(invocation, {},
          Error{ErrorCode::kResourceExhausted,
                "too many invocations wait for files of other nodes; try again later"});
    return true;
  }
  Waiting& waiting = waiting_[invocation];
  waiting.since = loop_.now();
  waiting.timer = loop_.call_after(kMountWait, [this, invocation] {
    settle(invocation,
           Error{ErrorCode::kUnavailable,
                 "files that the function mounts did not come from another node within " +
                     std::to_string(
                         std::chrono::duration_cast<std::chrono::seconds>(kMountWait).count()) +
                     " s; they go on coming: try again later"});
  });
  files_.bring(spec,
               [this, invocation, alive = std::weak_ptr<bool>(alive_)](const Result<void>& result) {
                 if (!alive.expired()) settle(invocation, result);
               });
  return true;
}

std::optional<Duration> MountWaits::waited(InvocationId invocation) const {
  const auto found = waiting_.find(invocation);
  if (found == waiting_.end()) return std::nullopt;
  return loop_.now() - found->second.since;
}

void MountWaits::end(InvocationId invocation) {
  const auto found = waiting_.find(invocation);
  if (found == waiting_.end()) return;
  loop_.cancel(found->second.timer);
  waiting_.erase(found);
}

void MountWaits::fail_all(const Error& error) {
  std::vector<InvocationId> all;
  for (const auto& [invocation, waiting] : waiting_) all.push_back(invocation);
  for (const InvocationId each : all) settle(each, error);
}

void MountWaits::settle(InvocationId invocation, const Result<void>& result) {
  const auto since = waited(invocation);
  if (!since) return;
  end(invocation);
  done_(invocation, *since, result);
}

}  // namespace lambent::worker
