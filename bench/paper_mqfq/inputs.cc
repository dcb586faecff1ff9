// Each constant with its source.
#include "bench/json.h"
#include "bench/paper_mqfq/constants.h"

namespace lambent::paper_mqfq {

std::span<const Input> inputs() {
  static const Input kInputs[] = {
      {"memory_scale", &Constants::memory_scale,
       "memory of each function: FFT's 1.5 GB from the paper, all others guessed", true},
      {"cold_scale", &Constants::cold_scale, "paper, Table 1: GPU cold less GPU warm", false},
      {"link_gb_per_s", &Constants::link_gb_per_s,
       "StreamBox paper: PCIe 3 with page-locked memory; taken for both ways", false},
      {"slowdown", &Constants::slowdown,
       "guess: what one more at work adds to all; agrees with Figure 9b, 100 % more at D 6", true},
      {"context_mib", &Constants::context_mib, "guess: a CUDA context on a V100", true},
      {"device_memory_mib", &Constants::device_memory_mib, "what the driver reports of 16 GB",
       false},
      {"sandbox_ms", &Constants::sandbox_ms, "measured: bench coldstart, our sandbox", false},
      {"stop_ms", &Constants::stop_ms, "guess", true},
      {"spread", &Constants::spread, "guess", true},
  };
  return kInputs;
}

std::string name_of(const Site& site) {
  std::string name = std::to_string(site.gpus) + (site.gpus == 1 ? " GPU, " : " GPUs, ");
  if (site.by_utilisation) {
    name += "D up to " + std::to_string(site.by_utilisation->most) + " below " +
            bench::number(100 * site.by_utilisation->threshold) + " %";
  } else {
    name += "D " + std::to_string(site.tokens);
  }
  name += ", pool " + std::to_string(site.pool);
  if (site.host) {
    name += ", host " + std::string(scheduling::name_of(site.host->rule)) + " " +
            bench::number(site.host->gpu_share);
  }
  return name;
}

}  // namespace lambent::paper_mqfq
