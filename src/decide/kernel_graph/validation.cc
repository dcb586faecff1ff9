#include "decide/kernel_graph/validation.h"

#include <algorithm>
#include <set>
#include <span>

#include "core/base/document_place.h"
#include "core/base/spelling.h"
#include "decide/kernel_graph/constant_file.h"
#include "decide/kernel_graph/limits.h"
#include "decide/kernel_graph/plan.h"

namespace lambent::kernel_graph {
namespace {

std::string quoted(std::string_view text) { return "'" + std::string(text) + "'"; }

template <typename Map>
std::vector<std::string_view> names_in(const Map& map) {
  std::vector<std::string_view> names;
  for (const auto& entry : map) names.push_back(entry.first);
  return names;
}

// What the steps that came so far did to a buffer.
struct Use {
  bool used = false;
  bool written = false;  // or there from the start
};

class Validator {
 public:
  Validator(const KernelGraph& graph, const KernelLookup& kernels)
      : graph_(graph), kernels_(kernels) {}

  Result<void> run() {
    RETURN_IF_ERROR(check_buffers());
    if (graph_.steps.empty()) return invalid_at("steps", "a graph needs a step at least");
    RETURN_IF_ERROR(check_variants());
    RETURN_IF_ERROR(check_steps(graph_.steps, "", 0));
    if (steps_ > limits::kGraphSteps) {
      return invalid_at("steps", "more than " + std::to_string(limits::kGraphSteps) + " steps");
    }
    return check_uses();
  }

 private:
  Result<void> check_buffers() {
    if (graph_.buffers.size() > limits::kGraphBuffers) {
      return invalid_at("buffers", "more than " + std::to_string(limits::kGraphBuffers));
    }
    std::set<std::string_view> names;
    // Neither can the sum wrap around: so many buffers, each below kGraphMemory.
    uint64_t total = 0;
    for (size_t i = 0; i < graph_.buffers.size(); ++i) {
      const Buffer& buffer = graph_.buffers[i];
      const std::string place = item_place("buffers", i) + " (" + quoted(buffer.name) + ")";
      if (!names.insert(buffer.name).second) return invalid_at(place, "there are two of this name");
      const auto size = byte_size(buffer.type);
      if (!size.ok()) return invalid_at(place, size.error().message);
      if (*size == Bytes(0)) return invalid_at(place, "it has no elements");
      total += std::min(size->count, limits::kGraphMemory.count + 1);
      if (total > limits::kGraphMemory.count) {
        return invalid_at(
            place, "the buffers up to here take more than " + to_string(limits::kGraphMemory));
      }
      RETURN_IF_ERROR(check_content(buffer, place));
      const bool there = is_input(buffer.role) || buffer.role == BufferRole::kConstant;
      sizes_.push_back(size->count);
      there_.push_back(there);
      uses_.push_back({.used = false, .written = there});
    }
    return {};
  }

  static Result<void> check_content(const Buffer& buffer, const std::string& place) {
    if (buffer.role != BufferRole::kConstant) {
      if (buffer.file.empty() && buffer.fill.empty()) return {};
      return invalid_at(place, "only a constant has a file or a fill; this is of role " +
                                   std::string(name_of(buffer.role)));
    }
    if (buffer.file.empty() == buffer.fill.empty()) {
      return invalid_at(place, "a constant has either a file or a fill");
    }
    if (!buffer.fill.empty() && buffer.fill.size() != size_of(buffer.type.datatype).count) {
      return invalid_at(place, "its fill is not one element");
    }
    if (!buffer.file.empty() && !names_constant(buffer.file)) {
      return invalid_at(
          place, "the file " + quoted(buffer.file) + " is neither in the package nor in a mount");
    }
    return {};
  }

  Result<void> check_variants() const {
    const std::vector<uint64_t> sizes = variants_of(graph_);
    if (sizes.empty()) {
      if (!graph_.batches) return {};
      return invalid_at("batches", "they are for graphs whose steps are variants");
    }
    if (sizes.size() > kMostVariants) {
      return invalid_at("steps", "more than " + std::to_string(kMostVariants) + " variants");
    }
    for (size_t i = 0; i < graph_.steps.size(); ++i) {
      const auto* variant = std::get_if<Repeat>(&graph_.steps[i]);
      const std::string place = item_place("steps", i);
      if (variant == nullptr || variant->batch == 0) {
        return invalid_at(place, "it is no variant, and other steps are");
      }
      if (variant->batch > kMostBatchSize) {
        return invalid_at(place + ".batch", "more than " + std::to_string(kMostBatchSize));
      }
      if (i > 0 && variant->batch <= sizes[i - 1]) {
        return invalid_at(place + ".batch", std::to_string(variant->batch) + " follows " +
                                                std::to_string(sizes[i - 1]) +
                                                "; variants stand in the order of their sizes");
      }
    }
    for (size_t i = 0; i < graph_.buffers.size(); ++i) {
      const Buffer& buffer = graph_.buffers[i];
      const auto& shape = buffer.type.shape;
      if (!is_input(buffer.role) && !is_output(buffer.role)) continue;
      if (!shape.empty() && shape.front() == sizes.back()) continue;
      return invalid_at(
          item_place("buffers", i) + " (" + quoted(buffer.name) + ")",
          "its first dimension is that of the largest variant, " + std::to_string(sizes.back()));
    }
    return {};
  }

  Result<void> check_steps(const std::vector<Step>& steps, const std::string& inside,
                           size_t depth) {
    for (size_t i = 0; i < steps.size(); ++i) {
      const std::string place = item_place(inside + "steps", i);
      ++steps_;
      const auto* repeat = std::get_if<Repeat>(&steps[i]);
      if (repeat != nullptr && repeat->batch > 0) {
        RETURN_IF_ERROR(check_variant(*repeat, place, depth));
      } else if (repeat != nullptr) {
        RETURN_IF_ERROR(check_repeat(*repeat, place, depth));
      } else {
        RETURN_IF_ERROR(check_launch(std::get<Launch>(steps[i]), place));
      }
    }
    return {};
  }

  // What others have written is not there for this one.
  Result<void> check_variant(const Repeat& variant, const std::string& place, size_t depth) {
    if (depth > 0) return invalid_at(place, "a variant is no part of another step");
    if (variant.times != 1 || variant.until != kNoFlag) {
      return invalid_at(place, "a variant is not repeated");
    }
    if (variant.steps.empty()) return invalid_at(place, "the variant has no steps");
    for (size_t i = 0; i < uses_.size(); ++i) uses_[i].written = there_[i];
    RETURN_IF_ERROR(check_steps(variant.steps, place + ".", depth + 1));
    return check_outputs(place);
  }

  // All are written by what came so far.
  Result<void> check_outputs(const std::string& by) const {
    for (size_t i = 0; i < graph_.buffers.size(); ++i) {
      const Buffer& buffer = graph_.buffers[i];
      if (buffer.role != BufferRole::kOutput || uses_[i].written) continue;
      return invalid_at(item_place("buffers", i) + " (" + quoted(buffer.name) + ")",
                        "no step " + (by.empty() ? "" : "of " + by + " ") + "writes this output");
    }
    return {};
  }

  Result<void> check_repeat(const Repeat& repeat, const std::string& place, size_t depth) {
    if (depth == limits::kGraphDepth) {
      return invalid_at(
          place, "more than " + std::to_string(limits::kGraphDepth) + " repeats lie in each other");
    }
    if (repeat.times == 0 || repeat.times > limits::kGraphRounds) {
      return invalid_at(place, "it is repeated " + std::to_string(repeat.times) + " times; 1 to " +
                                   std::to_string(limits::kGraphRounds) + " are possible");
    }
    if (repeat.steps.empty()) return invalid_at(place, "nothing is repeated: it has no steps");
    if (repeat.until != kNoFlag) RETURN_IF_ERROR(check_flag(repeat, place));
    return check_steps(repeat.steps, place + ".", depth + 1);
  }

  Result<void> check_flag(const Repeat& repeat, const std::string& place) {
    if (repeat.until >= graph_.buffers.size()) return invalid_at(place + ".until", "is no buffer");
    const Buffer& flag = graph_.buffers[repeat.until];
    const std::string here = place + ".until (" + quoted(flag.name) + ")";
    if (flag.role == BufferRole::kInput || flag.role == BufferRole::kConstant) {
      return invalid_at(
          here, "a flag is written, but this is of role " + std::string(name_of(flag.role)));
    }
    if (sizes_[repeat.until] < sizeof(uint32_t)) {
      return invalid_at(here, "a flag has at least 4 bytes, this buffer has " +
                                  std::to_string(sizes_[repeat.until]));
    }
    if (!writes(repeat.steps, repeat.until)) {
      return invalid_at(here, "no step of the loop writes it, so it would never end the loop");
    }
    // It is zero before the first round.
    uses_[repeat.until] = {.used = true, .written = true};
    return {};
  }

  static bool writes(const std::vector<Step>& steps, uint32_t buffer) {
    return std::any_of(steps.begin(), steps.end(), [&](const Step& step) {
      if (const auto* repeat = std::get_if<Repeat>(&step)) return writes(repeat->steps, buffer);
      const auto& arguments = std::get<Launch>(step).arguments;
      return std::any_of(arguments.begin(), arguments.end(), [&](const Argument& argument) {
        const auto* used = std::get_if<BufferArgument>(&argument);
        return used != nullptr && used->buffer == buffer && used->access != Access::kRead;
      });
    });
  }

  Result<void> check_launch(const Launch& launch, const std::string& place) {
    ASSIGN_OR_RETURN(const KernelFacts* kernel, find_kernel(launch, place));
    RETURN_IF_ERROR(check_dimensions(launch, *kernel, place));
    const auto& sizes = kernel->parameter_sizes;
    if (launch.arguments.size() != sizes.size()) {
      return invalid_at(place + ".arguments", std::to_string(launch.arguments.size()) +
                                                  " are given, the kernel " +
                                                  quoted(launch.kernel) + " has " +
                                                  std::to_string(sizes.size()) + " parameters");
    }
    for (size_t i = 0; i < sizes.size(); ++i) {
      const std::string here = item_place(place + ".arguments", i);
      if (const auto* literal = std::get_if<LiteralArgument>(&launch.arguments[i])) {
        RETURN_IF_ERROR(check_literal(*literal, sizes[i], here));
      } else {
        RETURN_IF_ERROR(
            check_argument(std::get<BufferArgument>(launch.arguments[i]), sizes[i], here));
      }
    }
    // Only now: that a kernel writes one buffer gives no other argument of it something to read.
    for (const Argument& argument : launch.arguments) {
      const auto* used = std::get_if<BufferArgument>(&argument);
      if (used != nullptr && used->access != Access::kRead) uses_[used->buffer].written = true;
    }
    return {};
  }

  Result<const KernelFacts*> find_kernel(const Launch& launch, const std::string& place) {
    if (!names_bundle(launch.bundle)) {
      return invalid_at(place + ".bundle", quoted(launch.bundle) + " is not in the package");
    }
    const auto bundle = kernels_.find(launch.bundle);
    if (bundle == kernels_.end()) {
      return invalid_at(place + ".bundle", "there is no bundle " + quoted(launch.bundle) +
                                               did_you_mean(launch.bundle, names_in(kernels_)));
    }
    const auto kernel = bundle->second.find(launch.kernel);
    if (kernel == bundle->second.end()) {
      return invalid_at(place + ".kernel",
                        "the bundle " + quoted(launch.bundle) + " has no kernel " +
                            quoted(launch.kernel) +
                            did_you_mean(launch.kernel, names_in(bundle->second)));
    }
    return &kernel->second;
  }

  static Result<void> check_dimensions(const Launch& launch, const KernelFacts& kernel,
                                       const std::string& place) {
    const auto check = [&](const char* what, uint32_t number, uint32_t most) -> Result<void> {
      if (number >= 1 && number <= most) return {};
      return invalid_at(place + what,
                        std::to_string(number) + " is not in 1 to " + std::to_string(most));
    };
    RETURN_IF_ERROR(check(".grid[0]", launch.grid.x, INT32_MAX));
    RETURN_IF_ERROR(check(".grid[1]", launch.grid.y, UINT16_MAX));
    RETURN_IF_ERROR(check(".grid[2]", launch.grid.z, UINT16_MAX));
    RETURN_IF_ERROR(check(".block[0]", launch.block.x, limits::kBlockThreads));
    RETURN_IF_ERROR(check(".block[1]", launch.block.y, limits::kBlockThreads));
    RETURN_IF_ERROR(check(".block[2]", launch.block.z, 64));
    const uint64_t threads = uint64_t{launch.block.x} * launch.block.y * launch.block.z;
    const uint64_t most = std::min<uint64_t>(kernel.max_threads, limits::kBlockThreads);
    if (threads > most) {
      return invalid_at(place + ".block", std::to_string(threads) + " threads, the kernel " +
                                              quoted(launch.kernel) + " takes at most " +
                                              std::to_string(most));
    }
    const uint64_t shared = uint64_t{launch.shared_bytes} + kernel.static_shared_bytes;
    if (shared > limits::kBlockSharedMemory.count) {
      return invalid_at(place + ".shared_bytes",
                        std::to_string(shared) + " bytes, with the kernel's own " +
                            std::to_string(kernel.static_shared_bytes) + "; a block has at most " +
                            std::to_string(limits::kBlockSharedMemory.count));
    }
    return {};
  }

  static Result<void> check_literal(const LiteralArgument& literal, uint32_t parameter_size,
                                    const std::string& place) {
    if (literal.bytes.size() == parameter_size) return {};
    return invalid_at(place, "the literal has " + std::to_string(literal.bytes.size()) +
                                 " bytes, the kernel's parameter " +
                                 std::to_string(parameter_size));
  }

  Result<void> check_argument(const BufferArgument& argument, uint32_t parameter_size,
                              const std::string& place) {
    if (argument.buffer >= graph_.buffers.size()) return invalid_at(place, "is no buffer");
    const Buffer& buffer = graph_.buffers[argument.buffer];
    const std::string here = place + " (" + quoted(buffer.name) + ")";
    if (parameter_size != sizeof(void*)) {
      return invalid_at(here, "the kernel's parameter has " + std::to_string(parameter_size) +
                                  " bytes, which is not a pointer; give a literal");
    }
    if (argument.offset_bytes >= sizes_[argument.buffer]) {
      return invalid_at(here, "begins at byte " + std::to_string(argument.offset_bytes) +
                                  ", the buffer has " + std::to_string(sizes_[argument.buffer]));
    }
    if (argument.offset_bytes % size_of(buffer.type.datatype).count != 0) {
      return invalid_at(here, "begins at byte " + std::to_string(argument.offset_bytes) +
                                  ", in the middle of an element of " +
                                  std::string(name_of(buffer.type.datatype)));
    }
    if (argument.access != Access::kRead &&
        (buffer.role == BufferRole::kInput || buffer.role == BufferRole::kConstant)) {
      return invalid_at(
          here, "a buffer of role " + std::string(name_of(buffer.role)) + " is never written");
    }
    Use& use = uses_[argument.buffer];
    if (argument.access == Access::kRead && !use.written) {
      return invalid_at(here, "it is read, but no step before has written it");
    }
    use.used = true;
    return {};
  }

  Result<void> check_uses() const {
    RETURN_IF_ERROR(check_outputs(""));
    for (size_t i = 0; i < graph_.buffers.size(); ++i) {
      const Buffer& buffer = graph_.buffers[i];
      const std::string place = item_place("buffers", i) + " (" + quoted(buffer.name) + ")";
      if (!uses_[i].used) return invalid_at(place, "no step uses this buffer");
    }
    return {};
  }

  const KernelGraph& graph_;
  const KernelLookup& kernels_;
  std::vector<uint64_t> sizes_;  // by buffer
  std::vector<bool> there_;      // by buffer: from the start
  std::vector<Use> uses_;        // by buffer
  size_t steps_ = 0;
};

std::string place_of_bundle(const std::vector<Step>& steps, std::string_view bundle,
                            const std::string& inside) {
  for (size_t i = 0; i < steps.size(); ++i) {
    const std::string place = item_place(inside + "steps", i) + ".";
    if (const auto* repeat = std::get_if<Repeat>(&steps[i])) {
      std::string found = place_of_bundle(repeat->steps, bundle, place);
      if (!found.empty()) return found;
    } else if (std::get<Launch>(steps[i]).bundle == bundle) {
      return place + "bundle";
    }
  }
  return "";
}

std::string place_of_launch(const std::vector<Step>& steps, const Launch& launch,
                            const std::string& inside) {
  for (size_t i = 0; i < steps.size(); ++i) {
    const std::string place = item_place(inside + "steps", i);
    if (const auto* repeat = std::get_if<Repeat>(&steps[i])) {
      std::string found = place_of_launch(repeat->steps, launch, place + ".");
      if (!found.empty()) return found;
    } else if (&std::get<Launch>(steps[i]) == &launch) {
      return place;
    }
  }
  return "";
}

void add_bundles(const std::vector<Step>& steps, std::set<std::string>& bundles) {
  for (const Step& step : steps) {
    if (const auto* repeat = std::get_if<Repeat>(&step)) {
      add_bundles(repeat->steps, bundles);
    } else {
      bundles.insert(std::get<Launch>(step).bundle);
    }
  }
}

}  // namespace

std::vector<std::string> bundles_of(const KernelGraph& graph) {
  std::set<std::string> bundles;
  add_bundles(graph.steps, bundles);
  return {bundles.begin(), bundles.end()};
}

std::string place_of_bundle(const KernelGraph& graph, std::string_view bundle) {
  return place_of_bundle(graph.steps, bundle, "");
}

std::string place_of_launch(const KernelGraph& graph, const Launch& launch) {
  return place_of_launch(graph.steps, launch, "");
}

std::string place_of_file(const KernelGraph& graph, size_t buffer) {
  return item_place("buffers", buffer) + " (" + quoted(graph.buffers[buffer].name) + ").file";
}

Result<void> validate(const KernelGraph& graph, const KernelLookup& kernels) {
  return Validator(graph, kernels).run();
}

Result<void> validate_files(const KernelGraph& graph, const FileSizes& files) {
  for (size_t i = 0; i < graph.buffers.size(); ++i) {
    const Buffer& buffer = graph.buffers[i];
    if (buffer.file.empty()) continue;
    const std::string place = place_of_file(graph, i);
    const auto file = files.find(buffer.file);
    if (file == files.end()) {
      return invalid_at(place, "the package has no file " + quoted(buffer.file) +
                                   did_you_mean(buffer.file, names_in(files)));
    }
    ASSIGN_OR_RETURN(const Bytes size, byte_size(buffer.type));
    if (file->second != size.count) {
      return invalid_at(place, quoted(buffer.file) + " has " + std::to_string(file->second) +
                                   " bytes, " + to_string(buffer.type) + " has " +
                                   std::to_string(size.count));
    }
  }
  return {};
}

}  // namespace lambent::kernel_graph
