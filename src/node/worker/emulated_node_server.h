// EmulatedNodeServer: keeps the node of emulated GPUs and hands it to the processes that use it:
// they can write into it, and change neither its size nor what it was when it was made. Lives on
// the worker's loop; what is in the node it does not know.
#pragma once

#include <memory>
#include <string>

#include "core/base/fd.h"
#include "core/base/log.h"
#include "core/base/result.h"
#include "core/loop/event_loop.h"

namespace lambent::worker {

class EmulatedNodeServer {
 public:
  // Takes over the node file `image`, which goes, and listens at `path`. Who connects is sent one
  // byte and two descriptors, of the node and of what it was (emulator/emulated_node/
  // node_socket.h), and hung up on. Blocks until the file is read; before the loop runs.
  static Result<std::unique_ptr<EmulatedNodeServer>> open(loop::EventLoop& loop, LogSink& log,
                                                          const std::string& image,
                                                          const std::string& path);
  struct Files {
    OwnedFd live;
    OwnedFd pristine;
    OwnedFd listener;  // at `path`
  };
  // Goes on with the node that another program kept and handed out at `path`.
  EmulatedNodeServer(loop::EventLoop& loop, LogSink& log, Files files, std::string path);
  ~EmulatedNodeServer();
  // For another program: who connects meanwhile waits for it. Of no use afterwards but to be
  // destroyed.
  Files hand_over();
  EmulatedNodeServer(const EmulatedNodeServer&) = delete;
  EmulatedNodeServer& operator=(const EmulatedNodeServer&) = delete;

 private:
  void hand_out();

  LogSink& log_;
  Files files_;
  const std::string path_;
  loop::Watch watch_;
};

}  // namespace lambent::worker
