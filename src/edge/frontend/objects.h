// ObjectsFrontend: objects over HTTP: puts, gets that wait, ranges, lists. On the loop thread; long
// copies are made off it.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string_view>

#include "core/base/random.h"
#include "core/http/server.h"
#include "core/loop/event_loop.h"
#include "edge/frontend/caller.h"
#include "node/objects/object_store.h"

namespace lambent::frontend {

class ObjectsFrontend {
 public:
  // All that is given outlives the frontend; `copying` is for copies of more than 256 KiB.
  ObjectsFrontend(objects::ObjectStore& store, objects::Disk copying, loop::EventLoop& loop,
                  Random& random);

  // What clients remove stays readable for so long: a node may be bringing it, for an invocation
  // that needs it there. Before the first request; else nothing stays.
  void set_linger(Duration linger) { linger_ = linger; }

  // `path` is what follows the part that all paths of objects share.
  void handle(const Caller& caller, http::Request request, std::string_view path,
              http::Responder responder);

 private:
  class Answering;

  objects::ObjectStore& store_;
  const objects::Disk copying_;
  loop::EventLoop& loop_;
  Random& random_;
  Duration linger_{};
  // Bytes of copies that are made, or made and not yet sent. Shared with them: the last may end
  // after the frontend, and on the thread that made it.
  const std::shared_ptr<std::atomic<uint64_t>> copies_ = std::make_shared<std::atomic<uint64_t>>(0);
};

}  // namespace lambent::frontend
