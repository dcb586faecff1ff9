// RunsAhead: which functions the runs of workflows will call soon and have to start first, told in
// time. What comes of it, dispatch decides. Owned by WorkflowHost, on the loop thread.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <unordered_map>

#include "core/base/ids.h"
#include "core/domain/function.h"
#include "core/loop/event_loop.h"
#include "decide/workflow/outlook.h"
#include "decide/workflow/run.h"

namespace lambent::worker {

class RunsAhead {
 public:
  // What a function's calls and starts take, and whether one would be needed.
  using ProspectOf = std::function<workflow::Prospect(const FunctionName&)>;
  // A call of it comes.
  using Foresee = std::function<void(const FunctionName&, Duration within, double chance)>;
  // Null: it is gone, or has not started.
  using RunOf = std::function<const workflow::Run*(InvocationId)>;

  // No `prospect_of`: nothing is foreseen.
  RunsAhead(loop::EventLoop& loop, ProspectOf prospect_of, Foresee foresee, RunOf run_of)
      : loop_(loop),
        prospect_of_(std::move(prospect_of)),
        foresee_(std::move(foresee)),
        run_of_(std::move(run_of)) {}
  ~RunsAhead();
  RunsAhead(const RunsAhead&) = delete;
  RunsAhead& operator=(const RunsAhead&) = delete;

  // The run has started; a call of its component was made; it is over.
  void begin(InvocationId run, TenantId tenant);
  void begun(InvocationId run, uint32_t component);
  void forget(InvocationId run);
  // After each step of it. A run that is gone is passed over.
  void look(InvocationId run);

 private:
  struct Known {
    TenantId tenant;
    std::map<uint32_t, Instant> began_at;  // by component
    size_t unfinished = SIZE_MAX;          // at the last look
    std::map<uint32_t, loop::TimerId> timers;
  };

  FunctionName function_of(const Known& known, const workflow::Run& run, uint32_t component) const;
  void tell(InvocationId run, uint32_t component, Duration within);

  loop::EventLoop& loop_;
  const ProspectOf prospect_of_;
  const Foresee foresee_;
  const RunOf run_of_;
  std::unordered_map<InvocationId, Known> runs_;
};

}  // namespace lambent::worker
