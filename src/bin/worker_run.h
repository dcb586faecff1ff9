// WorkerRun: from the first request that the worker accepts to the last that it answers, and what
// the signals ask for meanwhile. Used by the worker's main, on its loop thread.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "bin/child_run.h"
#include "bin/listening_sockets.h"
#include "bin/service_manager.h"
#include "core/base/fd.h"
#include "core/base/log.h"
#include "core/base/time.h"
#include "core/http/server.h"
#include "core/loop/event_loop.h"
#include "core/tls/node_identity.h"
#include "node/cluster/cluster_node.h"
#include "node/worker/worker.h"

namespace lambent {

// The argument by which a worker is asked for the formats in which it takes sandboxes over: a line
// for each, its own first.
constexpr const char* kKeptFormatFlag = "--kept-sandboxes-format";

struct Serving {
  const OwnedFd& signals;
  loop::EventLoop& loop;
  LogSink& log;
  worker::Worker& worker;
  http::Server& server;
  ServiceManager& service;
  tls::NodeIdentity* identity;  // null: nothing is encrypted
  worker::SandboxHandOver& hand_over;
  cluster::ClusterNode* cluster;        // null: it is in none
  ListeningSockets* sockets = nullptr;  // which the server has copies of
  Duration drain_time{};                // what runs may take so long to end
  std::vector<std::string> program;     // the installed worker and the arguments of this one
  std::string status;                   // for the service manager
};

class WorkerRun {
 public:
  enum class End { kStopped, kReplaced };

  explicit WorkerRun(const Serving& serving) : serving_(serving) {}

  // Runs the loop until the worker has drained, or was told twice to stop. kReplaced: this process
  // is now to become the installed program, whose clients wait at the listeners.
  End run();

 private:
  void take_signal();
  void reload();
  void stop(int signal);
  // The worker gives way to the installed program: that one is asked first whether it can start.
  void replace();
  void checked(Result<ChildEnd> end);
  // `why_not`: that one cannot go on with the sandboxes; empty: it can.
  void give_way(const std::string& why_not);
  // Of no client; what was accepted is answered.
  void accept_no_more();
  void finish_requests();
  void drain();
  void close_connections(Instant latest);
  void answer_forwards();

  const Serving& serving_;
  bool stopping_ = false;
  bool keeps_sandboxes_ = false;  // the program that is to come goes on with them
  End end_ = End::kStopped;
  std::unique_ptr<ChildRun> check_;
};

}  // namespace lambent
