// What the model of paper-streambox rests on: rates, sizes and costs of a node with four V100, each
// with its source in inputs.cc. A value.
#pragma once

#include <cstdint>

namespace lambent::paper_streambox {

struct Constants {
  // The node.
  double device_memory = 16e9;
  double link_bytes_per_s = 12e9;       // PCIe, each device, each direction
  double block_overhead_s = 2.7e-6;     // of each transfer call
  double neighbour_bytes_per_s = 50e9;  // NVLink between two devices
  double peak_operations_per_s = 15.7e12;
  double memory_bytes_per_s = 900e9;
  double efficiency = 0.34;  // of the peak that a kernel reaches where it runs
  double launch_s = 5e-6;
  double threads = 80 * 2048;  // that the device runs at once

  // Runtimes.
  double runtime_bytes = 1.4e9;
  double runtime_start_s = 5.5;
  double instance_start_s = 1e-3;  // a function that is new to a running runtime
  double keep_alive_s = 600;

  // Memory.
  double allocate_s_per_byte = 30e-3 / 200e6;
  double free_s_per_byte = 10e-3 / 200e6;
  double pin_s_per_byte = 1e-9;
  double pageable_bytes_per_s = 6e9;

  // Handing data on.
  double store_fixed_s = 1e-3;  // external storage on the host, a put and a get
  double store_bytes_per_s = 5e9;
  double open_handle_s = 0.3e-3;  // CUDA IPC
  double address_s = 5e-6;        // a look at a table in the same process
  double call_s = 0.2e-3;         // to hand a call to its function, the same for all
  double synchronise_s = 20e-6;   // until a finished copy is known and the next one begins

  // The workload.
  double objects_mean = 12;  // in a frame of Traffic
  double slo_s = 0.2;
};

}  // namespace lambent::paper_streambox
