// BuildProcess: lambent-environment at work on one order, of Python packages or of an image. Used
// by EnvironmentStore and ImageStore on the loop thread; it ends with this object.
#pragma once

#include <sys/types.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/fd.h"
#include "core/base/result.h"
#include "core/loop/event_loop.h"

namespace lambent::environments {

// What it says, a line at a time: "tell ...", "done ..." or "failed CODE ...". Pure.
class BuildLines {
 public:
  // Takes what was read. Whole lines count, of at most 2 MiB.
  void add(std::string_view text);
  // What it told last, and how it ended: its report, or an error, also if it ended without saying
  // so.
  const std::string& progress() const { return progress_; }
  Result<std::string> outcome() const;

 private:
  void take(std::string_view line);

  std::string rest_;
  std::string progress_ = "starting";
  std::optional<Result<std::string>> outcome_;
};

class BuildProcess {
 public:
  using Ended = std::function<void(Result<std::string> report)>;

  // The command's standard input is the order. `ended` is called once, in a later turn of the loop;
  // it may destroy this.
  static Result<std::unique_ptr<BuildProcess>> start(loop::EventLoop& loop,
                                                     std::vector<std::string> command,
                                                     std::string_view order, Ended ended);
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
