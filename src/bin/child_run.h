// ChildRun: a program of ours that the worker runs beside its loop, with limits, to read what it
// prints. On the loop thread.
#pragma once

#include <sys/types.h>

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/fd.h"
#include "core/base/result.h"
#include "core/base/units.h"
#include "core/loop/event_loop.h"

namespace lambent {

struct ChildLimits {
  Duration time = seconds(30);  // until it is killed
  Bytes memory = Bytes::gib(2);
  Bytes output = Bytes::mib(4);  // of each of its two streams
  int nice = 10;                 // it gives way to what serves
};

struct ChildEnd {
  int exit_code = 0;  // 128 and the signal that ended it
  std::string output;
  std::string errors;
};

// What a program printed, as one line for a log. Of a long text its beginning and its end, where
// what is wrong is said most often, and how much is left out between them.
std::string in_one_line(std::string_view printed);

class ChildRun {
 public:
  using Done = std::function<void(Result<ChildEnd>)>;

  // `arguments` begin with the program's path. `done` comes once, not before this returns, and may
  // destroy the run: DEADLINE_EXCEEDED, RESOURCE_EXHAUSTED (it printed too much).
  static Result<std::unique_ptr<ChildRun>> start(loop::EventLoop& loop,
                                                 std::vector<std::string> arguments,
                                                 const ChildLimits& limits, Done done);
  // Kills what still runs, without a call.
  ~ChildRun();
  ChildRun(const ChildRun&) = delete;
  ChildRun& operator=(const ChildRun&) = delete;

 private:
  struct Stream {
    OwnedFd fd;
    loop::Watch watch;
    std::string text;
    bool open = true;
  };

  ChildRun(loop::EventLoop& loop, const ChildLimits& limits, Done done)
      : loop_(loop), limits_(limits), done_(std::move(done)) {}
  Result<void> begin(std::vector<std::string> arguments);
  // False: that ended the run, which may be gone.
  bool read(Stream& stream);
  void exited();
  void finish(Result<ChildEnd> end);
  void kill_and_reap();

  loop::EventLoop& loop_;
  const ChildLimits limits_;
  Done done_;
  pid_t pid_ = -1;
  OwnedFd process_;
  loop::Watch process_watch_;
  Stream output_, errors_;
  loop::TimerId deadline_;
  bool has_deadline_ = false;
};

}  // namespace lambent
