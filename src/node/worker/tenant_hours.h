// TenantHours: the GPU time that tenants used in the last hour, as it is in the catalog: saved
// every few seconds of those that used some, and at the end; told to dispatch at the start. Used by
// Worker on the loop thread.
#pragma once

#include <unordered_map>
#include <vector>

#include "core/base/log.h"
#include "core/loop/event_loop.h"
#include "decide/dispatch/dispatcher.h"
#include "node/catalog/catalog.h"
#include "node/worker/dispatch_driver.h"

namespace lambent::worker {

class TenantHours {
 public:
  // All outlive it. Saves from now on.
  TenantHours(loop::EventLoop& loop, LogSink& log, catalog::Catalog& catalog,
              const dispatch::Dispatcher& dispatcher);
  // What was not saved yet is handed to the catalog.
  ~TenantHours();
  TenantHours(const TenantHours&) = delete;
  TenantHours& operator=(const TenantHours&) = delete;

  // As they were read from the catalog; after dispatch was told of the tenants.
  void restore(const std::vector<catalog::GpuTimeRecord>& records, DispatchDriver& driver);

 private:
  void save();
  std::vector<catalog::GpuTimeRecord> take_changed();

  loop::EventLoop& loop_;
  LogSink& log_;
  catalog::Catalog& catalog_;
  const dispatch::Dispatcher& dispatcher_;
  std::unordered_map<TenantId, scheduling::SlidingHour::Used> saved_;  // the last of each
  loop::TimerId timer_;
};

}  // namespace lambent::worker
