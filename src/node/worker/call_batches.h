// CallBatches: calls of kernel functions that run together, where a function has variants for batch
// sizes and says so ("batches" in its graph). Several calls become one invocation, and each gets
// its own answer out of that one's. Which run together, and when, is decide/batching's to say.
// Before Intake, for WorkflowHost and for those who speak the inference protocol; on the loop
// thread.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/base/random.h"
#include "core/domain/inference.h"
#include "core/domain/invocation.h"
#include "core/loop/event_loop.h"
#include "decide/batching/call_queue.h"
#include "node/worker/limits.h"

namespace lambent::worker {

class CallBatches {
 public:
  using Done = std::function<void(Result<InvocationResult>)>;
  using Described = std::function<void(Result<ModelDescription>)>;

  struct Uses {
    loop::EventLoop& loop;
    Random& random;
    // What the function takes; the answer comes once, perhaps before this returns.
    std::function<void(const FunctionSpec&, Described)> describe;
    // Makes an invocation; Done comes once, perhaps before this returns.
    std::function<void(InvocationRequest, Done)> submit;
    std::function<void(InvocationId)> forget;
    // So many calls are made as one.
    std::function<void(const FunctionName&, size_t calls)> on_batch;
  };
  struct Limits {
    // Of the calls of one function that wait; those beyond it are not put together.
    size_t waiting = limits::kBatchedCallsWaiting;
    Bytes waiting_payload = limits::kBatchedPayloadsWaiting;
    Bytes all_payload = limits::kBatchedPayloads;  // of all functions, also of batches that run
    size_t functions = limits::kBatchedFunctions;  // that are remembered
  };
  struct Call {
    InvocationRequest request;
    uint64_t elements = 0;  // of the first dimension; 0: it is made by itself
    bool by_value = false;  // its outputs come in the answer
    Done done;
    std::optional<Instant> since = {};  // it waits; none: since now
  };

  CallBatches(Uses uses, Limits limits) : uses_(std::move(uses)), limits_(limits) {}
  explicit CallBatches(Uses uses) : CallBatches(std::move(uses), Limits{}) {}
  ~CallBatches();
  CallBatches(const CallBatches&) = delete;
  CallBatches& operator=(const CallBatches&) = delete;

  // A call of a kernel function. The result of one that was made together with others has the id
  // of that invocation, which made its objects.
  void submit(const FunctionSpec& spec, Call call);
  // Nothing waits for the call any more, or for the invocation of this id. The others of a batch
  // that runs go on.
  void forget(InvocationId id);

  size_t waiting() const { return calls_.size(); }  // or in a batch that runs

 private:
  // A package is the same as long as its digest is.
  using Key = std::pair<FunctionId, std::string>;
  struct Function {
    bool is_known = false;                       // whether it has batches
    bool is_asked = false;                       // that is being found out
    std::unique_ptr<batching::CallQueue> queue;  // null: it has none
    uint64_t most_elements = 0;
    uint64_t output_of_one = 0;         // bytes of an element's outputs
    std::deque<InvocationId> arriving;  // until that is known
    std::optional<loop::TimerId> timer;
    bool is_idle() const { return !is_asked && (queue == nullptr || queue->is_idle()); }
  };
  struct Entry {
    Key key;
    Call call;
    Instant since{}, came{};
    InvocationId batch = {};  // that it is in; none: it waits
    bool is_gone = false;
  };
  struct Batch {
    Key key;
    std::vector<InvocationId> calls;
    Instant began{};
  };

  Function& function_of(const Key& key);
  void described(const Key& key, Result<ModelDescription> model);
  void enqueue(Function& function, InvocationId id);
  Call take(InvocationId id);
  void pass_on(InvocationId id);
  void begin(const Key& key);
  void begin_one(const Key& key, InvocationId id);
  void begin_batch(const Key& key, std::vector<InvocationId> calls);
  void batch_ended(InvocationId id, Result<InvocationResult> result);
  void give(const Batch& batch, InvocationResult result);
  Instant end_of_run(const Result<InvocationResult>& result) const;
  void make_one_by_one(const Batch& batch);
  // The function has nothing under way. What is refused at once may be the next one, too.
  void go_on(const Key& key, Instant ended, bool has_run);

  const Uses uses_;
  const Limits limits_;
  std::map<Key, Function> functions_;
  std::unordered_map<InvocationId, Entry> calls_;  // that wait, or are in a batch
  std::unordered_map<InvocationId, Batch> batches_;
  Bytes payload_;  // of calls_
  // Gone with this: what was put off asks for it.
  const std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace lambent::worker
