#include "node/worker/backend_reports.h"

#include <utility>

namespace lambent::worker {

void BackendReports::on_ready(SandboxId sandbox, Duration sandbox_time, Duration init_time) {
  metrics_.sandbox_started(sandbox_time, init_time);
  next_.on_ready(sandbox, sandbox_time, init_time);
}

// No start, so that it does not count as one.
void BackendReports::on_adopted(SandboxId sandbox, Duration sandbox_time, Duration init_time) {
  next_.on_ready(sandbox, sandbox_time, init_time);
}

void BackendReports::on_warm_up(const FunctionName& function, bool succeeded, Duration took) {
  metrics_.warm_up(succeeded);
  next_.on_warm_up(function, succeeded, took);
}

void BackendReports::on_answer(SandboxId sandbox, HandlerAnswer answer) {
  next_.on_answer(sandbox, std::move(answer));
}

void BackendReports::on_end(SandboxEnd end) { next_.on_end(std::move(end)); }

void BackendReports::on_output(FunctionId function, std::string_view text) {
  logs_.append(function, text, clock_.wall_now());
  next_.on_output(function, text);
}

void BackendReports::on_memory_moved(SandboxId sandbox, const MemoryMove& move) {
  if (move.done) metrics_.memory_moved(move.out, move.moved, move.duration);
  log_.debug("memory_moved", {{"sandbox", static_cast<int64_t>(sandbox.value)},
                              {"out", move.out},
                              {"done", move.done},
                              {"bytes", static_cast<int64_t>(move.moved.count)},
                              {"offloaded", static_cast<int64_t>(move.offloaded.count)},
                              // Its name in the version before.
                              {"aside", static_cast<int64_t>(move.offloaded.count)}});
  next_.on_memory_moved(sandbox, move);
}

void BackendReports::on_memory_wanted(SandboxId sandbox, Bytes bytes) {
  next_.on_memory_wanted(sandbox, bytes);
}

}  // namespace lambent::worker
