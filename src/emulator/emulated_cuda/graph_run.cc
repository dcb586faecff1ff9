#include "emulator/emulated_cuda/graph_run.h"

#include <algorithm>
#include <atomic>

#include "emulator/emulated_cuda/events.h"
#include "emulator/emulated_cuda/process.h"
#include "emulator/emulated_cuda/threads.h"

namespace lambent::emulated_cuda {

namespace {

constexpr unsigned kMostGraphThreads = 128;  // of a process, beside those of its streams
constexpr uint32_t kNone = UINT32_MAX;

ThreadCache& graph_threads() {
  static ThreadCache* threads = new ThreadCache(kMostGraphThreads);  // outlives main
  return *threads;
}

// One pass over one body. Threads that end a node go on with one that became ready, and give
// further ones to other threads; the caller's thread takes part and returns when all have ended.
// Shared by those threads: each may touch it after the last node has ended.
class Pass : public std::enable_shared_from_this<Pass> {
 public:
  // `run` is null inside the body of a conditional node, where no event nodes are.
  Pass(Process& process, Context& context, const ExecBody& body, const GraphRun* run,
       std::optional<int> priority, int64_t begin_ns)
      : process_(process),
        context_(context),
        body_(body),
        run_(run),
        priority_(priority),
        waiting_(body.nodes.size()),
        finish_ns_(body.nodes.size()),
        left_(static_cast<uint32_t>(body.nodes.size())),
        end_ns_(begin_ns) {
    for (size_t i = 0; i < body.nodes.size(); i++) {
      waiting_[i].store(body.nodes[i].dependencies, std::memory_order_relaxed);
      finish_ns_[i].store(begin_ns, std::memory_order_relaxed);  // so far: when it may begin
    }
  }

  int64_t run() {
    if (body_.nodes.empty()) return end_ns_;
    for (size_t i = 1; i < body_.roots.size(); i++) hand_over(body_.roots[i]);
    follow(body_.roots[0]);
    ended_.wait_as_stream();
    return end_ns_;
  }

 private:
  // The clock is held for the node until the other thread takes over.
  void hand_over(uint32_t index) {
    process_.holds->add(finish_ns_[index]);
    graph_threads().run([self = shared_from_this(), index] {
      ThreadClock::begin(self->process_.holds.get());
      ThreadClock::adopt(self->finish_ns_[index]);
      self->follow(index);
      ThreadClock::release();
      return true;
    });
  }

  void follow(uint32_t index) {
    while (index != kNone) {
      const ExecNode& node = body_.nodes[index];
      ThreadClock::hold(finish_ns_[index]);
      int64_t end_ns = perform_node(node, index, finish_ns_[index]);
      ThreadClock::hold(end_ns);
      raise(end_ns_, end_ns);
      uint32_t next = kNone;
      for (uint32_t dependent : node.dependents) {
        raise(finish_ns_[dependent], end_ns);
        if (waiting_[dependent].fetch_sub(1) != 1) continue;
        if (next == kNone) {
          next = dependent;
        } else {
          hand_over(dependent);
        }
      }
      if (left_.fetch_sub(1) == 1) ended_.complete(end_ns_, *process_.holds);
      index = next;
    }
  }

  static void raise(std::atomic<int64_t>& value, int64_t least) {
    int64_t seen = value.load();
    while (seen < least && !value.compare_exchange_weak(seen, least)) {
    }
  }

  int64_t perform_node(const ExecNode& node, uint32_t index, int64_t begin_ns) {
    Context& context = node.context ? *node.context : context_;
    if (node.choice) return choose(*node.choice, begin_ns);
    if (run_) {
      auto awaited = run_->awaited.find(index);
      if (awaited != run_->awaited.end()) {
        awaited->second->wait_as_stream();
        begin_ns = std::max(begin_ns, awaited->second->finish_ns());
      }
    }
    int64_t end_ns = perform_work(context, node.operation, begin_ns);
    if (run_) {
      auto recorded = run_->recorded.find(index);
      if (recorded != run_->recorded.end()) {
        finish_record(*recorded->second.event, recorded->second.number, end_ns);
        recorded->second.end->complete(end_ns, *process_.holds);
      }
    }
    return end_ns;
  }

  // Kernels run with the priority of the launch where that is asked for, and differs.
  int64_t perform_work(Context& context, const Operation& operation, int64_t begin_ns) {
    const auto* copy = std::get_if<Copy>(&operation);
    if (copy && copy->pageable() && !copy->permitted()) {  // its memory has gone since it was made
      context.fail(CUDA_ERROR_ILLEGAL_ADDRESS);
      return begin_ns;
    }
    const auto* kernel = std::get_if<KernelLaunch>(&operation);
    if (!kernel || !priority_ || kernel->priority == *priority_) {
      return perform(process_, context, operation, begin_ns);
    }
    KernelLaunch own = *kernel;
    own.priority = *priority_;
    return perform(process_, context, Operation(std::move(own)), begin_ns);
  }

  int64_t choose(const ExecChoice& choice, int64_t begin_ns) {
    auto value = [&] { return __atomic_load_n(&choice.value->value, __ATOMIC_ACQUIRE); };
    auto pass = [&](size_t body) {
      if (body >= choice.bodies.size()) return;
      begin_ns = std::make_shared<Pass>(process_, context_, *choice.bodies[body], nullptr,
                                        priority_, begin_ns)
                     ->run();
    };
    switch (choice.type) {
      case CU_GRAPH_COND_TYPE_IF:
        pass(value() != 0 ? 0 : 1);
        break;
      case CU_GRAPH_COND_TYPE_WHILE:
        while (value() != 0 && !process_.health_of(context_)) {
          pass(0);
          if (process_.settings.model_mode) break;  // no kernel runs that could end the loop
        }
        break;
      case CU_GRAPH_COND_TYPE_SWITCH:
        pass(value());
        break;
    }
    return begin_ns;
  }

  Process& process_;
  Context& context_;
  const ExecBody& body_;
  const GraphRun* run_;
  const std::optional<int> priority_;
  std::vector<std::atomic<uint32_t>> waiting_;
  std::vector<std::atomic<int64_t>> finish_ns_;
  std::atomic<uint32_t> left_;
  std::atomic<int64_t> end_ns_;
  Completion ended_;
};

}  // namespace

int64_t perform(Process& process, Context& context, const GraphLaunch& launch, int64_t begin_ns) {
  const GraphRun& run = *launch.run;
  for (const auto& value : run.body->values) {
    if (value->assigned_at_launch) {
      __atomic_store_n(&value->value, value->launch_value, __ATOMIC_RELEASE);
    }
  }
  begin_ns = std::max(begin_ns, run.ready_ns);
  ThreadClock::hold(begin_ns);
  return std::make_shared<Pass>(process, context, *run.body, &run, run.priority, begin_ns)->run();
}

}  // namespace lambent::emulated_cuda
