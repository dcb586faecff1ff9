// What the executor exports to others, and keeps for them: objects that lie in its part of the
// device.
#include <algorithm>
#include <utility>

#include "gpu/executor/executor.h"

namespace lambent::executor {

void Executor::handle(protocol::ShareObject message, std::vector<OwnedFd>) {
  protocol::ObjectShared answer;
  answer.object = message.object;
  auto shared = exports_->begin(message.object);
  if (!shared.ok()) {
    answer.error = shared.error();
    return connection_.send(std::move(answer));
  }
  answer.shared = shared->size;
  std::vector<OwnedFd> fds;
  fds.push_back(std::move(shared->memory));
  connection_.send(std::move(answer), std::move(fds));
}

void Executor::handle(protocol::ExportEnded message, std::vector<OwnedFd>) {
  if (!exports_->end(message.object)) return;
  if (layers_ != nullptr) layers_->room_came();
  progress();
}

// What is exported to others stays where it is until they have it, which is soon; and pages of
// layers that lie free go to the device. A request for which there is too little memory meanwhile
// tries again then.
bool Executor::await_room(Instance& instance, const Error& error) {
  RequestUnderWay& request = *instance.request;
  const bool is_short = error.code == ErrorCode::kResourceExhausted;
  if (is_short && layers_ != nullptr && layers_->pages().size() > Bytes(0) &&
      !std::exchange(request.has_asked_for_pages, true)) {
    ++pages_asked_;
    layers_->give_to_device([this] {
      --pages_asked_;
      if (!watch_.has_ended()) progress();
    });
  }
  request.awaits_room = is_short && (pages_asked_ > 0 || !exports_->empty());
  return request.awaits_room;
}

void Executor::handle(protocol::TakeObject message, std::vector<OwnedFd> fds) {
  fds.resize(std::max<size_t>(fds.size(), 1));
  contents_->take(message, std::move(fds[0]));
}

void Executor::handle(protocol::DropObject message, std::vector<OwnedFd>) {
  if (message.deleted) return contents_->forget(message.object);
  // Wanted again, it is had from where it then lies.
  contents_->close_file(message.object);
  const DeviceName name = DeviceName::of(message.object);
  const auto* entry = store_->find(name);
  const bool is_held = entry != nullptr && entry->filled && is_shareable(entry->size);
  const Bytes stays = is_held && entry->pins > 0 ? entry->size : Bytes(0);
  store_->drop(name);
  if (is_held && stays == Bytes(0)) return;  // that it has gone is said by now
  connection_.send(protocol::ObjectHeld{message.object, stays});
}

void Executor::handle(protocol::NeedObject message, std::vector<OwnedFd>) {
  store_->want(DeviceName::of(message.object), message.needed);
}

void Executor::handle(protocol::SetObjectRoom message, std::vector<OwnedFd>) {
  object_room_ = message.room;
  set_limit();
}

}  // namespace lambent::executor
