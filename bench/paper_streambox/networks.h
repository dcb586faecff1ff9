// The networks of the three workflows with their published shapes: memory, operations and kernels,
// and from these how long they take on a modelled GPU. Values; made once for a set of constants.
#pragma once

#include <string>
#include <vector>

#include "bench/paper_streambox/constants.h"
#include "core/domain/memory_profile.h"

namespace lambent::paper_streambox {

enum class Network : uint8_t {
  kSsd300,       // VGG-16 trunk, 300 x 300
  kResNet50,     // 224 x 224
  kVgg16,        // 224 x 224
  kAlexNet,      // 224 x 224
  kDenseNet121,  // 224 x 224
  kEnhance,      // VDSR: twenty 3 x 3 convolutions of 64 channels, 224 x 224
  kTranslate,    // Transformer base, 32 tokens in and out, greedy, its decoder in one pass
  kBertBase,     // 128 tokens
};
constexpr Network kNetworks[] = {Network::kSsd300,    Network::kResNet50,    Network::kVgg16,
                                 Network::kAlexNet,   Network::kDenseNet121, Network::kEnhance,
                                 Network::kTranslate, Network::kBertBase};
constexpr size_t kNetworkCount = std::size(kNetworks);
const char* name_of(Network network);

constexpr unsigned kMostBatch = 8;

// A network at one size of batch, alone on the GPU.
struct BatchModel {
  double alone_s = 0;  // all of its kernels, one after the other
  // Of the multiprocessors, the mean share over that time that the kernels can fill.
  double demand = 0;
  std::vector<double> ends_s;  // of each kernel, when it has ended
  MemoryProfile profile;       // without constants
};
struct Model {
  Network network{};
  double weight_bytes = 0;
  double operations = 0;              // of one input; a multiplication and an addition are two
  std::vector<double> weights_until;  // for each kernel, the weights that it and those before need
  std::vector<BatchModel> batches;    // [n - 1]: n inputs at once
};

Model make_model(Network network, const Constants& constants);

}  // namespace lambent::paper_streambox
