// The modelled node: devices, links, memory, and the workflow's requests on their way through one
// of the four systems. One thread; made for one run.
#pragma once

#include <deque>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <optional>

#include "bench/paper_streambox/link.h"
#include "bench/paper_streambox/processor.h"
#include "bench/paper_streambox/setup.h"
#include "sim/workload/quantiles.h"

namespace lambent::paper_streambox {

class Node {
 public:
  Node(const Constants& constants, const Models& models, const Workflow& workflow,
       const Setup& setup);
  RunResult run(const std::vector<Arrival>& arrivals, double length_s);

  // The same for one node of several, whose requests are told one by one (cluster.h): begin(), then
  // arrivals and other moments, ascending, then finish().
  void begin(double length_s) { ends_s_ = length_s; }
  // All that happens until then.
  void advance_to(double moment_s);
  // Its number.
  size_t submit(const Arrival& arrival);
  RunResult finish();
  bool has_ended(size_t number) const { return ended_[number]; }
  uint64_t calls() const;  // that run or wait, of all requests
  // Whether something of the workflow runs or rests on a device; and whether a call of each of its
  // functions could begin at once on what is ready, as on a worker's idle sandboxes.
  bool is_there() const;
  bool is_idle() const;
  double free_bytes() const;  // of all devices

 private:
  struct Run {
    size_t number = 0;  // in the order of arrival
    double begun_s = 0;
    unsigned tenant = 0;
    uint64_t cars = 0, people = 0;
    uint64_t outstanding = 0;  // calls
    double communication_s = 0;
    bool given_up = false;
  };
  struct Call {
    std::shared_ptr<Run> run;
    uint32_t object = 0;
    double since_s = 0;
  };
  struct Process;
  struct Work;
  struct Function {
    unsigned tenant = 0;
    uint32_t component = 0;
    uint64_t number = 0;
    std::deque<Call> queue;
    unsigned starting = 0, alive = 0;
    double short_since_s = -1;  // calls have waited ever since; -1: none waits
    // With a scaler.
    std::unique_ptr<scheduling::InflessScaler> scaler;
    std::vector<scheduling::InstanceShape> shapes;
    unsigned works = 0;
    double looks_at_s = -1;  // when the scaler looks next; -1: only after the next call
  };
  // Weights of one network of one tenant on one device.
  struct Weights {
    bool there = false;      // its memory is taken
    bool asked_for = false;  // its content is on its way or there
    bool unwanted = false;   // goes as soon as it is there
    size_t kernels = 0;      // so many of the first ones have theirs
    bool checked = false;    // whether a check is due
    unsigned users = 0;
    double last_use_s = 0;
    std::vector<Work*> waiting;
  };
  struct Process {
    Function* function = nullptr;
    uint64_t number = 0;
    uint32_t device = 0;
    double bytes = 0;
    size_t shape = 0;  // of those of its function, with a scaler
    double share = 1;
    uint32_t batch = 1;
    bool ready = false, checked = false;
    unsigned works = 0;
    double idle_since_s = 0;
  };
  // Of one tenant on one device.
  struct Runtime {
    bool there = false, ready = false;
    bool looks = false, checked = false;  // whether a look, a check is due
    double idle_since_s = 0;
    double pool_bytes = 0;
    std::map<uint32_t, double> instances;  // by component, when last used
    std::list<Work*> works;
  };
  struct Device {
    explicit Device(Events& events) : processor(events) {}
    Processor processor;
    double used_bytes = 0;
    double objects_bytes = 0;
    double other_task_bytes = 0;
    unsigned jobs = 0;
    std::unique_ptr<Link> in, out;
  };
  struct Work {
    Function* function = nullptr;
    uint32_t device = 0;
    Process* process = nullptr;
    std::vector<Call> calls;
    Job job;
    unsigned waits = 0;
    double begun_s = 0;
    double fetched_s = 0;
    bool loads = false;
  };
  using WorkReference = std::list<Work>::iterator;

  RunResult tell();

  // --- Requests, common to all systems (node.cc) ---
  void arrive(const Arrival& arrival);
  void enqueue(const std::shared_ptr<Run>& run, uint32_t component, uint32_t object);
  void serve();
  std::vector<Call> take_calls(Function& function, size_t most);
  void begin(Function& function, uint32_t device, Process* process, std::vector<Call> calls,
             double delay_s);
  void unwait(Work* work);
  void finish(Work* work);
  void hand_on(const Call& call, uint32_t device, uint32_t component, uint64_t owner);
  void end_call(const Call& call);

  // --- Memory (memory.cc) ---
  void integrate();
  void charge(uint32_t device, double bytes);
  double free_bytes(uint32_t device) const;
  // Whether so much is free, after what nobody uses has gone; objects leave in a while.
  bool make_room(uint32_t device, double bytes, unsigned tenant);
  Weights& weights_of(unsigned tenant, uint32_t device, Network network);
  void load_weights(unsigned tenant, uint32_t device, Network network, uint64_t owner);
  void take_weights(Weights& weights, uint32_t device, const Model& model);
  void unload_weights(unsigned tenant, uint32_t device, Network network);
  void check_weights(unsigned tenant, uint32_t device, Network network);
  // Whether weights that no call uses leave, though a runtime has them.
  bool weights_leave() const {
    return !has_processes(setup_.system) || setup_.system == System::kInflessScaler;
  }
  void leave_weights(unsigned tenant, uint32_t device, Network network);
  void set_limit(Work* work);
  std::vector<scheduling::RunningFunction> running_on(uint32_t device, unsigned tenant) const;
  scheduling::PoolStep pool_step(unsigned tenant, uint32_t device, const Work* with) const;
  double scale_pool(unsigned tenant, uint32_t device, const Work* with);  // what has to be waited
  void look_at_pool(unsigned tenant, uint32_t device);

  // --- Objects and transfers (transfers.cc) ---
  uint32_t new_object(double bytes, uint32_t place);
  void drop_object(uint32_t object);
  void fetch(uint32_t object, uint32_t device, uint64_t owner, std::function<void()> done);
  void send_in(uint32_t device, uint64_t owner, std::vector<Bytes> pieces, Link::Done done);
  void send_out(uint32_t device, uint64_t owner, double bytes, std::function<void()> done);
  void send_between(uint32_t from, uint32_t to, uint64_t owner, double bytes,
                    std::function<void()> done);
  void relieve(uint32_t device);
  std::vector<scheduling::StoreDevice> store_devices() const;
  void look_at_store();
  void turn_other_task(uint32_t device, bool high);

  // --- A process for each instance (processes.cc) ---
  void serve_process(Function& function);
  void start_process(Function& function);
  // Its runtime starts now; `load` brings its weights when it has a context, before it serves.
  void begin_process(Process made, std::function<void(Process*)> load);
  Process* longest_idle(const Function& wanting);
  // Whether a process holds memory for a batch for as long as it lives, else while calls run.
  bool holds_activations() const {
    return setup_.streams == 1 && setup_.system != System::kInflessScaler;
  }
  double activations_of(const Process& process, size_t calls) const;
  void rest(Process* process);
  void check(Process* process);
  void stop(Process* process);

  // --- Processes of INFless's scaler (scaled.cc) ---
  void prepare_scaler(Function& function);
  double slo_of(uint32_t component) const;
  uint32_t most_together(const Function& function, double share) const;
  void serve_scaled(Function& function);
  void look_at_scaler(Function& function);
  scheduling::ScalerStep scaler_step(const Function& function);
  void start_scaled(Function& function, scheduling::ScalerStep::Start start);

  // --- A runtime for the workflow (runtimes.cc) ---
  void serve_runtimes();
  bool place(Function& function);
  Runtime& runtime(unsigned tenant, uint32_t device) {
    return runtimes_[tenant * setup_.devices + device];
  }
  const Runtime& runtime(unsigned tenant, uint32_t device) const {
    return runtimes_[tenant * setup_.devices + device];
  }
  void start_runtime(unsigned tenant);
  void rest(unsigned tenant, uint32_t device);
  void check(unsigned tenant, uint32_t device);
  void leave(Work* work);
  void stop_runtime(unsigned tenant, uint32_t device);

  const Model& model(const Function& function) const {
    return models_[static_cast<size_t>(workflow_.components[function.component].network)];
  }
  Function& function(unsigned tenant, uint32_t component) {
    return functions_[tenant * workflow_.components.size() + component];
  }

  const Constants constants_;
  Models models_;
  const Workflow workflow_;
  const Setup setup_;
  Events events_;
  std::vector<std::unique_ptr<Device>> devices_;
  std::map<std::pair<uint32_t, uint32_t>, std::unique_ptr<Link>> between_;
  std::vector<Function> functions_;
  std::list<Process> processes_;
  std::vector<Runtime> runtimes_;
  std::map<std::tuple<unsigned, uint32_t, Network>, Weights> weights_;
  std::list<Work> works_;
  std::vector<scheduling::StoredObject> objects_;
  std::vector<uint32_t> free_objects_;
  std::map<uint32_t, std::vector<std::function<void()>>> waits_for_object_;
  MemoryProfile low_, high_;  // the other task's
  std::vector<bool> other_task_is_high_;
  std::vector<double> other_task_turn_s_;
  bool store_looks_ = false;
  bool serving_ = false;

  // What is told.
  RunResult result_;
  std::vector<bool> ended_;  // by number, of requests that were submitted one by one
  workload::Quantiles latencies_;
  double latency_sum_s_ = 0, startup_sum_s_ = 0, loading_sum_s_ = 0, compute_sum_s_ = 0,
         communication_sum_s_ = 0;
  uint64_t calls_ = 0, loading_calls_ = 0, processes_made_ = 0;
  uint64_t active_ = 0;  // requests
  double memory_now_ = 0, pool_now_ = 0, memory_integral_ = 0, idle_integral_ = 0, idle_s_ = 0,
         pool_integral_ = 0, busy_s_ = 0, integrated_until_s_ = 0, ends_s_ = 0;
};

}  // namespace lambent::paper_streambox
