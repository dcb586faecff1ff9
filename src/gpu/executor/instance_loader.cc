#include "gpu/executor/instance_loader.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstdio>
#include <functional>
#include <map>
#include <utility>

#include "decide/kernel_graph/graph_json.h"
#include "decide/kernel_graph/limits.h"
#include "gpu/executor/file_io.h"

namespace lambent::executor {
namespace {

using kernel_graph::BufferRole;
using kernel_graph::KernelGraph;

Result<std::string> content_of(int fd, Bytes most, const std::string& name) {
  struct stat status {};
  if (fstat(fd, &status) != 0) return error_from_errno("fstat of " + name, errno);
  if (!S_ISREG(status.st_mode)) {
    return Error{ErrorCode::kInvalidArgument, name + " is no file"};
  }
  const auto size = static_cast<uint64_t>(status.st_size);
  if (size > most.count) {
    return Error{ErrorCode::kInvalidArgument,
                 name + " has " + to_string(Bytes(size)) + ", more than " + to_string(most)};
  }
  std::string content(size, '\0');
  auto read = read_fully(fd, 0, content.data(), size);
  if (!read.ok()) return read.error().with_context(name);
  return content;
}

// The index of a file of the package.
Result<size_t> find_file(const InstanceLoader::Order& order, const std::string& name) {
  const auto found = std::find(order.names.begin(), order.names.end(), name);
  if (found == order.names.end()) {
    return Error{ErrorCode::kNotFound, "the package has no file '" + name + "'"};
  }
  return static_cast<size_t>(found - order.names.begin());
}

Result<kernel_graph::FileSizes> sizes_of(const InstanceLoader::Order& order) {
  kernel_graph::FileSizes sizes;
  for (size_t i = 0; i < order.names.size(); ++i) {
    struct stat status {};
    if (fstat(order.files[i].get(), &status) != 0) {
      return error_from_errno("fstat of " + order.names[i], errno);
    }
    sizes[order.names[i]] = static_cast<uint64_t>(status.st_size);
  }
  return sizes;
}

kernel_graph::KernelFacts facts_of(const bundle::Kernel& kernel) {
  return {kernel.parameter_sizes, kernel.static_shared_bytes, kernel.max_threads};
}

// By buffer: the number of the first launch that uses it.
std::vector<uint32_t> first_uses_of(const KernelGraph& graph) {
  std::vector<uint32_t> first(graph.buffers.size(), UINT32_MAX);
  uint32_t launches = 0;
  const std::function<void(const std::vector<kernel_graph::Step>&)> walk =
      [&](const std::vector<kernel_graph::Step>& steps) {
        for (const auto& step : steps) {
          const auto* launch = std::get_if<kernel_graph::Launch>(&step);
          if (launch == nullptr) {
            walk(std::get<kernel_graph::Repeat>(step).steps);
            continue;
          }
          for (const auto& argument : launch->arguments) {
            const auto* used = std::get_if<kernel_graph::BufferArgument>(&argument);
            if (used != nullptr) first[used->buffer] = std::min(first[used->buffer], launches);
          }
          ++launches;
        }
      };
  walk(graph.steps);
  return first;
}

}  // namespace

Result<std::shared_ptr<const LoadedBundle>> InstanceLoader::load_bundle(const std::string& name,
                                                                        const Order& order) {
  const auto read = [&order](const std::string& path, size_t limit) -> Result<std::string> {
    ASSIGN_OR_RETURN(const size_t file, find_file(order, path));
    return content_of(order.files[file].get(), Bytes(limit), path);
  };
  return kernels_.load(name, read, order.modelled);
}

Result<std::vector<Constant>> InstanceLoader::take_constants(const KernelGraph& graph,
                                                             const kernel_graph::MemoryPlan& plan,
                                                             Order& order) {
  ASSIGN_OR_RETURN(const size_t graph_file, find_file(order, order.graph));
  ASSIGN_OR_RETURN(const DeviceName graph_name, name_of_file(order.files[graph_file].get()));
  std::vector<Constant> constants;
  for (uint32_t i = 0; i < graph.buffers.size(); ++i) {
    const auto& buffer = graph.buffers[i];
    if (buffer.role != BufferRole::kConstant) continue;
    Constant constant;
    constant.buffer = i;
    constant.size = plan.sizes[i];
    if (buffer.file.empty()) {
      constant.pattern = buffer.fill;
      constant.name = DeviceName::filled(graph_name, i);
    } else {
      ASSIGN_OR_RETURN(const size_t index, find_file(order, buffer.file));
      ASSIGN_OR_RETURN(auto file, constant_files_.take(order.files[index].get()));
      constant.name = file.name;
      constant.file = std::move(file.file);
    }
    constants.push_back(std::move(constant));
  }
  const std::vector<uint32_t> first_uses = first_uses_of(graph);
  std::stable_sort(constants.begin(), constants.end(),
                   [&](const Constant& one, const Constant& other) {
                     return first_uses[one.buffer] < first_uses[other.buffer];
                   });
  return constants;
}

Result<std::unique_ptr<LoadedInstance>> InstanceLoader::load(Order order) {
  ASSIGN_OR_RETURN(const size_t graph_file, find_file(order, order.graph));
  ASSIGN_OR_RETURN(const std::string json,
                   content_of(order.files[graph_file].get(), limits::kGraphJson, order.graph));
  auto parsed = kernel_graph::parse_graph(json);
  if (!parsed.ok()) return parsed.error().with_context(order.graph);
  const std::vector<std::string> names = kernel_graph::bundles_of(*parsed);
  std::vector<std::shared_ptr<const LoadedBundle>> bundles;
  for (const std::string& name : names) {
    auto bundle = load_bundle(name, order);
    if (!bundle.ok()) {
      return bundle.error().with_context(order.graph + ": " + place_of_bundle(*parsed, name));
    }
    bundles.push_back(std::move(*bundle));
  }

  kernel_graph::KernelLookup lookup;
  for (size_t i = 0; i < names.size(); ++i) {
    auto& kernels = lookup[names[i]];
    for (const auto& kernel : bundles[i]->manifest().kernels) {
      kernels[kernel.name] = facts_of(kernel);
    }
  }
  auto valid = kernel_graph::validate(*parsed, lookup);
  if (!valid.ok()) return valid.error().with_context(order.graph);
  ASSIGN_OR_RETURN(const auto sizes, sizes_of(order));
  valid = kernel_graph::validate_files(*parsed, sizes);
  if (!valid.ok()) return valid.error().with_context(order.graph);

  auto instance = std::make_unique<LoadedInstance>(std::move(*parsed));
  instance->bundles = std::move(bundles);
  if (instance->plan.footprint > order.memory) {
    return Error{ErrorCode::kResourceExhausted,
                 "the function needs " + to_string(instance->plan.footprint) +
                     " of device memory and may have " + to_string(order.memory)};
  }
  ASSIGN_OR_RETURN(instance->constants, take_constants(instance->graph, instance->plan, order));
  ASSIGN_OR_RETURN(auto in,
                   cuda::PinnedBuffer::allocate(
                       driver_, std::min(instance->plan.inputs + instance->plan.outputs + Bytes(1),
                                         kInlineCopy)));
  instance->in.emplace(std::move(in));
  ASSIGN_OR_RETURN(auto out,
                   cuda::PinnedBuffer::allocate(
                       driver_, kFlagBytes + std::min(instance->plan.outputs, kInlineCopy)));
  instance->out.emplace(std::move(out));
  // Layers are those of one list of steps.
  if (pages_ != nullptr && kernel_graph::variants_of(instance->graph).empty()) {
    auto layers = kernel_graph::plan_layers(instance->graph, instance->plan, pages_->page());
    if (layers.changes()) instance->layers = std::move(layers);
  }
  RETURN_IF_ERROR(make_program(*instance, names, order));
  const bool has_calls = instance->program->calls() > 0;
  auto placed = place(order.groups, has_calls);
  if (!placed.ok() && !order.groups.empty()) {
    std::fprintf(stderr, "lambent-executor: a share is not applied: %s\n",
                 to_string(placed.error()).c_str());
    placed = place({}, has_calls);
  }
  if (!placed.ok()) return placed.error();
  instance->placement = std::move(*placed);
  if (instance->layers) {
    ASSIGN_OR_RETURN(instance->window, pages_->open(instance->layers->pages));
  }
  return instance;
}

// `names` are those of the instance's bundles. What the device lacks for loops of its own is no
// mistake of the function's. In model mode no kernel runs that could end one.
Result<void> InstanceLoader::make_program(LoadedInstance& instance, std::vector<std::string> names,
                                          const Order& order) {
  std::optional<Error> lacks;
  auto loops = Program::Loops::kOfHost;
  const std::string manifest = std::string(kernel_graph::kLoopBundle) + "/" + bundle::kManifestFile;
  if (device_loops_ && !order.modelled && kernel_graph::has_flags(instance.graph.steps) &&
      find_file(order, manifest).ok()) {
    auto bundle = load_bundle(std::string(kernel_graph::kLoopBundle), order);
    if (bundle.ok()) {
      loops = Program::Loops::kOfDevice;
      names.emplace_back(kernel_graph::kLoopBundle);
      instance.bundles.push_back(std::move(*bundle));
    } else {
      lacks = bundle.error();
    }
  }
  const auto kernel_of = [&](const kernel_graph::Launch& launch) -> Result<CUfunction> {
    const auto name = std::find(names.begin(), names.end(), launch.bundle);
    auto kernel = instance.bundles[static_cast<size_t>(name - names.begin())]->kernel(
        driver_, launch.kernel, launch.shared_bytes);
    const std::string place = kernel.ok() ? "" : place_of_launch(instance.graph, launch);
    if (place.empty()) return kernel;
    return kernel.error().with_context(order.graph + ": " + place);
  };
  const bool could_call = std::find(names.begin(), names.end(), cublas::kBlasBundle) != names.end();
  std::vector<uint32_t> layers;
  if (instance.layers) {
    for (const auto& layer : instance.layers->layers) layers.push_back(layer.begin);
  }
  ASSIGN_OR_RETURN(instance.program,
                   Program::compile(driver_, instance.graph, instance.order, kernel_of, loops,
                                    could_call ? blas_.for_programs() : nullptr, layers));
  if (instance.program->calls() > 0) instance.shared_blas = blas_.for_requests();
  const auto& no_calls = instance.program->no_calls();
  if (no_calls && !std::exchange(has_told_of_calls_, true)) {
    std::fprintf(stderr, "lambent-executor: some linear algebra without cuBLAS: %s\n",
                 to_string(*no_calls).c_str());
  }
  if (!lacks) lacks = instance.program->no_device_loops();
  if (lacks && !std::exchange(has_told_of_loops_, true)) {
    std::fprintf(stderr, "lambent-executor: loops with a flag are the host's: %s\n",
                 to_string(*lacks).c_str());
  }
  return {};
}

Result<std::unique_ptr<Placement>> InstanceLoader::place(std::span<const uint32_t> groups,
                                                         bool has_calls) {
  auto placement = std::make_unique<Placement>();
  if (!groups.empty()) {
    ASSIGN_OR_RETURN(auto partition,
                     cuda::GreenContext::create(driver_, ordinal_, *multiprocessors_, groups));
    placement->partition.emplace(std::move(partition));
  }
  ASSIGN_OR_RETURN(auto stream, placement->partition
                                    ? cuda::Stream::create(driver_, *placement->partition)
                                    : cuda::Stream::create(driver_));
  placement->stream = std::make_unique<cuda::Stream>(std::move(stream));
  if (has_calls && placement->partition) {
    placement->blas = blas_.for_partition(*placement->partition);
  }
  return placement;
}

}  // namespace lambent::executor
