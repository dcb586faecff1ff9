// LearntStatistics: what dispatch has learnt of each function (how long it runs, how often it
// comes), as it is in the catalog; saved every few seconds of those that were called. Used by the
// parts of Worker on the loop thread.
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
  // An invocation of it has its outcome: there may be something to save. Only these are looked at,
  // so that functions that rest cost nothing.
  void note(FunctionId function) {
    if (function.value >= is_noted_.size()) is_noted_.resize(function.value + 1);
    if (is_noted_[function.value]) return;
    is_noted_[function.value] = true;
    noted_.push_back(function);
  }
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
  std::vector<FunctionId> noted_;  // since they were saved last
  std::vector<bool> is_noted_;     // by FunctionId
  loop::TimerId timer_;
};

}  // namespace lambent::worker
