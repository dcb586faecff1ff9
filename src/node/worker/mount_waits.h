// MountWaits: invocations that wait, before they are queued, for files that their functions mount
// and that another node of the cluster has. They take no place on a GPU meanwhile. On the loop
// thread; owned by Worker.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "core/base/ids.h"
#include "core/base/result.h"
#include "core/domain/function.h"
#include "core/loop/event_loop.h"

namespace lambent::worker {

// What brings such files; both empty: all of them are here.
struct MountFiles {
  // Whether nothing has to be brought for an invocation of the function.
  std::function<bool(const FunctionSpec&)> are_here = {};
  // Calls back once all is there, or cannot be.
  std::function<void(const FunctionSpec&, std::function<void(Result<void>)>)> bring = {};
};

// The word for what such an invocation waited for.
constexpr std::string_view kFilesComing = "files_coming";
// So long one waits at most. What is brought goes on coming after that.
constexpr Duration kMountWait = std::chrono::minutes(10);

class MountWaits {
 public:
  // What it needs is there after so long, or why it is not. Comes once.
  using Done = std::function<void(InvocationId, Duration waited, Result<void>)>;

  MountWaits(loop::EventLoop& loop, MountFiles files, Done done)
      : loop_(loop), files_(std::move(files)), done_(std::move(done)) {}
  ~MountWaits();
  MountWaits(const MountWaits&) = delete;
  MountWaits& operator=(const MountWaits&) = delete;

  // False: there is nothing to wait for, and nothing comes.
  bool begin(InvocationId invocation, const FunctionSpec& spec);
  // Since when; nothing: it does not wait here.
  std::optional<Duration> waited(InvocationId invocation) const;
  bool waiting(InvocationId invocation) const { return waiting_.contains(invocation); }
  // It ends for another reason: nothing comes.
  void end(InvocationId invocation);
  // Of all that wait.
  void fail_all(const Error& error);
  size_t count() const { return waiting_.size(); }

 private:
  struct Waiting {
    Instant since{};
    loop::TimerId timer;
  };
  void settle(InvocationId invocation, const Result<void>& result);

  loop::EventLoop& loop_;
  const MountFiles files_;
  const Done done_;
  std::unordered_map<InvocationId, Waiting> waiting_;
  const std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace lambent::worker
