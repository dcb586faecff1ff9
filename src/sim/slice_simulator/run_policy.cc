#include "sim/slice_simulator/run.h"

namespace lambent::slice_simulator {

RunResult run(const Scene& scene, std::unique_ptr<slice_scheduling::SlicePolicy> policy,
              const slice_scheduling::SliceDispatcherOptions& options) {
  slice_scheduling::SliceDispatcher dispatcher(std::move(policy), options);
  return run(scene, [&](const slice_scheduling::Event& event, Instant now,
                        std::vector<slice_scheduling::Action>& actions) {
    dispatcher.handle(event, now, actions);
  });
}

}  // namespace lambent::slice_simulator
