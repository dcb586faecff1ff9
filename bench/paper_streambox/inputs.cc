#include "bench/paper_streambox/inputs.h"

namespace lambent::paper_streambox {

std::span<const Input> inputs() {
  using C = Constants;
  static constexpr Input kInputs[] = {
      {"device_memory_gb", &C::device_memory, 1e9, "paper, section 9: V100 of 16 GB", false},
      {"link_gb_per_s", &C::link_bytes_per_s, 1e9, "paper, section 7.1: PCIe's peak", false},
      {"block_overhead_us", &C::block_overhead_s, 1e-6,
       "paper, section 7.1: 4 GB/s with blocks of 16 KB", false},
      {"neighbour_gb_per_s", &C::neighbour_bytes_per_s, 1e9,
       "guess: two NVLink 2 between neighbours (the paper: up to 300)", true},
      {"peak_tflops", &C::peak_operations_per_s, 1e12, "V100 data sheet: FP32, 15.7", false},
      {"memory_gb_per_s", &C::memory_bytes_per_s, 1e9, "V100 data sheet: 900", false},
      {"efficiency", &C::efficiency, 1, "fitted: ResNet-50 takes 4 ms (KaaS paper, Table 1, V100)",
       false},
      {"launch_us", &C::launch_s, 1e-6, "guess", true},
      {"threads", &C::threads, 1, "V100 data sheet: 80 x 2048", false},
      {"runtime_gb", &C::runtime_bytes, 1e9,
       "paper, section 3.1: 95 % of 1.5 GB (PyTorch); the same for all four", false},
      {"runtime_start_s", &C::runtime_start_s, 1,
       "paper, sections 3.1 and 9.1: over 5 s, 5.8 s with loading; the same for all four", false},
      {"seat_start_ms", &C::instance_start_s, 1e-3,
       "the goal of the bench kernel; 0.6 ms on the emulated driver", false},
      {"keep_alive_s", &C::keep_alive_s, 1, "paper, section 8: 10 minutes", false},
      {"allocate_ms_per_200_mb", &C::allocate_s_per_byte, 1e-3 / 200e6,
       "guess: the paper's 'over 30 ms' for a network's memory, taken for 200 MB", true},
      {"pin_ms_per_200_mb", &C::pin_s_per_byte, 1e-3 / 200e6, "paper, section 7.1: 200 ms", false},
      {"pageable_gb_per_s", &C::pageable_bytes_per_s, 1e9, "guess: half of the link", true},
      {"store_fixed_ms", &C::store_fixed_s, 1e-3, "guess: a put and a get on the same host", true},
      {"store_gb_per_s", &C::store_bytes_per_s, 1e9, "guess", true},
      {"open_handle_ms", &C::open_handle_s, 1e-3, "guess", true},
      {"address_us", &C::address_s, 1e-6, "goal of the bench objects: same executor", false},
      {"call_ms", &C::call_s, 1e-3, "guess, the same for all four", true},
      {"synchronise_us", &C::synchronise_s, 1e-6, "guess", true},
      {"objects_per_frame", &C::objects_mean, 1,
       "paper, section 3.1: 125 MB for 16 frames are 13 pictures of 3 x 224 x 224 each", false},
      {"slo_ms", &C::slo_s, 1e-3, "paper, section 9.1", false},
  };
  return kInputs;
}

}  // namespace lambent::paper_streambox
