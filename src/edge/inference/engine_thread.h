// EngineThread: runs a model on a thread of its own, one request after the other, in order. What it
// is given comes from the loop thread, and what comes out goes back there.
#pragma once

#include <deque>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "core/base/mutex.h"
#include "core/base/time.h"
#include "core/domain/inference.h"
#include "core/loop/event_loop.h"

namespace lambent::inference {

struct EngineRun {
  Result<std::vector<Tensor>> outputs = std::vector<Tensor>();
  Duration queued{};   // until its turn came
  Duration compute{};  // of the engine
};

class EngineThread {
 public:
  struct Work {
    std::vector<Tensor> inputs;  // what their contents point to is kept by `done`
    std::vector<std::string> outputs;
    std::function<void(EngineRun)> done;  // on the loop thread; not called once this is gone
  };

  // Both outlive it.
  EngineThread(ModelEngine& engine, loop::EventLoop& loop);
  // Waits for the run that is under way.
  ~EngineThread();
  EngineThread(const EngineThread&) = delete;
  EngineThread& operator=(const EngineThread&) = delete;

  void run(Work work);

 private:
  struct Queued {
    Work work;
    Instant since{};
  };
  void serve();

  ModelEngine& engine_;
  loop::EventLoop& loop_;
  Mutex mutex_;
  Condition changed_;
  std::deque<Queued> queue_ GUARDED_BY(mutex_);
  bool stopping_ GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace lambent::inference
