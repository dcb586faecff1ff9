// Which system serves the workflows, with which of its settings, and what one run of it tells.
// Values.
#pragma once

#include <array>
#include <vector>

#include "bench/paper_streambox/constants.h"
#include "bench/paper_streambox/workflows.h"
#include "decide/scheduling/elastic_store.h"
#include "decide/scheduling/infless_scaler.h"
#include "decide/scheduling/pool_scaling.h"
#include "decide/scheduling/transfer_queue.h"

namespace lambent::paper_streambox {

enum class System : uint8_t {
  kInfless,     // a process for each instance of a function, MPS, data through the host
  kAstraea,     // the same, data by CUDA IPC
  kStreamOnly,  // a runtime for the workflow, a static pool, one transfer after the other
  kStreamBox,   // ours
  // INFless's own scaler decides on processes: their number, shares, batches and how long they are
  // kept. Data through the host; memory and transfers as ours has them.
  kInflessScaler,
};
constexpr System kSystems[] = {System::kInfless, System::kAstraea, System::kInflessScaler,
                               System::kStreamOnly, System::kStreamBox};
const char* name_of(System system);
constexpr bool has_processes(System system) {
  return system <= System::kAstraea || system == System::kInflessScaler;
}
constexpr bool goes_over_host(System system) {
  return system == System::kInfless || system == System::kInflessScaler;
}

// One request: when it comes, whose it is, and how many objects of each kind its frame shows.
struct Arrival {
  double at_s = 0;
  unsigned tenant = 0;
  uint64_t cars = 0, people = 0;
};

struct Setup {
  System system = System::kStreamBox;
  unsigned devices = 4;
  unsigned tenants = 1;  // each with the workflow as its own
  unsigned batch = 1;    // calls of one function that wait may run together
  // Processes: each may use this share of the multiprocessors, and another one is started when
  // calls have had to wait for so long (if one is there already), then again after as long.
  double share = 1;
  double start_after_s = 0;
  // So many calls at once in a process, each on a stream of its own. With more than one, a process
  // holds memory for those that run, else for a batch for as long as it lives.
  unsigned streams = 1;
  // The scaler's processes may have one of these shares, and run together what waits, up to
  // `batch`; all of a device have `promised` of its multiprocessors. `scaler.slo` is divided among
  // the functions of a request by the time that each takes.
  scheduling::InflessScalerOptions scaler;
  std::vector<double> shares = {1.0 / 8, 1.0 / 4, 1.0 / 2, 1};
  double promised = 1;
  // Shared runtimes: so many jobs at once on a device.
  unsigned jobs = 8;
  scheduling::PoolOptions pool;
  bool planned = true;         // a static pool holds a request's peak, not all of its variables
  double keep_weights_s = 60;  // those that nobody uses stay so long; -1: as the runtime does
  scheduling::StoreOptions store;
  // How transfers go over a link, and how host memory gets ready for them.
  scheduling::TransferOptions transfers;
  enum class HostMemory : uint8_t { kPageable, kPinnedEachTime, kSharedPinned };
  HostMemory host_memory = HostMemory::kSharedPinned;
  bool wait_for_batches =
      true;                     // the next transfers are given to the driver when the last are done
  bool drop_late = false;       // a request that can only be late makes way
  double other_task_bytes = 0;  // another task has this much of each device, in turns of 50 ms
  double other_task_least_bytes = 0;
  double told_from_s = 0;  // means of memory, starts and computing are of the time from here on
};

struct RunResult {
  uint64_t requests = 0, answered = 0, in_time = 0;
  double length_s = 0;
  double p50_s = 0, p90_s = 0, p99_s = 0, mean_s = 0;
  double startup_s = 0;        // mean over calls: from its turn until its first kernel could begin
  double first_startup_s = 0;  // of the first request
  double memory_bytes = 0;     // mean over the run, whole node
  double peak_memory_bytes = 0;
  double idle_memory_bytes = 0;  // while no request was there, after the first one
  double pool_bytes = 0;         // mean, while requests were there
  double communication_s = 0;    // mean for a request: its calls wait for what others made
  double loading_s = 0;          // mean over calls that load a model: how long they stall for it
  uint64_t loads = 0, starts = 0, to_neighbours = 0, to_host = 0;
  double compute_s = 0;             // mean for a call
  std::vector<double> latencies_s;  // of each request, in the order of arrival; -1: no answer
  double goodput() const { return length_s > 0 ? static_cast<double>(in_time) / length_s : 0; }
  double late_share() const {
    return requests == 0 ? 0 : 1 - static_cast<double>(in_time) / static_cast<double>(requests);
  }
};

using Models = std::vector<Model>;  // by network
Models make_models(const Constants& constants);

// One workflow, its requests at these moments (seconds, ascending): whose each is and what its
// frame shows is drawn, or said.
RunResult run_once(const Constants& constants, const Models& models, const Workflow& workflow,
                   const Setup& setup, const std::vector<double>& arrivals, double length_s,
                   uint64_t seed);
RunResult run_once(const Constants& constants, const Models& models, const Workflow& workflow,
                   const Setup& setup, const std::vector<Arrival>& arrivals, double length_s);

}  // namespace lambent::paper_streambox
