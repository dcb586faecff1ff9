// Worker: the daemon's centre. Implements InvocationService, feeds dispatch with events and
// performs its actions on sandboxes, the catalog and the clients that wait. Everything happens on
// the loop thread.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/base/log.h"
#include "core/base/random.h"
#include "core/domain/invocation_service.h"
#include "core/loop/event_loop.h"
#include "core/metrics/worker_metrics.h"
#include "decide/dispatch/dispatcher.h"
#include "decide/journal/recorder.h"
#include "node/catalog/catalog.h"
#include "node/sandbox/launcher.h"
#include "node/worker/device_care.h"
#include "node/worker/executor_host.h"
#include "node/worker/file_thread.h"
#include "node/worker/function_registry.h"
#include "node/worker/idempotency.h"
#include "node/worker/log_store.h"
#include "node/worker/object_waits.h"
#include "node/worker/pipeline_host.h"
#include "node/worker/sandbox_host.h"
#include "node/worker/workflow_host.h"

namespace lambent::worker {

struct WorkerOptions {
  std::string state_folder;  // code lies in state_folder/code/<digest>
  std::string run_folder;    // ledgers; emptied at start
  SandboxSetting sandboxes;
  ExecutorSetting executors;
  WorkflowHost::Limits workflows = {};
  PipelineSetting pipelines;
  std::vector<protocol::DeviceInventory> devices;  // all, those of pipelines too
  Bytes device_memory;  // of the largest device; functions that ask for more are refused
  // What a CUDA context takes of the device beside what its function allocates.
  Bytes context_memory;
  // Where sandboxes get their turns on a device's link and host memory (SandboxHost::Events); both
  // or neither.
  std::function<void(SandboxId, DeviceId, Bytes most_leased, OwnedFd listener)> serve_link;
  std::function<void(SandboxId)> forget_link;
  // Handlers' calls on objects (SandboxHost::Events); may be empty.
  std::function<void(TenantId, http::Request, std::string_view path, http::Responder)> on_object;
  // A function that takes turns on a GPU may have no longer timeout: nothing takes a run off a GPU,
  // so that is how long it can keep the others waiting.
  Duration longest_gpu_run = limits::kMostTimeout;
  // How long the results of asynchronous invocations can be read.
  Duration result_window = std::chrono::hours(24);
  // Invocations whose payloads would make all live ones hold more than this are refused, and of a
  // function whose live ones hold more than they leave free.
  Bytes most_payloads = Bytes::mib(1024);
  // An asynchronous invocation that a worker was killed under this often is given up.
  unsigned most_attempts = 3;
};

class Worker final : public InvocationService {
 public:
  // What the worker stands on; all outlive it.
  struct Dependencies {
    loop::EventLoop& loop;
    LogSink& log;
    Random& random;
    sandbox::Launcher& launcher;
    catalog::Catalog& catalog;
    metrics::WorkerMetrics& metrics;
    journal::Recorder* journal = nullptr;     // records every event, if there is one
    objects::ObjectStore* objects = nullptr;  // of kernel functions' inputs and outputs
  };

  Worker(Dependencies dependencies, WorkerOptions options,
         std::unique_ptr<dispatch::Dispatcher> dispatcher,
         std::unique_ptr<slice_scheduling::SliceDispatcher> slices);
  ~Worker() override;

  // Reads the catalog: functions, statistics, and the asynchronous invocations that an earlier
  // worker left. Blocks; before the loop runs.
  Result<void> recover();

  // What lambent-device tells (worker_devices.cc): a reading of a device; a round of readings, in
  // which a device that is missing is lost; Xids that were reported; nothing, for NVML may hang.
  void device_reading(const protocol::DeviceReading& reading);
  void devices_read(const std::vector<protocol::DeviceReading>& readings);
  void devices_silent();
  void devices_faulted(const std::vector<protocol::DeviceFault>& faults);
  // All devices and how they are, as JSON.
  std::string devices_json() const;
  // Gives a device no more work, and work again. `name` is its place ("0", "0:2"; "0" are also all
  // instances of that GPU) or how its UUID begins. NOT_FOUND; FAILED_PRECONDITION: it is lost.
  // `done` once it is in the catalog; what the catalog fails with otherwise: it holds until the
  // worker ends.
  void drain_devices(const std::string& name, const std::string& reason, Callback<void> done);
  void undrain_devices(const std::string& name, Callback<void> done);
  // Takes no more work; `drained` is called when nothing runs any more.
  void drain(std::function<void()> drained);
  bool draining() const { return draining_; }
  // Brings the gauges up to date; called before metrics are shown.
  void update_gauges();

  // The devices that serve pipelines, and who has them, as JSON.
  std::string slices_json(TenantId tenant) const { return pipelines_.slices_json(tenant); }
  // A pipeline function's definition, profile and instances, as JSON. NOT_FOUND,
  // FAILED_PRECONDITION: it is of another kind.
  Result<std::string> describe_pipeline(const FunctionName& name) const;
  // As PipelineHost::measure.
  void measure_pipeline(const FunctionName& name, std::string event, unsigned repeat,
                        Callback<std::string> done);

  // What an invocation that has no outcome yet waits for, and who has the GPUs meanwhile, as JSON
  // (worker_status.cc). NOT_FOUND.
  Result<std::string> explain_json(TenantId tenant, InvocationId id) const;
  // What a run of a workflow, or a pipeline for a request, did and where its time went, as JSON
  // (workflow_trace.h, pipeline_trace.h). NOT_FOUND.
  Result<std::string> trace(TenantId tenant, InvocationId invocation) const;

  void submit(InvocationRequest request, Callback<InvocationResult> done) override;
  void forget(InvocationId id) override;
  void async_result(TenantId tenant, InvocationId id,
                    Callback<std::optional<InvocationResult>> done) override;
  void create_function(FunctionChange change, Callback<FunctionSpec> done) override;
  void update_function(FunctionChange change, Callback<FunctionSpec> done) override;
  void remove_function(FunctionName name, Callback<FunctionSpec> done) override;
  Result<FunctionSpec> find_function(const FunctionName& name) const override;
  std::vector<FunctionSpec> list_functions(TenantId tenant, const std::string& after,
                                           size_t limit) const override;
  std::vector<FunctionStatus> function_status(TenantId tenant, const std::string& after,
                                              size_t limit) const override;
  FunctionTotals function_totals(TenantId tenant) const override;
  std::vector<SandboxStatus> sandbox_status(TenantId tenant) const override;
  Result<LogChunk> read_log(const FunctionName& name, uint64_t offset) const override;

 private:
  // An invocation that is queued or running.
  struct Live {
    InvocationRequest request;
    FunctionId function;
    Bytes payload;  // the size that the request came with
    // The revision that serves it, once it was started.
    uint64_t revision = 0;
    std::vector<Callback<InvocationResult>> waiters;
    std::string idempotency_key;
    std::optional<HandlerAnswer> answer;
    SandboxId sandbox;
    bool is_whole_pipeline = false;  // a pipeline's, that dispatch serves
    bool reads_objects = false;      // a kernel function's: executors know what it needs
  };

  // Invocations (worker.cc).
  // Why there is no room for it; of a synchronous one dispatch knows what waits beside it.
  std::optional<scheduling::Refusal> refusal_of(const InvocationRequest& request,
                                                const FunctionSpec& spec);
  // What waits of it in any of the places where that can be, and on its way into the catalog.
  scheduling::FunctionQueue queue_of(const FunctionSpec& spec);
  Bytes& payloads_of(FunctionId function);
  void count_payload(FunctionId function, Bytes more, Bytes less = {});
  // A repeat gets what the first got, or waits with it; false if nothing is known of a first, and
  // `done` is as it was.
  bool join_earlier(const std::string& key, Callback<InvocationResult>& done);
  // `refusal`, which counts as rejected if it is a result, unless this repeats what was accepted
  // for later: that is acknowledged again.
  void refuse_unless_repeated(const InvocationRequest& request, Result<InvocationResult> refusal,
                              Callback<InvocationResult> done);
  // `key`: empty, or what its repeats have as well.
  void submit_synchronous(InvocationRequest request, std::string key, const FunctionSpec& spec,
                          Callback<InvocationResult> done);
  void submit_asynchronous(InvocationRequest request, const FunctionSpec& spec,
                           Callback<InvocationResult> done);
  void accept(InvocationRequest request, FunctionId function, Callback<InvocationResult> waiter);
  // To dispatch, or a workflow to its first calls, now that nothing is missing.
  void queue(Live& live);
  void submit_to_dispatch(const Live& live);
  // It has its place and runs: of one that was acknowledged the catalog counts that as an attempt.
  void note_begun(const InvocationRequest& request);
  // What every invocation comes to in the end, wherever it was served: its result to whoever waits,
  // to the catalog and to the counts.
  void finish(InvocationResult result);
  void finish(Live live, InvocationResult result);
  Live take_live(InvocationId id);
  // It never ran.
  void reject(InvocationId id, Error error);
  // The end of what dispatch served; takes the answer out of `live`.
  InvocationResult result_of(Live& live, const dispatch::CompleteInvocation& completion);
  RunReport report_of(Live& live, Outcome outcome);
  void log_completion(const Live& live, const InvocationResult& result);
  void store_async_result(TenantId tenant, const InvocationResult& result);
  void retry_async_result(TenantId tenant, const InvocationResult& result);

  // Dispatch (worker_actions.cc).
  void handle(dispatch::Event event);
  void perform(const dispatch::Action& action);
  void perform(const dispatch::StartSandbox& action);
  void start_sandbox(const dispatch::StartSandbox& action);
  void perform(const dispatch::StartInvocation& action);
  void perform(const dispatch::StopSandbox& action);
  void perform(const dispatch::CompleteInvocation& action);
  void perform(const dispatch::WakeAt& action);
  void perform(const dispatch::MoveMemoryIn& action);
  void move_memory_in(SandboxId sandbox);
  void perform(const dispatch::MoveMemoryOut& action);
  void perform(const dispatch::GrantMemory& action);
  SandboxHost::Events host_events();
  void keep_executors(const FunctionSpec& spec);
  void drop_executors(const FunctionSpec& spec);
  void keep_all_executors();
  void sandbox_answered(SandboxId sandbox, HandlerAnswer answer);
  void sandbox_ended(SandboxEnd end);
  void memory_moved(SandboxId sandbox, const MemoryMove& move);
  void check_drained();
  void time_journal();
  void flush_journal();

  // Devices (worker_devices.cc).
  // To dispatch and to pipelines, after something was learnt of it, and before that it was so.
  void tell_of_device(DeviceId device, DeviceState before);
  // What outlives the worker of a device; none of one without a uuid.
  std::optional<catalog::DeviceRecord> record_of(DeviceId device) const;
  void keep_record(DeviceId device);  // if it changed
  void save_record(DeviceId device, Callback<void> done);
  void recover_devices(const std::vector<catalog::DeviceRecord>& records);
  Result<std::vector<DeviceId>> devices_called(const std::string& name) const;

  std::vector<SandboxStatus> all_sandboxes() const;

  // Objects (worker_objects.cc).
  Result<void> check_objects(const InvocationRequest& request) const;
  void begin_objects(const Live& live);
  void finish_objects(const Live& live, const InvocationResult& result);
  // Has objects on devices make way for what dispatch has just decided on, before it is done.
  void look_at_objects();
  // Whether this has to wait for that; then it is performed later.
  bool waits_for_objects(DeviceId device, const dispatch::Action& action);
  void look_at_deferred_soon();
  void perform_deferred();
  void start_deferred(const dispatch::StartSandbox& action);
  // What waits for objects and is not to be any more; none: nothing waits for this sandbox.
  std::optional<dispatch::Action> take_deferred(SandboxId sandbox);
  void evict_unused_executors();

  // Workflows (worker_workflows.cc).
  WorkflowHost::Events workflow_events();
  bool has_room_for_call(const FunctionName& name, Bytes payload);
  void begin_workflow(Live& live, const FunctionSpec& spec);

  // Pipelines (worker_pipelines.cc).
  PipelineSetting pipeline_setting();
  StageProcessSandboxes stage_process_sandboxes();
  PipelineHost::Events pipeline_events();
  // NOT_FOUND, FAILED_PRECONDITION: it is of another kind.
  Result<FunctionId> pipeline_called(const FunctionName& name) const;
  void begin_pipeline(Live& live, const FunctionSpec& spec);

  // Functions (worker_functions.cc).
  Result<void> check_change(const FunctionSpec& spec) const;
  Bytes most_device_memory(FunctionKind kind) const;
  void store_function(FunctionChange change, Callback<FunctionSpec> done);
  // What a function's package describes, where it describes something.
  struct Packaged {
    std::shared_ptr<const workflow::Workflow> graph;
    std::shared_ptr<const PipelinePackage> pipeline;
    PipelineHost::Planned planned;
  };
  void put_function(FunctionSpec spec, Packaged packaged, Callback<FunctionSpec> done);

  // No longer than this worker lets it be, for one that was deployed when it was let.
  void cap_timeout(FunctionSpec& spec) const;
  dispatch::FunctionProfile profile_of(const FunctionSpec& spec) const;
  std::string code_folder(const FunctionSpec& spec) const;
  void collect_code();
  Result<void> recover_async();

  // Status (worker_status.cc).
  const scheduling::Flow* flow_of(FunctionId id) const;
  void save_statistics();

  loop::EventLoop& loop_;
  LogSink& log_;
  Random& random_;
  catalog::Catalog& catalog_;
  metrics::WorkerMetrics& metrics_;
  journal::Recorder* journal_;
  WorkerOptions options_;
  std::unique_ptr<dispatch::Dispatcher> dispatcher_;
  FunctionRegistry functions_;
  IdempotencyTable idempotency_;
  LogStore logs_;
  FileThread files_;
  SandboxHost host_;
  ExecutorHost executors_;
  WorkflowHost workflows_;
  PipelineHost pipelines_;
  uint64_t stage_processes_started_ = 0;
  objects::ObjectStore* objects_;       // none: there are no objects
  std::unique_ptr<ObjectWaits> waits_;  // none: neither

  DeviceCare care_;
  std::map<std::string, catalog::DeviceRecord> kept_devices_;  // by uuid, as in the catalog
  std::unordered_map<InvocationId, Live> live_;
  Bytes payloads_;                  // of all live invocations
  std::vector<Bytes> payloads_of_;  // the same by FunctionId
  // Asynchronous invocations on their way into the catalog: they count against the queue's limit.
  size_t async_arriving_ = 0;
  std::vector<uint32_t> async_arriving_of_;  // the same by FunctionId
  std::unordered_map<FunctionId, catalog::FunctionStatistics> learnt_;
  // Set while dispatch is told that a sandbox ended, so that an invocation which never reached its
  // handler gets the runtime's own words.
  const SandboxEnd* ending_ = nullptr;
  // Events that came up while another was handled wait here for their turn.
  std::deque<dispatch::Event> events_;
  bool handling_ = false;
  std::vector<dispatch::Action> actions_;
  // Starts and moves in, until objects have made way on their device, or for long enough.
  struct Deferred {
    SandboxId sandbox;
    DeviceId device;
    dispatch::Action action;
    Instant by{};
  };
  std::vector<Deferred> deferred_;
  loop::TimerId deferred_timer_;
  bool deferred_timed_ = false;
  loop::TimerId wake_timer_;
  loop::TimerId journal_timer_;
  bool journal_timed_ = false;
  bool journal_stopped_ = false;  // and that was logged
  loop::TimerId statistics_timer_;
  bool draining_ = false;
  std::function<void()> drained_;
};

}  // namespace lambent::worker
