// SandboxKeeping: keeps idle sandboxes for the program that the worker becomes; one that is in the
// middle of something once that is over, if it soon is. Owned by SandboxHost, on the loop thread.
#pragma once

#include <functional>

#include "core/base/ids.h"
#include "core/base/log.h"
#include "core/loop/event_loop.h"
#include "node/worker/sandbox_hand_over.h"

namespace lambent::worker {

struct EndWords;
struct HostedSandbox;

class SandboxKeeping {
 public:
  // What it asks of the host of the sandboxes; all outlive it.
  struct Host {
    loop::EventLoop& loop;
    LogSink& log;
    SandboxHandOver* hand_over;                       // null: keep() is not called
    std::function<HostedSandbox*(SandboxId)> find;    // null: it is gone
    std::function<void(HostedSandbox&)> read_output;  // the last that it printed
    std::function<void(SandboxId, const EndWords&)> finish;
    std::function<void(SandboxId, Duration grace, const EndWords&)> end;
  };
  explicit SandboxKeeping(Host host) : host_(std::move(host)) {}

  // In the middle of handling an event: in a later turn the sandbox is finished and lives on, or
  // is ended with this grace. False: it cannot be kept, and why was logged.
  bool keep(HostedSandbox& sandbox, Duration grace, const EndWords& words);
  // What one that is kept later was in the middle of may be over.
  void look_again(SandboxId id);

 private:
  bool keep_now(HostedSandbox& sandbox, const EndWords& words);
  void keep_later(HostedSandbox& sandbox, Duration grace, const EndWords& words);
  void give_up(HostedSandbox& sandbox);
  void tell_not_kept(const HostedSandbox& sandbox, const std::string& why);

  Host host_;
};

}  // namespace lambent::worker
