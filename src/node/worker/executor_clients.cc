#include "node/worker/executor_clients.h"

#include <algorithm>
#include <utility>

namespace lambent::worker {

void ExecutorClients::add_client(SandboxId sandbox, const FunctionSpec& spec, DeviceId device,
                                 OwnedFd listener, OwnedFd ledger,
                                 std::function<void(const Error&, const std::string&)> on_lost) {
  ExecutorClient client = {sandbox,
                           spec.id,
                           executor_key(spec, device),
                           spec.gpu.memory,
                           spec.gpu.share,
                           std::move(listener),
                           std::move(ledger),
                           supervisor_.longest_wait(spec),
                           std::move(on_lost)};
  const auto [entry, added] = clients_.emplace(sandbox, Entry{std::move(client)});
  CHECK(added, "a sandbox is a client once");
  supervisor_.need(entry->second.client.key, entry->second.client.longest_wait);
  add_if_ready(entry->second);
}

void ExecutorClients::add_if_ready(Entry& entry) {
  const ExecutorClient& client = entry.client;
  if (!supervisor_.ready(client.key) || std::exchange(entry.added, true)) return;
  std::vector<OwnedFd> fds;
  fds.push_back(std::move(entry.client.listener));
  fds.push_back(std::move(entry.client.ledger));
  supervisor_.send(client.key, protocol::AddClient{client.sandbox, client.memory, client.share},
                   std::move(fds));
}

void ExecutorClients::change_share(FunctionId function, unsigned share) {
  for (auto& [id, entry] : clients_) {
    ExecutorClient& client = entry.client;
    if (client.function != function || std::exchange(client.share, share) == share) continue;
    if (entry.added) supervisor_.send(client.key, protocol::SetShare{id, share});
  }
}

void ExecutorClients::remove_client(SandboxId sandbox) {
  const auto found = clients_.find(sandbox);
  if (found == clients_.end()) return;
  const Entry entry = std::move(found->second);
  clients_.erase(found);
  if (entry.added) supervisor_.send(entry.client.key, protocol::RemoveClient{sandbox});
  supervisor_.left(entry.client.key);
}

bool ExecutorClients::any_of(const ExecutorKey& key) const {
  return std::any_of(clients_.begin(), clients_.end(),
                     [&key](const auto& each) { return each.second.client.key == key; });
}

size_t ExecutorClients::added_to(const ExecutorKey& key) const {
  const auto lost = lost_.find(key);
  return (lost == lost_.end() ? 0 : lost->second) +
         static_cast<size_t>(
             std::count_if(clients_.begin(), clients_.end(), [&key](const auto& each) {
               return each.second.client.key == key && each.second.added;
             }));
}

void ExecutorClients::executor_ready(const ExecutorKey& key) {
  for (auto& [id, entry] : clients_) {
    if (entry.client.key == key) add_if_ready(entry);
  }
}

void ExecutorClients::lose(const ExecutorKey& key, const Error& cause) {
  lost_[key] = added_to(key);
  lose_if(key, cause, kPlatformFailure, [](const Entry& entry) { return entry.added; });
}

void ExecutorClients::executor_ended(const ExecutorKey& key, const ExecutorEnd& how) {
  lost_.erase(key);
  lose_if(key, how.cause, how.no_room ? kNoRoom : kPlatformFailure,
          [&](const Entry& entry) { return entry.added || !how.was_ready; });
  if (any_of(key)) supervisor_.need(key, supervisor_.shortest_wait());
}

void ExecutorClients::lose_if(const ExecutorKey& key, const Error& cause,
                              const std::string& error_type,
                              const std::function<bool(const Entry&)>& is_lost) {
  std::vector<std::function<void(const Error&, const std::string&)>> lost;
  for (auto each = clients_.begin(); each != clients_.end();) {
    if (each->second.client.key != key || !is_lost(each->second)) {
      ++each;
      continue;
    }
    lost.push_back(std::move(each->second.client.on_lost));
    each = clients_.erase(each);
  }
  const Error error = cause.with_context("the GPU runtime that the function shares ended");
  for (const auto& on_lost : lost) on_lost(error, error_type);
}

}  // namespace lambent::worker
