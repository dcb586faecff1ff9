// BuildProcess: lambent-environment at work on one order. Used by EnvironmentStore on the loop
// thread; it ends with this object.
#pragma once

#include <sys/types.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "core/base/fd.h"
#include "core/base/result.h"
#include "core/loop/event_loop.h"
#include "node/environments/build_order.h"

namespace lambent::environments {

// What it says, a line at a time: "tell ...", "done ..." or "failed CODE ...". Pure.
class BuildLines {
 public:
  // Takes what was read. Whole lines count, of at most 2 MiB.
  void add(std::string_view text);
  // What it told last, and how it ended: an error if it ended without saying so.
  const std::string& progress() const { return progress_; }
  Result<BuildReport> outcome() const;

 private:
  void take(std::string_view line);

  std::string rest_;
  std::string progress_ = "starting";
  std::optional<Result<BuildReport>> outcome_;
};

class BuildProcess {
 public:
  using Ended = std::function<void(Result<BuildReport>)>;

  // `ended` is called once, in a later turn of the loop; it may destroy this.
  static Result<std::unique_ptr<BuildProcess>> start(loop::EventLoop& loop,
                                                     const std::string& program,
                                                     const BuildOrder& order, Ended ended);
  ~BuildProcess();
  BuildProcess(const BuildProcess&) = delete;
  BuildProcess& operator=(const BuildProcess&) = delete;

  const std::string& progress() const { return lines_.progress(); }

 private:
  explicit BuildProcess(Ended ended) : ended_(std::move(ended)) {}
  void read();
  void reap();

  Ended ended_;
  pid_t pid_ = -1;
  OwnedFd output_;
  loop::Watch watch_;
  BuildLines lines_;
};

}  // namespace lambent::environments
