// What the bench paper-kaas takes the paper's world to be: four GPUs, four workloads, and the two
// ways to run them. Every constant with where it is from. Values.
#pragma once

#include <string>
#include <vector>

#include "core/base/result.h"
#include "core/base/time.h"
#include "core/base/units.h"

namespace lambent::paper_kaas {

// A row of share/catalogue/kaas_table1.csv: Table 1 of the KaaS paper (arXiv 2212.08146).
struct Workload {
  std::string name;
  Bytes constants;  // the same for every request: model weights, a matrix
  Bytes dynamic;    // inputs, temporaries, outputs
  Duration gpu{};
  Duration host{};  // steps before and after, on the host's processors
};
// Errors name file and line.
Result<std::vector<Workload>> open_workloads(const std::string& path);

// What a ratio rests on beside Table 1. `source`: "paper", or "guess" of ours.
struct Constants {
  // Until a new Python process of an eTask can take its request. The paper measured 400 ms more
  // than warm for numpy, pickle and pycuda (section 5.2), the CUDA context included.
  Duration etask_start = milliseconds(400);
  // Until the process before it is gone.
  Duration etask_stop = milliseconds(10);
  // An instance in an executor that runs already: linking kernels, instantiating the graph.
  Duration ktask_start = milliseconds(1);
  // Per request, beside the work on the device; for both.
  Duration overhead = microseconds(100);
  // Onto the device. PCIe 3 x 16 with page-locked memory, as the StreamBox paper measured it.
  double link_bytes_per_second = 12e9;
  unsigned gpus = 4;
  Bytes gpu_memory = Bytes::mib(16'160);  // of a V100-16GB
  Bytes context = Bytes::mib(512);        // of it, one process's
  // Requests that a client which does not wait has under way; enough for every GPU of the node.
  unsigned outstanding = 8;
  // Execution times vary uniformly by this share, up and down.
  double spread = 0.05;
};

enum class System { kKernelTasks, kExclusiveTasks };

// How one set of clients is served.
struct Setup {
  System system = System::kKernelTasks;
  std::string policy = "cfs-affinity";
  unsigned tokens = 1;  // D
  Duration over_run{};  // T of MQFQ-Sticky; zero: the default
  double cfs_penalty = 10;
  unsigned replicas = 1;      // clients, each with a function of its own
  bool memory_first = false;  // MQFQ-Sticky
};

}  // namespace lambent::paper_kaas
