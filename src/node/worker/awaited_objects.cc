#include "node/worker/awaited_objects.h"

#include <utility>

namespace lambent::worker {

AwaitedObjects::~AwaitedObjects() {
  while (!runs_.empty()) drop(runs_.begin()->first);
}

void AwaitedObjects::bring(InvocationId run, TenantId tenant, ObjectId object) {
  // Before the store answers, which may be at once.
  runs_[run].coming[object] = 0;
  const objects::WaitId wait = store_->open(
      tenant, object, kNever,
      [this, run, object](const Result<objects::OpenedObject>&) { on_end_(run, object); });
  const auto found = runs_.find(run);
  if (found == runs_.end()) return;
  const auto coming = found->second.coming.find(object);
  if (coming != found->second.coming.end()) coming->second = wait;
}

bool AwaitedObjects::hold(InvocationId run, InvocationId call,
                          const std::vector<ObjectId>& objects) {
  const auto found = runs_.find(run);
  if (found == runs_.end()) return false;
  std::set<ObjectId> lacks;
  for (const ObjectId object : objects) {
    if (found->second.coming.contains(object)) lacks.insert(object);
  }
  if (lacks.empty()) return false;
  found->second.held[call] = std::move(lacks);
  return true;
}

std::vector<InvocationId> AwaitedObjects::came(InvocationId run, ObjectId object) {
  std::vector<InvocationId> released;
  const auto found = runs_.find(run);
  if (found == runs_.end()) return released;
  found->second.coming.erase(object);
  auto& held = found->second.held;
  for (auto& [call, lacks] : held) {
    lacks.erase(object);
    if (lacks.empty()) released.push_back(call);
  }
  for (const InvocationId call : released) held.erase(call);
  if (found->second.coming.empty()) runs_.erase(found);
  return released;
}

std::set<InvocationId> AwaitedObjects::drop(InvocationId run) {
  std::set<InvocationId> calls;
  const auto found = runs_.find(run);
  if (found == runs_.end()) return calls;
  const Run gone = std::move(found->second);
  runs_.erase(found);
  for (const auto& [object, wait] : gone.coming) store_->cancel(wait);
  for (const auto& [call, lacks] : gone.held) calls.insert(call);
  return calls;
}

}  // namespace lambent::worker
