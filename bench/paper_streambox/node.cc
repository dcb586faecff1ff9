#include "bench/paper_streambox/node.h"

#include <algorithm>

#include "bench/paper_streambox/cluster.h"
#include "core/base/check.h"

namespace lambent::paper_streambox {
namespace {

// After the end of the arrivals what is under way has so long.
constexpr double kDrain_s = 120;

}  // namespace

using scheduling::kHost;

const char* name_of(System system) {
  static constexpr const char* kNames[] = {"infless", "astraea", "stream-only", "streambox",
                                           "infless-scaler"};
  return kNames[static_cast<size_t>(system)];
}

Models make_models(const Constants& constants) {
  Models models;
  for (const Network network : kNetworks) models.push_back(make_model(network, constants));
  return models;
}

RunResult run_once(const Constants& constants, const Models& models, const Workflow& workflow,
                   const Setup& setup, const std::vector<double>& arrivals, double length_s,
                   uint64_t seed) {
  return run_once(constants, models, workflow, setup,
                  draw_arrivals(constants, setup.tenants, arrivals, seed), length_s);
}

RunResult run_once(const Constants& constants, const Models& models, const Workflow& workflow,
                   const Setup& setup, const std::vector<Arrival>& arrivals, double length_s) {
  return Node(constants, models, workflow, setup).run(arrivals, length_s);
}

Node::Node(const Constants& constants, const Models& models, const Workflow& workflow,
           const Setup& setup)
    : constants_(constants),
      models_(models),
      workflow_(workflow),
      setup_(setup),
      runtimes_(setup.tenants * setup.devices),
      integrated_until_s_(setup.told_from_s) {
  // Whoever plans has no use for more than the peak.
  for (Model& model : models_) {
    for (BatchModel& batch : model.batches) {
      if (setup.planned) batch.profile.whole = batch.profile.peak();
    }
  }
  LinkOptions options{.bytes_per_s = constants.link_bytes_per_s,
                      .block_overhead_s = constants.block_overhead_s,
                      .batch_overhead_s = setup.wait_for_batches ? constants.synchronise_s : 0,
                      .transfers = setup.transfers};
  for (uint32_t i = 0; i < setup.devices; ++i) {
    devices_.push_back(std::make_unique<Device>(events_));
    devices_[i]->in = std::make_unique<Link>(events_, options);
    devices_[i]->out = std::make_unique<Link>(events_, options);
  }
  options.bytes_per_s = constants.neighbour_bytes_per_s;
  for (uint32_t i = 0; i < setup.devices; ++i) {
    for (uint32_t j = 0; j < setup.devices; ++j) {
      if (i != j) between_[{i, j}] = std::make_unique<Link>(events_, options);
    }
  }
  for (unsigned tenant = 0; tenant < setup.tenants; ++tenant) {
    for (uint32_t component = 0; component < workflow.components.size(); ++component) {
      functions_.push_back({.tenant = tenant, .component = component, .number = functions_.size()});
      if (setup.system == System::kInflessScaler) prepare_scaler(functions_.back());
    }
  }
}

RunResult Node::run(const std::vector<Arrival>& arrivals, double length_s) {
  ends_s_ = length_s;
  result_.latencies_s.assign(arrivals.size(), -1);
  size_t next = 0;
  std::function<void()> arrive_next = [&] {
    arrive(arrivals[next]);
    if (++next < arrivals.size()) events_.at(arrivals[next].at_s, arrive_next);
  };
  if (!arrivals.empty()) events_.at(arrivals[0].at_s, arrive_next);
  if (setup_.other_task_bytes > 0) {
    for (uint32_t device = 0; device < setup_.devices; ++device) {
      other_task_is_high_.push_back(false);
      other_task_turn_s_.push_back(0);
      charge(device, setup_.other_task_least_bytes);
      devices_[device]->other_task_bytes = setup_.other_task_least_bytes;
      const double offset_s = 0.1 * device / setup_.devices;
      events_.at(offset_s, [this, device] { turn_other_task(device, true); });
    }
  }
  while (!events_.empty() && events_.next() < length_s + kDrain_s) {
    if (active_ == 0 && next >= arrivals.size() && events_.next() > length_s) break;
    events_.run_next();
  }
  return tell();
}

void Node::advance_to(double moment_s) {
  while (!events_.empty() && events_.next() <= moment_s) events_.run_next();
}

size_t Node::submit(const Arrival& arrival) {
  const size_t number = result_.requests;
  result_.latencies_s.push_back(-1);
  ended_.push_back(false);
  events_.at(arrival.at_s, [this, arrival] { arrive(arrival); });
  while (result_.requests == number) events_.run_next();
  return number;
}

RunResult Node::finish() {
  while (!events_.empty() && events_.next() < ends_s_ + kDrain_s) {
    if (active_ == 0 && events_.next() > ends_s_) break;
    events_.run_next();
  }
  return tell();
}

uint64_t Node::calls() const {
  uint64_t calls = 0;
  for (const Function& function : functions_) calls += function.queue.size();
  for (const Work& work : works_) calls += work.calls.size();
  return calls;
}

bool Node::is_there() const {
  return !processes_.empty() ||
         std::ranges::any_of(runtimes_, [](const Runtime& runtime) { return runtime.there; });
}

bool Node::is_idle() const {
  if (!has_processes(setup_.system)) {
    for (unsigned tenant = 0; tenant < setup_.tenants; ++tenant) {
      bool is_free = false;
      for (uint32_t device = 0; device < setup_.devices; ++device) {
        is_free =
            is_free || (runtime(tenant, device).ready && devices_[device]->jobs < setup_.jobs);
      }
      if (!is_free) return false;
    }
    return true;
  }
  return std::ranges::all_of(functions_, [this](const Function& function) {
    return std::ranges::any_of(processes_, [&](const Process& process) {
      return process.function == &function && process.ready && process.works < setup_.streams;
    });
  });
}

double Node::free_bytes() const {
  double free = 0;
  for (uint32_t device = 0; device < setup_.devices; ++device) free += free_bytes(device);
  return free;
}

RunResult Node::tell() {
  integrate();
  const double length_s = ends_s_;
  result_.length_s = length_s;
  result_.p50_s = latencies_.at(0.5);
  result_.p90_s = latencies_.at(0.9);
  result_.p99_s = latencies_.at(0.99);
  const auto mean = [](double sum, auto count) {
    return count == 0 ? 0 : sum / static_cast<double>(count);
  };
  result_.mean_s = mean(latency_sum_s_, result_.answered);
  result_.startup_s = mean(startup_sum_s_, calls_);
  result_.compute_s = mean(compute_sum_s_, calls_);
  result_.loading_s = mean(loading_sum_s_, loading_calls_);
  result_.communication_s = mean(communication_sum_s_, result_.answered);
  const double told_s = length_s - setup_.told_from_s;
  result_.memory_bytes = told_s > 0 ? memory_integral_ / told_s : 0;
  result_.idle_memory_bytes = idle_s_ > 0 ? idle_integral_ / idle_s_ : 0;
  result_.pool_bytes = busy_s_ > 0 ? pool_integral_ / busy_s_ : 0;
  return result_;
}

void Node::arrive(const Arrival& arrival) {
  integrate();
  ++active_;
  auto run = std::make_shared<Run>();
  run->number = result_.requests++;
  run->begun_s = events_.now();
  run->tenant = arrival.tenant;
  run->cars = arrival.cars;
  run->people = arrival.people;
  run->outstanding = 1;  // held until all calls of the request itself are there
  for (uint32_t i = 0; i < workflow_.components.size(); ++i) {
    if (workflow_.components[i].parent != kRequest) continue;
    ++run->outstanding;
    enqueue(run, i, new_object(workflow_.components[i].input_bytes, kHost));
  }
  end_call({run, 0, 0});
  serve();
}

void Node::enqueue(const std::shared_ptr<Run>& run, uint32_t component, uint32_t object) {
  Function& function = this->function(run->tenant, component);
  function.queue.push_back({run, object, events_.now()});
  if (function.scaler) function.scaler->arrived(Instant(from_seconds(events_.now())));
}

void Node::serve() {
  if (serving_) return;
  serving_ = true;
  if (setup_.system == System::kInflessScaler) {
    for (Function& function : functions_) serve_scaled(function);
  } else if (has_processes(setup_.system)) {
    for (Function& function : functions_) serve_process(function);
  } else {
    serve_runtimes();
  }
  serving_ = false;
}

// The first calls of the queue that may still be in time, up to so many.
std::vector<Node::Call> Node::take_calls(Function& function, size_t most) {
  std::vector<Call> calls;
  while (!function.queue.empty() && calls.size() < most) {
    Call call = std::move(function.queue.front());
    function.queue.pop_front();
    Run& run = *call.run;
    if (setup_.drop_late && events_.now() - run.begun_s > constants_.slo_s) run.given_up = true;
    if (run.given_up) {
      drop_object(call.object);
      end_call(call);
    } else {
      calls.push_back(std::move(call));
    }
  }
  return calls;
}

void Node::begin(Function& function, uint32_t device, Process* process, std::vector<Call> calls,
                 double delay_s) {
  works_.emplace_back();
  Work* work = &works_.back();
  work->function = &function;
  work->device = device;
  work->process = process;
  work->begun_s = events_.now();
  work->calls = std::move(calls);
  const Model& model = this->model(function);
  work->job.model = &model.batches[work->calls.size() - 1];
  work->job.share = process != nullptr ? process->share : 1;
  work->job.finished = [this, work] { finish(work); };
  work->waits = 1 + static_cast<unsigned>(work->calls.size());
  ++devices_[device]->jobs;
  if (process == nullptr) {
    Runtime& runtime = this->runtime(function.tenant, device);
    delay_s += scale_pool(function.tenant, device, work);
    runtime.works.push_back(work);
    if (!runtime.looks) {
      runtime.looks = true;
      look_at_pool(function.tenant, device);
    }
  }
  if (weights_leave()) {
    ++weights_of(function.tenant, device, model.network).users;
    load_weights(function.tenant, device, model.network, function.number);
  }
  Weights& weights = weights_of(function.tenant, device, model.network);
  work->loads = weights.kernels < model.weights_until.size();
  if (work->loads) weights.waiting.push_back(work);
  set_limit(work);
  for (const Call& call : work->calls) {
    objects_[call.object].in_use = objects_[call.object].place != kHost;
    fetch(call.object, device, function.number, [this, work] {
      work->fetched_s = events_.now();
      unwait(work);
    });
  }
  events_.after(delay_s + constants_.call_s, [this, work] { unwait(work); });
}

void Node::unwait(Work* work) {
  if (--work->waits > 0) return;
  const double now_s = events_.now();
  for (Call& call : work->calls) {
    call.run->communication_s += work->fetched_s - work->begun_s;
    if (call.since_s >= setup_.told_from_s) {
      startup_sum_s_ += now_s - call.since_s - (work->fetched_s - work->begun_s);
      ++calls_;
    }
    drop_object(call.object);
  }
  if (result_.first_startup_s == 0) {
    result_.first_startup_s = now_s - work->calls[0].since_s;
  }
  work->begun_s = now_s;
  devices_[work->device]->processor.add(work->job);
}

void Node::finish(Work* work) {
  Function& function = *work->function;
  const Network network = model(function).network;
  for (const Call& call : work->calls) {
    if (call.since_s >= setup_.told_from_s) compute_sum_s_ += events_.now() - work->begun_s;
  }
  if (work->loads) {
    loading_sum_s_ += work->job.stalled_s;
    ++loading_calls_;
    std::erase(weights_of(function.tenant, work->device, network).waiting, work);
  }
  const uint32_t device = work->device;
  --devices_[device]->jobs;
  for (const Call& call : work->calls) {
    hand_on(call, device, function.component, function.number);
  }
  Process* process = work->process;
  if (process == nullptr) leave(work);
  if (weights_leave()) leave_weights(function.tenant, device, network);
  const size_t calls = work->calls.size();
  works_.remove_if([work](const Work& one) { return &one == work; });
  if (process != nullptr) {
    if (!holds_activations()) charge(device, -activations_of(*process, calls));
    if (function.scaler) --function.works;
    if (--process->works == 0) rest(process);
  }
  serve();
}

// What a call made goes to the calls that it leads to.
void Node::hand_on(const Call& call, uint32_t device, uint32_t component, uint64_t owner) {
  const std::shared_ptr<Run> run = call.run;
  struct Next {
    uint32_t component;
    double bytes;
  };
  std::vector<Next> next;
  bool leads_on = false;
  for (uint32_t i = 0; i < workflow_.components.size(); ++i) {
    const Component& child = workflow_.components[i];
    if (child.parent != static_cast<int>(component)) continue;
    leads_on = true;
    uint64_t count = 1;
    if (child.fan == Fan::kCars) count = run->cars;
    if (child.fan == Fan::kPeople) count = run->people;
    for (; count > 0; --count) next.push_back({i, child.input_bytes});
  }
  if (!leads_on) {
    send_out(device, owner, workflow_.answer_bytes, [this, call] { end_call(call); });
    return;
  }
  run->outstanding += next.size();
  const double begun_s = events_.now();
  std::vector<scheduling::StoreDevice> devices;
  if (setup_.system == System::kStreamBox) devices = store_devices();
  for (const Next& one : next) {
    const auto made = [this, run, one, begun_s](uint32_t place) {
      run->communication_s += events_.now() - begun_s;
      enqueue(run, one.component, new_object(one.bytes, place));
      serve();
    };
    uint32_t place = device;
    if (goes_over_host(setup_.system)) {
      place = kHost;
    } else if (setup_.system == System::kStreamBox) {
      place = scheduling::place_for_new(setup_.store, {devices, objects_}, device,
                                        Bytes(static_cast<uint64_t>(one.bytes)));
    } else if (free_bytes(device) < one.bytes) {
      place = kHost;
    }
    if (place == device) {
      made(place);
    } else if (place == kHost) {
      double put_s = 0;
      if (goes_over_host(setup_.system)) {
        put_s = constants_.store_fixed_s / 2 + one.bytes / constants_.store_bytes_per_s;
      }
      send_out(device, owner, one.bytes,
               [this, made, put_s] { events_.after(put_s, [made] { made(kHost); }); });
    } else {
      ++result_.to_neighbours;
      send_between(device, place, owner, one.bytes, [made, place] { made(place); });
    }
  }
  end_call(call);
}

void Node::end_call(const Call& call) {
  Run& run = *call.run;
  if (--run.outstanding > 0) return;
  integrate();
  --active_;
  if (run.number < ended_.size()) ended_[run.number] = true;
  if (run.given_up) return;
  const double latency_s = events_.now() - run.begun_s;
  ++result_.answered;
  if (latency_s <= constants_.slo_s) ++result_.in_time;
  latencies_.add(latency_s);
  result_.latencies_s[run.number] = latency_s;
  latency_sum_s_ += latency_s;
  communication_sum_s_ += run.communication_s;
}

}  // namespace lambent::paper_streambox
