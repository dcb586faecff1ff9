#include "core/metrics/worker_metrics.h"

#include <algorithm>
#include <array>
#include <list>
#include <utility>

#include "core/domain/slice.h"
#include "core/metrics/limits.h"
#include "core/metrics/registry.h"

namespace lambent::metrics {
namespace {

constexpr DeviceId kProcessors{0};  // the place of an invocation that has no GPU
constexpr size_t kOutcomes = 3;
constexpr size_t kStarts = 3;

// From a tenth of a millisecond (a warm no-op) to ten minutes (a queue under overload).
constexpr std::array<double, 20> kLatencyBuckets = {
    0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1,
    0.25,   0.5,     1,      2.5,   5,      10,    30,   60,    300,  600};

Labels labels_of(const FunctionName& function) {
  return {{"tenant", std::to_string(function.tenant.value)}, {"function", function.name}};
}

Labels with(Labels labels, const char* name, std::string_view value) {
  labels[name] = value;
  return labels;
}

Labels labels_of_outcome(const FunctionName& function, Outcome outcome, StartClass start) {
  return with(with(labels_of(function), "outcome", name_of(outcome)), "start", name_of(start));
}

const char* name_of_slo(bool in_time) { return in_time ? "in_time" : "late"; }

}  // namespace

struct WorkerMetrics::State {
  Registry registry;

  Family<Counter>& invocations =
      registry.family<Counter>("lambent_invocations_total", "Invocations by outcome.");
  Family<Counter>& refusals = registry.family<Counter>(
      "lambent_refusals_total", "Invocations refused because too much waits, by limit.");
  Family<Histogram>& durations = registry.family<Histogram>("lambent_invocation_duration_seconds",
                                                            "From submission to outcome.");
  Family<Histogram>& queues =
      registry.family<Histogram>("lambent_queue_seconds", "From submission until dispatched.");
  Family<Histogram>& memory_waits = registry.family<Histogram>(
      "lambent_gpu_memory_wait_seconds",
      "Of runs that began without their GPU memory: until it was in place.");
  Family<Histogram>& cold_starts = registry.family<Histogram>(
      "lambent_cold_start_seconds",
      "Starts of sandboxes: phase sandbox is ours, phase runtime the function's.");
  Counter& forked = registry
                        .family<Counter>("lambent_sandboxes_forked_total",
                                         "Sandboxes whose program was forked from a zygote.")
                        .add({});
  Family<Counter>& network_refusals = registry.family<Counter>(
      "lambent_network_refused_total",
      "Connections and names that programs of a function asked for and did not get.");
  Family<Counter>& zygotes = registry.family<Counter>(
      "lambent_zygotes_total",
      "Zygotes that became ready, failed (sandboxes start without), or were retired.");
  Family<Counter>& warm_ups = registry.family<Counter>(
      "lambent_warm_ups_total",
      "Warm-ups of new sandboxes before their first invocation, by outcome; no invocations.");
  Family<Gauge>& pending = registry.family<Gauge>("lambent_flow_pending",
                                                  "Invocations that wait in a function's queue.");
  Family<Gauge>& running = registry.family<Gauge>(
      "lambent_flow_running", "Invocations of a function that were dispatched.");
  Family<Gauge>& virtual_times = registry.family<Gauge>(
      "lambent_flow_virtual_time_seconds", "Service charged to a function, divided by its weight.");
  Family<Gauge>& device_memory = registry.family<Gauge>(
      "lambent_gpu_memory_bytes",
      "Device memory: total, used, committed, resident, and taken by executors.");
  Family<Gauge>& utilisation =
      registry.family<Gauge>("lambent_gpu_utilization_ratio",
                             "Share of time in which the GPU had a kernel, as NVML tells it.");
  Family<Gauge>& tokens = registry.family<Gauge>(
      "lambent_gpu_tokens",
      "Dispatch tokens of a GPU: all, those held, and those kept for a function that takes "
      "several GPUs.");
  Family<Gauge>& healthy = registry.family<Gauge>(
      "lambent_gpu_healthy", "1 while the GPU is given work; 0: silent, drained or lost.");
  Family<Counter>& xid_errors = registry.family<Counter>(
      "lambent_gpu_xid_errors_total", "Xid errors that the driver reported, by number.");
  Family<Gauge>& sandboxes =
      registry.family<Gauge>("lambent_pool_containers", "Sandboxes by state.");
  Gauge& host_memory = registry
                           .family<Gauge>("lambent_sandbox_host_memory_bytes",
                                          "Host memory that sandboxes of handlers use now.")
                           .add({});
  Gauge& memory_on_host =
      registry
          .family<Gauge>("lambent_moved_out_memory_bytes",
                         "Device memory of idle functions that is on the host, of all GPUs.")
          .add({});
  Gauge& queued =
      registry
          .family<Gauge>("lambent_queued_invocations", "Invocations that wait, of all functions.")
          .add({});
  Family<Counter>& moved_bytes = registry.family<Counter>(
      "lambent_gpu_memory_moved_bytes_total",
      "Device memory moved, by direction: out to the host, in to the device.");
  Family<Counter>& fetches = registry.family<Counter>(
      "lambent_gpu_memory_fetches_total",
      "Programs that asked for device memory which was offloaded: granted, or refused for want "
      "of room.");
  std::array<Counter*, 2> fetches_by_answer = {&fetches.add({{"answer", "refused"}}),
                                               &fetches.add({{"answer", "granted"}})};
  Family<Histogram>& move_seconds =
      registry.family<Histogram>("lambent_gpu_memory_move_seconds",
                                 "From the command to move a sandbox's device memory to its end.");
  Gauge& state_disk_free = registry
                               .family<Gauge>("lambent_state_disk_free_bytes",
                                              "Free space of the disk that holds the state folder.")
                               .add({});
  Gauge& state_disk_full =
      registry
          .family<Gauge>("lambent_state_disk_full",
                         "1 while that disk is full: nothing that has to be durable is taken.")
          .add({});
  Family<Gauge>& objects =
      registry.family<Gauge>("lambent_objects", "Objects by state, and waits for them.");
  Family<Gauge>& object_bytes =
      registry.family<Gauge>("lambent_object_bytes", "Bytes of objects by place.");
  Family<Gauge>& tls_expiry =
      registry.family<Gauge>("lambent_tls_certificate_expiry_timestamp_seconds",
                             "When the certificate of the API ends, since the Unix epoch.");
  Family<Counter>& tls_handshakes = registry.family<Counter>(
      "lambent_tls_handshakes_total", "TLS handshakes of clients by outcome.");
  Family<Counter>& tls_reloads = registry.family<Counter>(
      "lambent_tls_reloads_total",
      "Changed certificates that were put into use, and those that could not be.");
  Family<Counter>& object_events = registry.family<Counter>(
      "lambent_object_events_total", "Events of objects and of requests for them.");
  Family<Gauge>& executors = registry.family<Gauge>(
      "lambent_executors",
      "Processes that kernel functions and handlers with a shared runtime run in, by device.");
  Family<Counter>& executor_ends = registry.family<Counter>(
      "lambent_executor_ends_total",
      "Such processes that ended, by how: unused, a fault of what ran there, something that "
      "did not end, another death, never ready.");
  Family<Counter>& starts_ahead = registry.family<Counter>(
      "lambent_starts_ahead_total",
      "Sandboxes started ahead of calls, by what became of them: started (all), used by a call, "
      "wasted (ended without any).");
  Family<Counter>& object_moves = registry.family<Counter>(
      "lambent_object_moves_total",
      "Objects evicted from a device, by where they are then: where another function "
      "has read them, on a neighbour, in host memory only.");
  Family<Counter>& object_reads = registry.family<Counter>(
      "lambent_object_reads_total",
      "Objects that kernel functions had to copy, by where from: their device, a neighbour, host "
      "memory.");
  Family<Counter>& object_read_bytes = registry.family<Counter>(
      "lambent_object_read_bytes_total", "The bytes of these objects, by the same.");
  Family<Counter>& object_moved_bytes = registry.family<Counter>(
      "lambent_object_moved_bytes_total", "What they took of that device, by the same.");
  Family<Counter>& object_keeps = registry.family<Counter>(
      "lambent_object_keeps_total",
      "Outputs that stayed on their device: kept (all), then read on the host, evicted to it, "
      "avoided (never copied), lost.");
  Family<Counter>& object_keep_bytes = registry.family<Counter>(
      "lambent_object_keep_bytes_total", "The bytes of these objects, by the same.");
  Family<Counter>& tenant_gpu_runs = registry.family<Counter>(
      "lambent_tenant_gpu_run_seconds_total",
      "Run time of a tenant's invocations on GPUs, for each that they had.");
  Family<Counter>& slo_requests = registry.family<Counter>(
      "lambent_slo_requests_total",
      "Requests of functions with an SLO: in time, or late (failed ones too).");
  Family<Counter>& batches = registry.family<Counter>(
      "lambent_batches_total",
      "Invocations that were several calls of a kernel function, run together.");
  Family<Counter>& batched_calls =
      registry.family<Counter>("lambent_batched_calls_total", "Calls in these.");
  Family<Counter>& slice_busy = registry.family<Counter>(
      "lambent_slice_busy_seconds_total", "Time in which a pipeline's component ran on the slice.");
  Family<Counter>& gpu_slices_busy =
      registry.family<Counter>("lambent_gpu_slices_busy_seconds_total",
                               "Time in which a pipeline's component ran on any slice of the GPU.");
  Family<Gauge>& slice_held = registry.family<Gauge>(
      "lambent_slice_held", "1 while an instance of a pipeline has the slice.");
  Family<Counter>& retries = registry.family<Counter>(
      "lambent_async_retries_total",
      "Asynchronous invocations that are tried again, by reason: failed, or put_off (they could "
      "not run).");
  Family<Counter>& destinations = registry.family<Counter>(
      "lambent_async_destinations_total",
      "Outcomes of asynchronous invocations for a destination, by condition, and whether they "
      "were sent.");
  Gauge& waiting_for_retry = registry
                                 .family<Gauge>("lambent_async_waiting_for_retry",
                                                "Asynchronous invocations that wait to be tried "
                                                "again, of all functions.")
                                 .add({});
  Family<Counter>& firings = registry.family<Counter>(
      "lambent_schedule_firings_total",
      "Times for which a schedule was due: its invocation was begun, or they were missed.");
  Family<Gauge>& last_firings = registry.family<Gauge>(
      "lambent_schedule_last_timestamp_seconds",
      "The last time for which a schedule's invocation was begun, since the Unix epoch.");
  Family<Gauge>& next_firings = registry.family<Gauge>(
      "lambent_schedule_next_timestamp_seconds",
      "When a schedule is due next, since the Unix epoch; none while it is disabled.");
  Counter& dropped = registry
                         .family<Counter>("lambent_metrics_functions_dropped_total",
                                          "Functions whose series were dropped to make room for "
                                          "those of others.")
                         .add({});
  struct Moves {
    Counter& bytes;
    Histogram& seconds;
  };
  Moves moves_of(const char* direction) {
    return {moved_bytes.add({{"direction", direction}}),
            move_seconds.add({{"direction", direction}}, kLatencyBuckets)};
  }
  Moves moves_out = moves_of("out");
  Moves moves_in = moves_of("in");
  Histogram& memory_wait_seconds = memory_waits.add({}, kLatencyBuckets);
  Histogram& sandbox_seconds = cold_starts.add({{"phase", "sandbox"}}, kLatencyBuckets);
  Histogram& runtime_seconds = cold_starts.add({{"phase", "runtime"}}, kLatencyBuckets);

  // The series of one function; counters come into being with their first event.
  struct Series {
    std::array<std::array<Counter*, kStarts>, kOutcomes> invocations{};
    Histogram* duration = nullptr;
    Histogram* queue = nullptr;
    Gauge* pending = nullptr;
    Gauge* running = nullptr;
    Gauge* virtual_time = nullptr;
    std::array<Counter*, 2> slo{};  // late, in time
    Counter* batches = nullptr;
    Counter* batched_calls = nullptr;
    Counter* network_refusals = nullptr;
    Counter* gpu_runs = nullptr;               // of its tenant
    std::map<std::string, Counter*> refusals;  // by limit; there are less than ten
    std::array<Counter*, 2> retries{};         // put off, failed
    // By condition and outcome; six at most.
    std::map<std::pair<std::string, std::string>, Counter*> destinations;
    std::list<FunctionName>::iterator place;  // in `recent`
  };
  std::map<FunctionName, Series> functions;
  std::list<FunctionName> recent;  // those with series, the one of the latest event last

  // The series of one schedule.
  struct ScheduleSeries {
    Counter* begun = nullptr;
    Counter* missed = nullptr;
    Gauge* last = nullptr;
    Gauge* next = nullptr;
  };
  using ScheduleKey = std::pair<FunctionName, std::string>;
  std::map<ScheduleKey, ScheduleSeries> schedules;

  static Labels labels_of_schedule(const ScheduleKey& key, const char* outcome = nullptr) {
    Labels labels = labels_of(key.first);
    labels["schedule"] = key.second;
    if (outcome != nullptr) labels["outcome"] = outcome;
    return labels;
  }

  void forget(const ScheduleKey& key) {
    for (const char* outcome : {"begun", "missed"}) {
      firings.remove(labels_of_schedule(key, outcome));
    }
    last_firings.remove(labels_of_schedule(key));
    next_firings.remove(labels_of_schedule(key));
  }

  ScheduleSeries& schedule_series_of(const ScheduleKey& key) {
    ScheduleSeries& series = schedules[key];
    if (series.begun != nullptr) return series;
    series.begun = &firings.add(labels_of_schedule(key, "begun"));
    series.missed = &firings.add(labels_of_schedule(key, "missed"));
    return series;
  }

  void forget(const FunctionName& function) {
    const auto found = functions.find(function);
    if (found == functions.end()) return;
    const Series& series = found->second;
    Labels labels = labels_of(function);
    durations.remove(labels);
    queues.remove(labels);
    pending.remove(labels);
    running.remove(labels);
    virtual_times.remove(labels);
    batches.remove(labels);
    batched_calls.remove(labels);
    network_refusals.remove(labels);
    for (const auto& [reason, counter] : series.refusals) {
      refusals.remove(with(labels, "reason", reason));
    }
    for (const char* reason : {"failed", "put_off"}) retries.remove(with(labels, "reason", reason));
    for (const auto& [what, counter] : series.destinations) {
      destinations.remove(with(with(labels, "condition", what.first), "outcome", what.second));
    }
    for (const bool in_time : {false, true}) {
      slo_requests.remove(with(labels, "outcome", name_of_slo(in_time)));
    }
    for (size_t outcome = 0; outcome < kOutcomes; ++outcome) {
      for (size_t start = 0; start < kStarts; ++start) {
        if (series.invocations[outcome][start] == nullptr) continue;
        invocations.remove(labels_of_outcome(function, static_cast<Outcome>(outcome),
                                             static_cast<StartClass>(start)));
      }
    }
    recent.erase(series.place);
    functions.erase(found);
  }

  // Its latest event is now. Makes room for one more.
  Series& series_of(const FunctionName& function) {
    const auto found = functions.find(function);
    if (found != functions.end()) {
      recent.splice(recent.end(), recent, found->second.place);
      return found->second;
    }
    if (functions.size() >= limits::kFunctionsWithMetrics) {
      forget(FunctionName(recent.front()));
      dropped.increment();
    }
    const Labels labels = labels_of(function);
    Series& series = functions[function];
    series.place = recent.insert(recent.end(), function);
    series.duration = &durations.add(labels, kLatencyBuckets);
    series.queue = &queues.add(labels, kLatencyBuckets);
    series.pending = &pending.add(labels);
    series.running = &running.add(labels);
    series.virtual_time = &virtual_times.add(labels);
    return series;
  }

  // Of error types "Overload.QueueWait" the reason is the second word.
  void note_refusal(const FunctionName& function, const std::string& error_type) {
    std::string reason = error_type.substr(error_type.find('.') + 1);
    if (reason.empty()) reason = "Waiting";
    Counter*& counter = series_of(function).refusals[reason];
    if (counter == nullptr) {
      counter = &refusals.add(with(labels_of(function), "reason", reason));
    }
    counter->increment();
  }
};

WorkerMetrics::WorkerMetrics(const std::string& version) : state_(std::make_unique<State>()) {
  state_->registry.family<Gauge>("lambent_build_info", "The worker's version; always 1.")
      .add({{"version", version}})
      .set(1);
}

WorkerMetrics::~WorkerMetrics() = default;

void WorkerMetrics::memory_moved(bool out, Bytes moved, Duration duration) {
  const State::Moves& moves = out ? state_->moves_out : state_->moves_in;
  moves.bytes.increment(static_cast<double>(moved.count));
  moves.seconds.observe(to_seconds(duration));
}

void WorkerMetrics::memory_wanted(bool granted) {
  state_->fetches_by_answer[granted ? 1 : 0]->increment();
}

void WorkerMetrics::completed(const FunctionName& function, const InvocationResult& result) {
  State::Series& series = state_->series_of(function);
  Counter*& counter =
      series.invocations[static_cast<size_t>(result.outcome)][static_cast<size_t>(result.start)];
  if (counter == nullptr) {
    counter = &state_->invocations.add(labels_of_outcome(function, result.outcome, result.start));
  }
  counter->increment();
  if (result.retry_after > Duration(0)) state_->note_refusal(function, result.error_type);
  // A refusal takes no time: under overload it would make latencies look better the worse they are.
  if (result.retry_after > Duration(0)) return;
  series.duration->observe(to_seconds(result.phases.total()));
  series.queue->observe(to_seconds(result.phases.queue));
  if (result.device && *result.device != kProcessors) {
    if (series.gpu_runs == nullptr) {
      series.gpu_runs =
          &state_->tenant_gpu_runs.add({{"tenant", std::to_string(function.tenant.value)}});
    }
    const auto gpus = static_cast<double>(1 + result.beside.size());
    series.gpu_runs->increment(to_seconds(result.phases.run) * gpus);
  }
  if (result.start == StartClass::kGpuCold) {
    state_->memory_wait_seconds.observe(to_seconds(result.phases.memory));
  }
}

void WorkerMetrics::sandbox_started(Duration sandbox_time, Duration init_time) {
  state_->sandbox_seconds.observe(to_seconds(sandbox_time));
  state_->runtime_seconds.observe(to_seconds(init_time));
}

void WorkerMetrics::sandbox_forked() { state_->forked.increment(); }

void WorkerMetrics::zygote(std::string_view event) {
  state_->zygotes.add({{"event", std::string(event)}}).increment();
}

void WorkerMetrics::warm_up(bool succeeded) {
  state_->warm_ups.add({{"outcome", succeeded ? "succeeded" : "failed"}}).increment();
}

void WorkerMetrics::network_refused(const FunctionName& function, uint64_t times) {
  Counter*& counter = state_->series_of(function).network_refusals;
  if (counter == nullptr) counter = &state_->network_refusals.add(labels_of(function));
  counter->increment(static_cast<double>(times));
}

void WorkerMetrics::retried(const FunctionName& function, bool failed) {
  Counter*& counter = state_->series_of(function).retries[failed ? 1 : 0];
  if (counter == nullptr) {
    counter =
        &state_->retries.add(with(labels_of(function), "reason", failed ? "failed" : "put_off"));
  }
  counter->increment();
}

void WorkerMetrics::destination(const FunctionName& function, std::string_view condition,
                                bool sent) {
  const std::string outcome = sent ? "sent" : "not_sent";
  Counter*& counter = state_->series_of(function).destinations[{std::string(condition), outcome}];
  if (counter == nullptr) {
    counter = &state_->destinations.add(
        with(with(labels_of(function), "condition", condition), "outcome", outcome));
  }
  counter->increment();
}

void WorkerMetrics::set_waiting_for_retry(uint64_t waiting) {
  state_->waiting_for_retry.set(static_cast<double>(waiting));
}

void WorkerMetrics::slo(const FunctionName& function, bool in_time) {
  Counter*& counter = state_->series_of(function).slo[in_time ? 1 : 0];
  if (counter == nullptr) {
    counter = &state_->slo_requests.add(with(labels_of(function), "outcome", name_of_slo(in_time)));
  }
  counter->increment();
}

void WorkerMetrics::batched(const FunctionName& function, size_t calls) {
  State::Series& series = state_->series_of(function);
  if (series.batches == nullptr) {
    series.batches = &state_->batches.add(labels_of(function));
    series.batched_calls = &state_->batched_calls.add(labels_of(function));
  }
  series.batches->increment();
  series.batched_calls->increment(static_cast<double>(calls));
}

void WorkerMetrics::set_slice(DeviceId slice, const std::string& shape, Duration busy, bool held) {
  const Labels labels = {{"gpu", place_name(slice)}, {"shape", shape}};
  Counter& counter = state_->slice_busy.add(labels);
  counter.increment(std::max(0.0, to_seconds(busy) - counter.value()));
  state_->slice_held.add(labels).set(held ? 1 : 0);
}

void WorkerMetrics::set_gpu_time(uint32_t gpu, Duration busy) {
  Counter& counter = state_->gpu_slices_busy.add({{"gpu", std::to_string(gpu)}});
  counter.increment(std::max(0.0, to_seconds(busy) - counter.value()));
}

void WorkerMetrics::forget(const FunctionName& function) { state_->forget(function); }

void WorkerMetrics::set_flow(const FunctionName& function, const FlowGauges& gauges) {
  // Of thousands of functions most do nothing: a series begins with the first invocation.
  const bool idle = gauges.pending == 0 && gauges.running == 0;
  const auto found = state_->functions.find(function);
  const bool is_shown = found != state_->functions.end();
  if (idle && !is_shown) return;
  // To be asked for is no event of the function.
  State::Series& series = is_shown ? found->second : state_->series_of(function);
  series.pending->set(static_cast<double>(gauges.pending));
  series.running->set(static_cast<double>(gauges.running));
  series.virtual_time->set(to_seconds(gauges.virtual_time));
}

void WorkerMetrics::set_schedules(const std::vector<ScheduleGauges>& all) {
  auto former = std::exchange(state_->schedules, {});
  for (const ScheduleGauges& gauges : all) {
    const State::ScheduleKey key{gauges.function, gauges.schedule};
    if (auto known = former.extract(key)) state_->schedules.insert(std::move(known));
    State::ScheduleSeries& series = state_->schedule_series_of(key);
    const Labels labels = State::labels_of_schedule(key);
    const auto raise = [](Counter& counter, uint64_t count) {
      counter.increment(static_cast<double>(count) - counter.value());
    };
    raise(*series.begun, gauges.begun);
    raise(*series.missed, gauges.missed);
    const auto tell = [&](Family<Gauge>& family, Gauge*& gauge, const auto& instant) {
      if (!instant) {
        if (gauge != nullptr) family.remove(labels);
        gauge = nullptr;
        return;
      }
      gauge = &family.add(labels);
      gauge->set(static_cast<double>(instant->count()));
    };
    tell(state_->last_firings, series.last, gauges.last);
    tell(state_->next_firings, series.next, gauges.next);
  }
  for (const auto& [key, series] : former) state_->forget(key);
}

void WorkerMetrics::set_device(DeviceId device, const DeviceGauges& gauges) {
  const std::string gpu = place_name(device);
  const auto memory = [&](const char* kind, Bytes bytes) {
    state_->device_memory.add({{"gpu", gpu}, {"kind", kind}}).set(static_cast<double>(bytes.count));
  };
  memory("total", gauges.memory_total);
  memory("used", gauges.memory_used);
  memory("committed", gauges.memory_committed);
  memory("resident", gauges.memory_resident);
  memory("taken", gauges.memory_taken);
  state_->utilisation.add({{"gpu", gpu}}).set(gauges.utilisation);
  state_->tokens.add({{"gpu", gpu}, {"kind", "all"}}).set(gauges.tokens);
  state_->tokens.add({{"gpu", gpu}, {"kind", "held"}}).set(gauges.tokens_held);
  state_->tokens.add({{"gpu", gpu}, {"kind", "reserved"}}).set(gauges.tokens_reserved);
  state_->executors.add({{"gpu", gpu}}).set(static_cast<double>(gauges.executors));
  state_->healthy.add({{"gpu", gpu}}).set(gauges.healthy ? 1 : 0);
}

void WorkerMetrics::set_xids(DeviceId device, const std::map<uint32_t, uint64_t>& xids) {
  for (const auto& [xid, count] : xids) {
    Counter& counter =
        state_->xid_errors.add({{"gpu", place_name(device)}, {"xid", std::to_string(xid)}});
    counter.increment(static_cast<double>(count) - counter.value());
  }
}

void WorkerMetrics::set_executor_ends(std::string_view how, uint64_t count) {
  Counter& counter = state_->executor_ends.add({{"how", std::string(how)}});
  counter.increment(static_cast<double>(count) - counter.value());
}

void WorkerMetrics::set_starts_ahead(std::string_view what, uint64_t count) {
  Counter& counter = state_->starts_ahead.add({{"what", std::string(what)}});
  counter.increment(static_cast<double>(count) - counter.value());
}

void WorkerMetrics::set_sandboxes(const std::map<std::string, uint64_t>& by_state) {
  for (const auto& [name, count] : by_state) {
    state_->sandboxes.add({{"state", name}}).set(static_cast<double>(count));
  }
}

void WorkerMetrics::set_memory_on_host(Bytes memory) {
  state_->memory_on_host.set(static_cast<double>(memory.count));
}

void WorkerMetrics::set_host_memory(Bytes memory) {
  state_->host_memory.set(static_cast<double>(memory.count));
}

void WorkerMetrics::set_objects(const ObjectGauges& gauges) {
  const auto state = [&](const char* name, uint64_t count) {
    state_->objects.add({{"state", name}}).set(static_cast<double>(count));
  };
  state("exists", gauges.objects);
  state("expected", gauges.expected);
  state("waited_for", gauges.waiting);
  const auto place = [&](const char* name, Bytes bytes) {
    state_->object_bytes.add({{"place", name}}).set(static_cast<double>(bytes.count));
  };
  place("memory", gauges.memory);
  place("disk", gauges.disk);
  const auto event = [&](const char* name, uint64_t count) {
    Counter& counter = state_->object_events.add({{"event", name}});
    counter.increment(static_cast<double>(count) - counter.value());
  };
  event("stored", gauges.stored);
  event("failed", gauges.failed);
  event("expired", gauges.expired);
  event("spilled", gauges.spilled);
  event("read_back", gauges.read_back);
  event("lost", gauges.lost);
  event("refused", gauges.refused);
  event("wait", gauges.waits);
  event("wait_timed_out", gauges.timed_out);
}

void WorkerMetrics::set_tls(const TlsGauges& gauges) {
  state_->tls_expiry.add({}).set(to_seconds(gauges.expires_at));
  const auto raise = [](Family<Counter>& family, const char* outcome, uint64_t count) {
    Counter& counter = family.add({{"outcome", outcome}});
    counter.increment(static_cast<double>(count) - counter.value());
  };
  raise(state_->tls_handshakes, "full", gauges.full_handshakes);
  raise(state_->tls_handshakes, "resumed", gauges.resumed_handshakes);
  raise(state_->tls_handshakes, "failed", gauges.failed_handshakes);
  raise(state_->tls_reloads, "loaded", gauges.reloads);
  raise(state_->tls_reloads, "failed", gauges.failed_reloads);
}

void WorkerMetrics::set_object_moves(const ObjectMoves& moves) {
  state_->object_bytes.add({{"place", "device"}}).set(static_cast<double>(moves.on_devices.count));
  const auto raise = [](Counter& counter, uint64_t count) {
    counter.increment(static_cast<double>(count) - counter.value());
  };
  for (const ObjectMoves::Way& way : moves.ways) {
    const Labels labels = {{"to", std::string(way.name)}};
    raise(state_->object_moves.add(labels), way.objects);
    raise(state_->object_moved_bytes.add(labels), way.bytes.count);
  }
  for (const ObjectMoves::Way& read : moves.reads) {
    const Labels labels = {{"from", std::string(read.name)}};
    raise(state_->object_reads.add(labels), read.objects);
    raise(state_->object_read_bytes.add(labels), read.bytes.count);
  }
  for (const ObjectMoves::Way& kept : moves.kept) {
    const Labels labels = {{"event", std::string(kept.name)}};
    raise(state_->object_keeps.add(labels), kept.objects);
    raise(state_->object_keep_bytes.add(labels), kept.bytes.count);
  }
}

void WorkerMetrics::set_state_disk(Bytes free, bool full) {
  state_->state_disk_free.set(static_cast<double>(free.count));
  state_->state_disk_full.set(full ? 1 : 0);
}

void WorkerMetrics::set_queued(uint64_t queued) { state_->queued.set(static_cast<double>(queued)); }

std::vector<FunctionName> WorkerMetrics::functions() const {
  std::vector<FunctionName> names;
  for (const auto& [name, series] : state_->functions) names.push_back(name);
  return names;
}

std::string WorkerMetrics::text() const { return state_->registry.text(); }

std::string WorkerMetrics::text_of(TenantId tenant) const {
  const Label label("tenant", std::to_string(tenant.value));
  return state_->registry.text(&label);
}

}  // namespace lambent::metrics
