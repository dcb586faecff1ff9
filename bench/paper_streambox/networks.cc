#include "bench/paper_streambox/networks.h"

#include <algorithm>
#include <cmath>

#include "decide/kernel_graph/profile.h"

namespace lambent::paper_streambox {
namespace {

using kernel_graph::Access;
using kernel_graph::BufferArgument;
using kernel_graph::BufferRole;

// A tensor of the graph: channels x size x size, or tokens x width.
struct Tensor {
  uint32_t buffer = 0;
  uint64_t channels = 0, height = 0, width = 0;
  uint64_t elements() const { return channels * height * width; }
};

// A graph of single precision, for one size of batch, and what each of its kernels does.
class Builder {
 public:
  explicit Builder(unsigned batch) : batch_(batch) {}

  Tensor input(uint64_t channels, uint64_t height, uint64_t width) {
    return tensor(BufferRole::kInput, channels, height, width);
  }
  Tensor convolution(const Tensor& in, uint64_t channels, uint64_t kernel, uint64_t stride = 1,
                     uint64_t pad = UINT64_MAX, const Tensor* shortcut = nullptr) {
    if (pad == UINT64_MAX) pad = kernel / 2;
    const uint64_t height = (in.height + 2 * pad - kernel) / stride + 1;
    const uint64_t width = (in.width + 2 * pad - kernel) / stride + 1;
    const Tensor out = tensor(BufferRole::kTemporary, channels, height, width);
    const uint64_t taps = in.channels * kernel * kernel;
    std::vector<Tensor> reads = {in};
    if (shortcut != nullptr) reads.push_back(*shortcut);
    launch(reads, out, channels * taps + channels, 2 * out.elements() * taps);
    return out;
  }
  Tensor pool(const Tensor& in, uint64_t kernel, uint64_t stride, uint64_t pad = 0) {
    const Tensor out =
        tensor(BufferRole::kTemporary, in.channels, (in.height + 2 * pad - kernel) / stride + 1,
               (in.width + 2 * pad - kernel) / stride + 1);
    launch({in}, out, 0, out.elements() * kernel * kernel);
    return out;
  }
  // The channels of one tensor after those of another, in memory of its own.
  Tensor concatenated(const Tensor& a, const Tensor& b) {
    const Tensor out = tensor(BufferRole::kTemporary, a.channels + b.channels, a.height, a.width);
    launch({a, b}, out, 0, out.elements());
    return out;
  }
  // Rows x width times width x `to`; a dense layer of an image has one row.
  Tensor dense(const Tensor& in, uint64_t rows, uint64_t from, uint64_t to,
               BufferRole role = BufferRole::kTemporary) {
    const Tensor out = tensor(role, rows, 1, to);
    launch({in}, out, from * to + to, 2 * rows * from * to);
    return out;
  }
  // The same with weights that are another layer's too, and counted there.
  Tensor dense_again(const Tensor& in, uint64_t rows, uint64_t from, uint64_t to) {
    const Tensor out = tensor(BufferRole::kTemporary, rows, 1, to);
    launch({in}, out, 0, 2 * rows * from * to);
    kernels_.back().bytes += 4.0 * static_cast<double>(from * to);
    return out;
  }
  Tensor embedding(const Tensor& in, uint64_t rows, uint64_t words, uint64_t width) {
    const Tensor out = tensor(BufferRole::kTemporary, rows, 1, width);
    launch({in}, out, words * width, rows * width);
    return out;
  }
  // A layer of a transformer over `rows` tokens, which looks at its own and, in a decoder, at
  // another text.
  Tensor transformer_layer(const Tensor& in, uint64_t rows, uint64_t width, const Tensor* other) {
    Tensor text = attention(in, in, rows, width);
    if (other != nullptr) text = attention(text, *other, rows, width);
    const Tensor wide = dense(text, rows, width, 4 * width);
    const Tensor narrow = dense(wide, rows, 4 * width, width);
    return sum(narrow, text);
  }
  void output(const Tensor& in, uint64_t elements) {
    const Tensor out = tensor(BufferRole::kOutput, elements, 1, 1);
    launch({in}, out, 0, elements);
  }

  struct Kernel {
    double operations = 0, bytes = 0, threads = 0, weight_bytes = 0;
  };
  const std::vector<Kernel>& kernels() const { return kernels_; }
  const kernel_graph::KernelGraph& graph() const { return graph_; }

 private:
  Tensor sum(const Tensor& a, const Tensor& b) {
    const Tensor out = tensor(BufferRole::kTemporary, a.channels, a.height, a.width);
    launch({a, b}, out, 0, 8 * out.elements());
    return out;
  }
  Tensor attention(const Tensor& text, const Tensor& other, uint64_t rows, uint64_t width) {
    const Tensor queries = dense(text, rows, width, width);
    const Tensor keys = dense(other, rows, width, width);
    const Tensor values = dense(other, rows, width, width);
    const Tensor scores = tensor(BufferRole::kTemporary, width / 64, rows, rows);
    launch({queries, keys}, scores, 0, 2 * rows * rows * width);
    const Tensor mixed = tensor(BufferRole::kTemporary, rows, 1, width);
    launch({scores, values}, mixed, 0, 2 * rows * rows * width);
    return sum(dense(mixed, rows, width, width), text);
  }
  Tensor tensor(BufferRole role, uint64_t channels, uint64_t height, uint64_t width) {
    graph_.buffers.push_back({.name = {},
                              .role = role,
                              .type = {DataType::kFp32, {batch_, channels, height, width}},
                              .file = {},
                              .fill = {}});
    return {static_cast<uint32_t>(graph_.buffers.size()) - 1, channels, height, width};
  }
  void launch(const std::vector<Tensor>& reads, const Tensor& out, uint64_t weights,
              uint64_t operations) {
    kernel_graph::Launch launch;
    Kernel kernel;
    for (const Tensor& in : reads) {
      launch.arguments.emplace_back(BufferArgument{in.buffer, 0, Access::kRead});
      kernel.bytes += 4.0 * static_cast<double>(in.elements() * batch_);
    }
    launch.arguments.emplace_back(BufferArgument{out.buffer, 0, Access::kWrite});
    kernel.weight_bytes = 4.0 * static_cast<double>(weights);
    kernel.bytes += 4.0 * static_cast<double>(out.elements() * batch_) + kernel.weight_bytes;
    kernel.operations = static_cast<double>(operations * batch_);
    kernel.threads = static_cast<double>(out.elements() * batch_);  // one for each output
    graph_.steps.emplace_back(std::move(launch));
    kernels_.push_back(kernel);
  }

  unsigned batch_;
  kernel_graph::KernelGraph graph_;
  std::vector<Kernel> kernels_;
};

// Simonyan and Zisserman, 2014: thirteen convolutions.
Tensor vgg_trunk(Builder& net, Tensor image, bool last_pool, Tensor* fourth = nullptr) {
  const std::pair<int, uint64_t> stages[] = {{2, 64}, {2, 128}, {3, 256}, {3, 512}, {3, 512}};
  for (int stage = 0; stage < 5; ++stage) {
    for (int i = 0; i < stages[stage].first; ++i) {
      image = net.convolution(image, stages[stage].second, 3);
    }
    if (stage == 3 && fourth != nullptr) *fourth = image;
    // SSD's input of 300 is rounded up at the third pool: 75 to 38.
    if (stage < 4 || last_pool) image = net.pool(image, 2, 2, image.height % 2);
  }
  return image;
}

void vgg16(Builder& net) {
  const Tensor image = vgg_trunk(net, net.input(3, 224, 224), true);
  const Tensor first = net.dense(image, 1, 25088, 4096);
  net.output(net.dense(net.dense(first, 1, 4096, 4096), 1, 4096, 1000), 1000);
}

// Liu et al., 2016: SSD300 with 21 classes, 8732 boxes.
void ssd300(Builder& net) {
  Tensor fourth;
  Tensor image = vgg_trunk(net, net.input(3, 300, 300), false, &fourth);
  image = net.convolution(net.convolution(image, 1024, 3), 1024, 1);
  std::vector<Tensor> maps = {fourth, image};
  const std::pair<uint64_t, uint64_t> extra[] = {{256, 512}, {128, 256}, {128, 256}, {128, 256}};
  for (int i = 0; i < 4; ++i) {
    image = net.convolution(image, extra[i].first, 1);
    image = i < 2 ? net.convolution(image, extra[i].second, 3, 2, 1)
                  : net.convolution(image, extra[i].second, 3, 1, 0);
    maps.push_back(image);
  }
  const uint64_t boxes[] = {4, 6, 6, 6, 4, 4};
  for (size_t i = 0; i < maps.size(); ++i) image = net.convolution(maps[i], boxes[i] * 25, 3);
  net.output(image, 8732 * 6);
}

// He et al., 2015, with the stride in the 3 x 3 convolutions.
void resnet50(Builder& net) {
  Tensor image = net.pool(net.convolution(net.input(3, 224, 224), 64, 7, 2), 3, 2, 1);
  const int blocks[] = {3, 4, 6, 3};
  for (uint64_t stage = 0; stage < 4; ++stage) {
    for (int block = 0; block < blocks[stage]; ++block) {
      const uint64_t width = 64 << stage, stride = stage > 0 && block == 0 ? 2 : 1;
      Tensor shortcut = image;
      if (block == 0) shortcut = net.convolution(image, 4 * width, 1, stride);
      image = net.convolution(net.convolution(image, width, 1), width, 3, stride);
      image = net.convolution(image, 4 * width, 1, 1, 0, &shortcut);
    }
  }
  net.output(net.dense(net.pool(image, 7, 7), 1, 2048, 1000), 1000);
}

// Krizhevsky, 2014, as torchvision has it.
void alexnet(Builder& net) {
  Tensor image = net.pool(net.convolution(net.input(3, 224, 224), 64, 11, 4, 2), 3, 2);
  image = net.pool(net.convolution(image, 192, 5), 3, 2);
  image = net.convolution(net.convolution(image, 384, 3), 256, 3);
  image = net.pool(net.convolution(image, 256, 3), 3, 2);
  const Tensor first = net.dense(image, 1, 9216, 4096);
  net.output(net.dense(net.dense(first, 1, 4096, 4096), 1, 4096, 1000), 1000);
}

// Huang et al., 2017: growth 32, blocks of 6, 12, 24 and 16.
void densenet121(Builder& net) {
  Tensor image = net.pool(net.convolution(net.input(3, 224, 224), 64, 7, 2), 3, 2, 1);
  const int blocks[] = {6, 12, 24, 16};
  for (int stage = 0; stage < 4; ++stage) {
    for (int layer = 0; layer < blocks[stage]; ++layer) {
      const Tensor fresh = net.convolution(net.convolution(image, 128, 1), 32, 3);
      image = net.concatenated(image, fresh);
    }
    if (stage < 3) image = net.pool(net.convolution(image, image.channels / 2, 1), 2, 2);
  }
  net.output(net.dense(net.pool(image, 7, 7), 1, 1024, 1000), 1000);
}

// Kim et al., 2016.
void enhance(Builder& net) {
  const Tensor first = net.input(3, 224, 224);
  Tensor image = first;
  for (int layer = 0; layer < 19; ++layer) image = net.convolution(image, 64, 3);
  net.output(net.convolution(image, 3, 3, 1, 1, &first), 3 * 224 * 224);
}

// Vaswani et al., 2017, base: six layers each way, width 512, 37000 words.
void translate(Builder& net) {
  const Tensor tokens = net.input(32, 1, 1);
  Tensor text = net.embedding(tokens, 32, 37000, 512);
  for (int layer = 0; layer < 6; ++layer) text = net.transformer_layer(text, 32, 512, nullptr);
  const Tensor read = text;
  for (int layer = 0; layer < 6; ++layer) text = net.transformer_layer(text, 32, 512, &read);
  net.output(net.dense_again(text, 32, 512, 37000), 32);
}

// Devlin et al., 2018, base: twelve layers, width 768, 30522 words.
void bert_base(Builder& net) {
  Tensor text = net.embedding(net.input(128, 1, 1), 128, 30522 + 512 + 2, 768);
  for (int layer = 0; layer < 12; ++layer) text = net.transformer_layer(text, 128, 768, nullptr);
  net.output(net.dense(text, 1, 768, 2), 2);
}

void build(Builder& net, Network network) {
  switch (network) {
    case Network::kSsd300:
      return ssd300(net);
    case Network::kResNet50:
      return resnet50(net);
    case Network::kVgg16:
      return vgg16(net);
    case Network::kAlexNet:
      return alexnet(net);
    case Network::kDenseNet121:
      return densenet121(net);
    case Network::kEnhance:
      return enhance(net);
    case Network::kTranslate:
      return translate(net);
    case Network::kBertBase:
      return bert_base(net);
  }
}

// Kernels are bound by operations or by memory, and fill as many multiprocessors as their outputs
// have threads for.
BatchModel batch_model(const Builder& net, const Constants& constants) {
  BatchModel model;
  std::vector<Duration> durations;
  double filled_s = 0;
  for (const Builder::Kernel& kernel : net.kernels()) {
    const double share = std::clamp(kernel.threads / constants.threads, 1.0 / 80, 1.0);
    const double compute_s =
        kernel.operations / (constants.peak_operations_per_s * constants.efficiency * share);
    // A quarter of the multiprocessors can keep the memory busy.
    const double memory_s =
        kernel.bytes / (constants.memory_bytes_per_s * std::min(1.0, 4 * share));
    const double kernel_s = std::max(compute_s, memory_s) + constants.launch_s;
    model.alone_s += kernel_s;
    filled_s += kernel_s * share;
    model.ends_s.push_back(model.alone_s);
    durations.push_back(from_seconds(kernel_s));
  }
  model.demand = filled_s / model.alone_s;
  model.profile =
      kernel_graph::profile_of(net.graph(), durations, kernel_graph::CountConstants::kNo);
  return model;
}

}  // namespace

const char* name_of(Network network) {
  static constexpr const char* kNames[] = {"SSD300",       "ResNet-50", "VGG-16",      "AlexNet",
                                           "DenseNet-121", "VDSR",      "Transformer", "BERT-base"};
  return kNames[static_cast<size_t>(network)];
}

Model make_model(Network network, const Constants& constants) {
  Model model;
  model.network = network;
  for (unsigned batch = 1; batch <= kMostBatch; ++batch) {
    Builder net(batch);
    build(net, network);
    model.batches.push_back(batch_model(net, constants));
    if (batch > 1) continue;
    for (const Builder::Kernel& kernel : net.kernels()) {
      model.weight_bytes += kernel.weight_bytes;
      model.operations += kernel.operations;
      model.weights_until.push_back(model.weight_bytes);
    }
  }
  return model;
}

}  // namespace lambent::paper_streambox
