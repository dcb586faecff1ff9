// LearntStatistics: what dispatch has learnt of each function (how long it runs, how often it
// comes), as it is in the catalog; saved every few seconds where it changed. Used by the parts of
// Worker on the loop thread.
#pragma once

#include <unordered_map>
#include <vector>

#include "core/base/log.h"
#include "core/loop/event_loop.h"
#include "decide/dispatch/dispatcher.h"
#include "node/catalog/catalog.h"
#include "node/worker/function_registry.h"

namespace lambent::worker {

class LearntStatistics {
 public:
  // All outlive it. Saves from now on.
  LearntStatistics(loop::EventLoop& loop, LogSink& log, catalog::Catalog& catalog,
                   const FunctionRegistry& functions, const dispatch::Dispatcher& dispatcher);
  ~LearntStatistics() { loop_.cancel(timer_); }
  LearntStatistics(const LearntStatistics&) = delete;
  LearntStatistics& operator=(const LearntStatistics&) = delete;

  // As they were read from the catalog.
  void restore(const std::vector<catalog::FunctionStatistics>& statistics);
  void forget(FunctionId function) { saved_.erase(function); }
  // Null: nothing was learnt.
  const catalog::FunctionStatistics* find(FunctionId function) const;

 private:
  void save();

  loop::EventLoop& loop_;
  LogSink& log_;
  catalog::Catalog& catalog_;
  const FunctionRegistry& functions_;
  const dispatch::Dispatcher& dispatcher_;
  std::unordered_map<FunctionId, catalog::FunctionStatistics> saved_;
  loop::TimerId timer_;
};

}  // namespace lambent::worker
