// The constants of the model of FluidFaaS's evaluation, as they are and with what they can be
// replaced. Values; inputs.cc says where each is from.
#pragma once

namespace lambent::paper_fluidfaas {

// SI units: seconds, bytes a second, operations a second; memory in GiB where its name says so.
struct Constants {
  double peak_operations_per_s = 156e12;
  double efficiency = 0.25;
  double launch_s = 8e-6;
  // Multiply-adds for one picture.
  double super_resolution_macs = 36.4e9;
  double segmentation_macs = 258.7e9;
  double classification_macs = 4.1e9;
  double deblur_macs = 56.8e9;
  double depth_macs = 100e9;
  double background_macs = 37.7e9;
  double component_memory = 1;  // of all components, times what applications.cc says
  double low_resolution_share = 0.5;
  double context_gib = 0.42;
  double start_s = 5;
  double copy_bytes_per_s = 12e9;
  double gpu_bytes_per_s = 25e9;
  double node_bytes_per_s = 100e9;
  double handover_s = 0.2e-3;
  double edge_s = 2e-3;
  double stop_s = 0.1;
  double spread = 0.05;
  double slo_scale = 1.5;
};

}  // namespace lambent::paper_fluidfaas
