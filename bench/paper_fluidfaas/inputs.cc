#include "bench/paper_fluidfaas/inputs.h"

namespace lambent::paper_fluidfaas {

std::span<const Input> inputs() {
  using C = Constants;
  static constexpr Input kInputs[] = {
      {"peak_tflops", &C::peak_operations_per_s, 1e12,
       "A100 data sheet: TF32 without sparsity, of 108 multiprocessors", false},
      {"efficiency", &C::efficiency, 1, "guess: the share of the peak that convolutions reach",
       true},
      {"launch_us", &C::launch_s, 1e-6, "guess: of each of a network's layers", true},
      {"super_resolution_gmacs", &C::super_resolution_macs, 1e9,
       "counted: SRResNet of 16 blocks (Ledig et al.), 128 x 128 to 512 x 512", false},
      {"segmentation_gmacs", &C::segmentation_macs, 1e9,
       "torchvision's documentation: DeepLabV3-ResNet101 at 520 x 520", false},
      {"classification_gmacs", &C::classification_macs, 1e9,
       "torchvision's documentation: ResNet-50 at 224 x 224", false},
      {"deblur_gmacs", &C::deblur_macs, 1e9,
       "Li et al., GAN Compression: the generator of nine blocks that DeblurGAN uses, 256 x 256",
       false},
      {"depth_gmacs", &C::depth_macs, 1e9,
       "guess: MiDaS v2.1 at 384 x 384, its encoder 48 (ResNeXt-101 32x8d: 16.5 at 224) and as "
       "much again",
       true},
      {"background_gmacs", &C::background_macs, 1e9,
       "guess: U2-Net at 320 x 320 (its paper: 30 pictures a second on a GTX 1080 Ti)", true},
      {"component_memory", &C::component_memory, 1,
       "guess, fitted to the paper's Table 5: what all components keep and need", true},
      {"low_resolution_share", &C::low_resolution_share, 1, "guess: how often App 3 needs it", true,
       1},
      {"context_gib", &C::context_gib, 1, "guess: a CUDA context with libraries", true},
      {"start_s", &C::start_s, 1, "StreamBox paper, section 3.1: over 5 s for a PyTorch process",
       false},
      {"copy_gb_per_s", &C::copy_bytes_per_s, 1e9, "StreamBox paper, section 7.1", false},
      {"gpu_gb_per_s", &C::gpu_bytes_per_s, 1e9, "guess: PCIe 4 x16 as copies reach it", true},
      {"node_gb_per_s", &C::node_bytes_per_s, 1e9, "guess: host memory that copies may take", true},
      {"handover_ms", &C::handover_s, 1e-3, "guess: of a value, beside its copies", true},
      {"edge_ms", &C::edge_s, 1e-3, "paper, section 7.3: ESG's transfers take 1-5 ms", false},
      {"stop_ms", &C::stop_s, 1e-3, "guess", true},
      {"spread", &C::spread, 1, "guess: how far executions are off their profile", true},
      {"slo_scale", &C::slo_scale, 1, "paper, section 6", false},
  };
  return kInputs;
}

}  // namespace lambent::paper_fluidfaas
