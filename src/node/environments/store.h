// EnvironmentStore: the Python environments of functions. One is built once for all functions with
// the same packages, shared by them read-only, and removed when no function refers to it and there
// is no room. Used by the worker on the loop thread.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "core/base/log.h"
#include "core/domain/python_packages.h"
#include "core/loop/event_loop.h"
#include "node/environments/build_order.h"
#include "node/environments/build_process.h"
#include "node/environments/interpreters.h"
#include "node/environments/shelf.h"

namespace lambent::environments {

struct EnvironmentOptions {
  std::string folder;                  // in the state folder
  std::string program;                 // lambent-environment
  std::string uv;                      // empty: no environment can be built
  std::string python;                  // the worker's own
  std::string index;                   // URL, perhaps with credentials; empty: PyPI
  std::vector<std::string> files;      // further URLs, of places where the index has its files
  std::string wheels;                  // a folder of wheels; empty: none
  bool offline = false;                // nothing but the folder of wheels
  std::vector<std::string> variables;  // "NAME=VALUE" for uv: the node's proxies
  Bytes most = Bytes::gib(20);         // of all, with what is kept of downloads
  Duration timeout = std::chrono::minutes(30);
};

class EnvironmentStore {
 public:
  using Done = std::function<void(Result<void>)>;
  // Runs work off the loop thread and `then` on it; false: too much waits.
  using Offload = std::function<bool(std::function<void()> work, std::function<void()> then)>;

  static constexpr size_t kBuildsAtOnce = 2;
  static constexpr size_t kMostWaiting = 64;  // builds
  // A function's earlier revision may still run in what no function refers to any more.
  static constexpr Duration kGrace = std::chrono::minutes(20);

  EnvironmentStore(loop::EventLoop& loop, LogSink& log, Offload offload,
                   EnvironmentOptions options);
  ~EnvironmentStore();

  // Finds what an earlier worker built, and removes what it did not finish. Blocks; before the loop
  // runs.
  Result<void> recover();

  // `code` names a package of a function. From when `done` says so its functions have these
  // packages, also after a restart. FAILED_PRECONDITION: there is no uv. INVALID_ARGUMENT: there is
  // no such Python, or the packages cannot be had. Others as build_environment().
  void ensure(const std::string& code, const PythonPackages& packages, Done done);
  // Whether a function of this runtime and these packages, if any, gets the Python that it names.
  Result<void> check_runtime(const std::string& runtime,
                             const std::optional<PythonPackages>& packages) const {
    return interpreters_.check_runtime(runtime, packages ? packages->version : "");
  }
  // What is done for it right now, in words; empty if nothing is.
  std::string progress(const std::string& code) const;
  // Whether the environment of this code is there.
  bool has(const std::string& code) const;
  // Where the environment of this code lies on the host; empty: it has none. UNAVAILABLE: it is
  // being built. FAILED_PRECONDITION: it could not be.
  Result<std::string> folder_of(const std::string& code) const;
  // What the packages of this code want imported before sandboxes need it.
  std::vector<std::string> preload_of(const std::string& code) const;
  // The packages that functions have: others' environments may go.
  void collect(const std::set<std::string>& codes);
  // No function has these packages any more; nothing is built for them.
  void release(const std::vector<std::string>& codes);

 private:
  struct Build {
    BuildOrder order;
    std::vector<std::pair<std::string, Done>> waiting;  // codes
    std::unique_ptr<BuildProcess> process;              // null: it waits itself
    Instant started;
  };

  std::string ready(const std::string& key) const;
  std::string binding(const std::string& code) const;
  void recover_ready();
  void recover_bindings();
  Result<BuildOrder> order_of(const PythonPackages& packages) const;
  void start_builds();
  void ended(const std::string& key, Result<BuildReport> report);
  // RESOURCE_EXHAUSTED: there is none, whatever goes.
  Result<void> make_room(const std::string& newest);
  void evict(const std::string& key);
  void bind(const std::string& code, const std::string& key, Done done);
  std::set<std::string> used_keys() const;

  loop::EventLoop& loop_;
  LogSink& log_;
  const Offload offload_;
  const EnvironmentOptions options_;
  Interpreters interpreters_;
  Shelf shelf_;
  Bytes cache_;
  std::set<std::string> wanted_;                 // codes whose environments are not bound yet
  std::map<std::string, std::string> bindings_;  // code to key
  std::map<std::string, std::vector<std::string>> preloads_;  // by code, where there are some
  std::map<std::string, std::unique_ptr<Build>> builds_;      // by key
  std::deque<std::string> queue_;                             // keys of builds that wait
  size_t running_ = 0;
  uint64_t evicted_ = 0;  // counts, for names
};

}  // namespace lambent::environments
