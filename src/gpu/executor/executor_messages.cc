// Executor: what it does about each message of the worker.
#include <algorithm>
#include <utility>

#include "gpu/executor/executor.h"

namespace lambent::executor {

void Executor::handle(protocol::ExecutorMessage message, std::vector<OwnedFd> fds) {
  if (watch_.has_ended()) return;
  requests_->settle_answered();
  std::visit([&](auto& each) { handle(std::move(each), std::move(fds)); }, message);
}

void Executor::handle(protocol::AddInstance message, std::vector<OwnedFd> fds) {
  instances_->add(std::move(message), std::move(fds));
}

void Executor::handle(protocol::RemoveInstance message, std::vector<OwnedFd>) {
  instances_->remove(message.instance);
}

void Executor::handle(protocol::MoveInstance message, std::vector<OwnedFd>) {
  instances_->move(message);
}

void Executor::handle(protocol::SetShare message, std::vector<OwnedFd>) {
  if (!instances_->has(message.instance) && clients_->has(message.instance)) {
    return clients_->set_share(message.instance, message.share);
  }
  instances_->set_share(message.instance, message.share);
}

void Executor::handle(protocol::AddClient message, std::vector<OwnedFd> fds) {
  clients_->add(message, std::move(fds));
}

void Executor::handle(protocol::RemoveClient message, std::vector<OwnedFd>) {
  clients_->remove(message.client);
}

void Executor::handle(protocol::Run message, std::vector<OwnedFd> fds) {
  const Instant received = loop_.clock().now();
  const auto instance = instances_->find_usable(message.instance);
  if (!instance.ok()) return requests_->send_error(message.invocation, instance.error());
  requests_->start(*instance, received, std::move(message), std::move(fds));
}

void Executor::handle(protocol::ObjectOpened message, std::vector<OwnedFd> fds) {
  fds.resize(std::max<size_t>(fds.size(), 2));
  contents_->opened(message, std::move(fds[0]), std::move(fds[1]));
}

void Executor::handle(protocol::ShareObject message, std::vector<OwnedFd>) {
  protocol::ObjectShared answer;
  answer.object = message.object;
  std::vector<OwnedFd> fds;
  auto memory = exports_->begin(message.object);
  if (memory.ok()) {
    answer.shared = memory->size;
    fds.push_back(std::move(memory->memory));
  } else {
    answer.error = memory.error();
  }
  connection_.send(std::move(answer), std::move(fds));
}

void Executor::handle(protocol::ExportEnded message, std::vector<OwnedFd>) {
  if (!exports_->end(message.object)) return;
  room_came();
  progress();
}

void Executor::handle(protocol::TakeObject message, std::vector<OwnedFd> fds) {
  fds.resize(std::max<size_t>(fds.size(), 1));
  contents_->take(message, std::move(fds[0]));
}

void Executor::handle(protocol::DropObject message, std::vector<OwnedFd>) {
  if (message.deleted) {
    contents_->forget(message.object);
    return kept_->forget(message.object);
  }
  // What is kept goes when it is written. What asks for none is answered when all has gone that the
  // messages before it have sent away.
  if (kept_->has(message.object)) kept_->write(message.object);
  if (!kept_->has(message.object) && message.object != ObjectId{}) return drop(message);
  kept_->when_written([this, message] {
    if (!watch_.has_ended()) drop(message);
  });
}

void Executor::drop(const protocol::DropObject& message) {
  // Wanted again, it is had from where it then lies.
  contents_->close_file(message.object);
  const DeviceName name = DeviceName::of(message.object);
  const auto* entry = store_->find(name);
  const bool is_held = entry != nullptr && entry->filled && is_shareable(entry->size);
  const Bytes stays = is_held && entry->pins > 0 ? entry->size : Bytes(0);
  store_->drop(name);
  if (is_held && stays == Bytes(0)) return;  // that it has gone is reported by now
  connection_.send(protocol::ObjectHeld{message.object, stays});
}

void Executor::handle(protocol::WriteObject message, std::vector<OwnedFd>) {
  kept_->write(message.object);
}

void Executor::handle(protocol::ObjectWritten message, std::vector<OwnedFd>) {
  kept_->acknowledge(message.object, message.error);
}

void Executor::handle(protocol::NeedObject message, std::vector<OwnedFd>) {
  store_->want(DeviceName::of(message.object), message.needed);
}

void Executor::handle(protocol::SetObjectRoom message, std::vector<OwnedFd>) {
  instances_->set_object_room(message.room);
}

}  // namespace lambent::executor
