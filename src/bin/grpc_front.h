// GrpcFront: the lambent-grpc of `lambent serve --grpc`: started once the worker listens, started
// again when it ends, told to end with the worker. Used by the worker's main, on the loop thread.
#pragma once

#include <sys/types.h>

#include <memory>
#include <string>
#include <vector>

#include "bin/listen_options.h"
#include "core/base/fd.h"
#include "core/base/log.h"
#include "core/base/result.h"
#include "core/base/time.h"
#include "core/loop/event_loop.h"

namespace lambent {

struct GrpcFrontOptions {
  std::vector<std::string> arguments;  // they begin with the program's path
  std::string address_file;            // gets the address that it listens on
  Duration first_back_off = milliseconds(250);
  Duration most_back_off = seconds(30);
};

// Its arguments for a worker that listens at `endpoint`. Its certificate is the worker's; clients'
// certificates mean nothing to it, for it cannot hand them on.
std::vector<std::string> grpc_arguments(const std::string& program, const ListenOptions& options,
                                        const std::string& endpoint);

class GrpcFront {
 public:
  // Starts it in the next turn of the loop. `loop` and `log` outlive it.
  GrpcFront(loop::EventLoop& loop, LogSink& log, GrpcFrontOptions options);
  // Ends the program: calls that are there have a few seconds.
  ~GrpcFront();
  GrpcFront(const GrpcFront&) = delete;
  GrpcFront& operator=(const GrpcFront&) = delete;

 private:
  void start();
  Result<void> spawn();
  void read_output();
  void take_line(const std::string& line);
  void exited();
  void start_again();

  loop::EventLoop& loop_;
  LogSink& log_;
  const GrpcFrontOptions options_;
  pid_t pid_ = -1;
  OwnedFd process_;
  OwnedFd input_;   // it ends when this closes, however that comes
  OwnedFd output_;  // of both its streams
  std::string line_;
  loop::Watch process_watch_, output_watch_;
  loop::TimerId timer_;
  Duration back_off_{};
};

}  // namespace lambent
