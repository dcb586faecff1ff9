#include "node/worker/workflow_call.h"

#include <algorithm>
#include <set>
#include <utility>

#include "node/runtime_api/error_type.h"
#include "node/worker/executor_supervisor.h"

namespace lambent::worker {
namespace {

// What a function says of its failure may be long; a chain of failures repeats it.
constexpr size_t kCauseLength = 800;

std::string cut(std::string message) {
  if (message.size() <= kCauseLength) return message;
  return message.substr(0, kCauseLength) + " ...";
}

// The sandbox or executor ended under an invocation, by no fault of what it answered.
bool is_of_place(const InvocationResult& result) {
  if (!result.error) return false;  // the handler's own words
  for (const char* type :
       {"Runtime.ExitError", "Sandbox.Failure", "Sandbox.Stopped", "Sandbox.MoveFailed"}) {
    if (result.error_type == type) return true;
  }
  return false;
}

workflow::Failure failure_of(const InvocationResult& result, FunctionKind kind) {
  workflow::Failure failure;
  failure.code = result.error ? result.error->code : ErrorCode::kUnknown;
  if (result.outcome == Outcome::kRejected) {
    const Error error = result.error.value_or(Error{ErrorCode::kInternal, "it was not run"});
    failure.type = kCallRejected;
    failure.message = cut(to_string(error));
    return failure;
  }
  failure.type = result.error_type;
  failure.message = cut(runtime_api::error_message_of(result.payload));
  // A workflow's message ends with the type of what failed in it.
  if (kind != FunctionKind::kWorkflow && !failure.type.empty()) {
    failure.message = failure.type + ": " + failure.message;
  }
  // A workflow has tried again already, where it could.
  failure.of_place = kind != FunctionKind::kWorkflow && is_of_place(result);
  failure.without_effects = kind == FunctionKind::kKernel;
  return failure;
}

// Looks into workflows that a workflow calls. They may call each other as often as they like, and
// themselves once they are deployed again: beyond so many components it is told nothing.
class InnerWorkflows {
 public:
  explicit InnerWorkflows(const Callees& callees) : callees_(callees) {}

  bool have_kernels_only(const FunctionSpec* spec) {
    if (spec == nullptr || --left_ < 0) return false;
    if (spec->kind == FunctionKind::kKernel) return true;
    const workflow::Workflow* graph = callees_.graph_of(*spec);
    return graph != nullptr && std::ranges::all_of(graph->components, [&](const auto& each) {
             return have_kernels_only(find(each.function));
           });
  }

  // Whether this component reads what it is given in these executors. An inner workflow cannot make
  // that again, so that it must be one that may be called again.
  bool reads_there(const workflow::Workflow& graph, uint32_t reader, const ExecutorKey& there) {
    const FunctionSpec* spec = find(graph.components[reader].function);
    if (spec == nullptr || --left_ < 0) return false;
    if (spec->kind == FunctionKind::kKernel) return executor_key(*spec, DeviceId()) == there;
    const workflow::Workflow* inner = callees_.graph_of(*spec);
    if (inner == nullptr || !have_kernels_only(spec)) return false;
    const auto readers = workflow::inner_readers_of_input(*inner);
    return readers && !readers->empty() && std::ranges::all_of(*readers, [&](uint32_t each) {
             return reads_there(*inner, each, there);
           });
  }
  bool has_looked_enough() const { return left_ < 0; }

 private:
  const FunctionSpec* find(const std::string& name) const {
    return callees_.find({callees_.tenant, name});
  }

  const Callees& callees_;
  int left_ = 1000;
};

}  // namespace

Result<std::string> payload_of(const workflow::Call& call, FunctionKind kind,
                               workflow::KernelOutputs outputs) {
  if (kind == FunctionKind::kKernel) return workflow::kernel_request(call.input, outputs);
  return workflow::to_text(call.input);
}

ComponentOutputs outputs_of(const workflow::Workflow& graph, uint32_t component,
                            const FunctionSpec* spec, const Callees& callees) {
  using workflow::KernelOutputs;
  if (graph.components[component].by_value) return {KernelOutputs::kByValue};
  if (spec == nullptr || spec->kind != FunctionKind::kKernel) return {};
  const auto readers = workflow::inner_readers_of(graph, component);
  if (!readers) return {};
  InnerWorkflows look(callees);
  const ExecutorKey there = executor_key(*spec, DeviceId());
  const auto reading_there = std::ranges::count_if(
      *readers, [&](uint32_t reader) { return look.reads_there(graph, reader, there); });
  if (reading_there == 0 || look.has_looked_enough()) return {};
  const bool others_read = std::cmp_less(reading_there, readers->size());
  return {KernelOutputs::kOnDevice, others_read};
}

bool may_repeat(FunctionKind kind, const std::string& function, const Callees& callees) {
  if (kind == FunctionKind::kKernel) return true;
  return kind == FunctionKind::kWorkflow &&
         InnerWorkflows(callees).have_kernels_only(callees.find({callees.tenant, function}));
}

void find_lost(const workflow::Value& input, const std::map<ObjectId, workflow::CallKey>& makers,
               const std::function<bool(ObjectId)>& is_gone, workflow::Failure& failure) {
  // What a call needs before it is queued is found missing before it runs.
  const bool is_refused = failure.type == kCallRejected;
  if (failure.type != kObjectFailed && !is_refused) return;
  std::set<workflow::CallKey> lost;
  bool is_of_run = false;
  for (const ObjectId object : workflow::objects_in(input)) {
    const auto maker = makers.find(object);
    is_of_run = is_of_run || maker != makers.end();
    if (!is_gone(object)) continue;
    if (maker == makers.end()) return;
    lost.insert(maker->second);
  }
  failure.lost.assign(lost.begin(), lost.end());
  if (!is_refused) failure.of_place = failure.of_place || (lost.empty() && is_of_run);
}

workflow::CallEnd end_of(const Result<InvocationResult>& result, FunctionKind kind) {
  if (!result.ok()) {
    return workflow::Failure{.message = cut(to_string(result.error())),
                             .type = kCallRejected,
                             .code = result.error().code};
  }
  if (result->outcome != Outcome::kSucceeded) return failure_of(*result, kind);
  auto value = kind == FunctionKind::kKernel ? workflow::kernel_outputs(result->payload)
                                             : workflow::parse_value(result->payload);
  if (!value.ok()) {
    return workflow::Failure{.message = "its answer: " + value.error().message,
                             .type = kBadAnswer,
                             .code = value.error().code};
  }
  const Bytes size = workflow::memory_of(*value);
  return workflow::CallResult{std::move(value).value(), size};
}

}  // namespace lambent::worker
