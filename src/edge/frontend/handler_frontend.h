// HandlerFrontend: HTTP requests to handlers, which become events, and whose results become the
// answers (function_event.h), whole or as they are streamed. On the loop thread.
#pragma once

#include <functional>

#include "core/base/random.h"
#include "core/http/relay_service.h"
#include "core/loop/event_loop.h"
#include "edge/frontend/body_collector.h"
#include "node/objects/object_store.h"

namespace lambent::frontend {

class HandlerFrontend {
 public:
  // All outlive the frontend. `offload` is for JSON that takes longer than the loop may.
  struct Dependencies {
    http::RelayService& relays;
    BodyCollector& bodies;
    loop::EventLoop& loop;
    Random& random;
    objects::Disk offload;
    // Whether the worker takes work: one that stops waits for no body. Empty: it does.
    std::function<bool()> takes_work = {};
  };
  explicit HandlerFrontend(Dependencies dependencies) : uses_(std::move(dependencies)) {}

  // A request to `spec`, a handler; its body still arrives unless it is signed.
  void handle(http::RelayCall call, const FunctionSpec& spec);

 private:
  struct Pending;

  void make_event(std::shared_ptr<Pending> pending);
  void invoke(const std::shared_ptr<Pending>& pending, std::string event);

  const Dependencies uses_;
};

}  // namespace lambent::frontend
