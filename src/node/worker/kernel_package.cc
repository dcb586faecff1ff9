#include "node/worker/kernel_package.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>

#include "core/base/packet.h"
#include "core/base/spelling.h"
#include "core/protocol/executor_message.h"
#include "core/protocol/pool_units.h"
#include "decide/kernel_graph/constant_file.h"
#include "decide/kernel_graph/graph_json.h"
#include "decide/kernel_graph/limits.h"
#include "decide/kernel_graph/plan.h"
#include "decide/kernel_graph/validation.h"
#include "gpu/bundle/bundle.h"

namespace lambent::worker {
namespace {

using kernel_graph::KernelGraph;

std::string quoted(const std::string& name) { return "'" + name + "'"; }

constexpr std::string_view kBuiltIn = "lambent:";

// Where what the graph names lies on this machine: a bundle, or a file in one.
std::string path_on_disk(const KernelPackageOptions& options, const std::string& path) {
  if (!path.starts_with(kBuiltIn)) return options.folder + "/" + path;
  return options.built_in + "/" + path.substr(kBuiltIn.size());
}

// What is missing or damaged in a package is the mistake of who sent it.
Error as_clients(Error error) {
  const bool is_ours =
      error.code == ErrorCode::kUnavailable || error.code == ErrorCode::kResourceExhausted;
  if (!is_ours) error.code = ErrorCode::kInvalidArgument;
  return error;
}

// Errors name files as the package has them: where it lies is not told.
Error naming(Error error, const std::string& on_disk, const std::string& path) {
  if (const size_t found = error.message.find(on_disk); found != std::string::npos) {
    error.message.replace(found, on_disk.size(), path);
  }
  return error;
}

Result<KernelGraph> read_graph(const KernelPackageOptions& options) {
  const std::string on_disk = options.folder + "/" + options.graph;
  std::error_code unknown;
  if (std::filesystem::file_size(on_disk, unknown) > limits::kGraphJson.count && !unknown) {
    return Error{ErrorCode::kInvalidArgument,
                 options.graph + " is larger than " + to_string(limits::kGraphJson)};
  }
  auto json = read_file(on_disk, limits::kGraphJson.count);
  if (!json.ok()) {
    return as_clients(
        naming(json.error(), on_disk, options.graph).with_context("the graph of the package"));
  }
  auto graph = kernel_graph::parse_graph(*json);
  if (!graph.ok()) return graph.error().with_context(options.graph);
  return graph;
}

// Paths come from a graph and from manifests that were parsed strictly; what matters here is that a
// link cannot lead out of the package.
Result<OwnedFd> open_file(const std::string& path, const std::string& name) {
  OwnedFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  if (!fd.valid()) return as_clients(error_from_errno("open " + name, errno));
  struct stat facts {};
  if (fstat(fd.get(), &facts) != 0 || !S_ISREG(facts.st_mode)) {
    return Error{ErrorCode::kInvalidArgument, name + " is no file"};
  }
  return fd;
}

Result<bundle::Bundle> open_bundle(const KernelPackageOptions& options, const std::string& name) {
  const auto read = [&](const std::string& path, size_t limit) -> Result<std::string> {
    const std::string on_disk = path_on_disk(options, path);
    auto content = read_file(on_disk, limit);
    if (content.ok()) return content;
    return naming(content.error(), on_disk, path);
  };
  auto opened = bundle::Bundle::open(name, read);
  if (!opened.ok()) return as_clients(opened.error());
  return opened;
}

// What a misspelt name may have meant: the bundles that are there, under the names of the graph.
std::string similar_bundle(const KernelPackageOptions& options, const std::string& name) {
  const bool is_built_in = name.starts_with(kBuiltIn);
  const std::string folder = is_built_in ? std::string(kBuiltIn) : "bundles/";
  std::vector<std::string> known;
  std::error_code failure;
  using Iterator = std::filesystem::directory_iterator;
  for (Iterator entry(path_on_disk(options, folder), failure); entry != Iterator();
       entry.increment(failure)) {
    const std::string each = folder + entry->path().filename().string();
    if (each != name) known.push_back(each);
  }
  return did_you_mean(name, known);
}

// Those that the graph names; an error has the place where it does.
Result<kernel_graph::KernelLookup> kernels_of(const KernelPackageOptions& options,
                                              const KernelGraph& graph) {
  kernel_graph::KernelLookup kernels;
  for (const std::string& name : kernel_graph::bundles_of(graph)) {
    const auto opened = open_bundle(options, name);
    if (!opened.ok()) {
      Error error =
          opened.error().with_context(options.graph + ": " + place_of_bundle(graph, name));
      if (access((path_on_disk(options, name) + "/" + bundle::kManifestFile).c_str(), F_OK) != 0) {
        error.message += similar_bundle(options, name);
      }
      return error;
    }
    for (const bundle::Kernel& kernel : opened->manifest().kernels) {
      kernels[name][kernel.name] = {kernel.parameter_sizes, kernel.static_shared_bytes,
                                    kernel.max_threads};
    }
  }
  return kernels;
}

// Those that the graph names, and what the device needs for its loops. Without that, where an
// installation lacks it, the executor does them.
std::vector<std::string> bundles_to_send(const KernelPackageOptions& options,
                                         const KernelGraph& graph) {
  std::vector<std::string> names = kernel_graph::bundles_of(graph);
  const std::string loops(kernel_graph::kLoopBundle);
  const bool is_named = std::binary_search(names.begin(), names.end(), loops);
  if (kernel_graph::has_flags(graph.steps) && !is_named && open_bundle(options, loops).ok()) {
    names.push_back(loops);
  }
  return names;
}

// Each file once, sorted.
std::vector<std::string> constant_files(const KernelGraph& graph) {
  std::vector<std::string> files;
  for (const kernel_graph::Buffer& buffer : graph.buffers) {
    if (!buffer.file.empty()) files.push_back(buffer.file);
  }
  std::sort(files.begin(), files.end());
  files.erase(std::unique(files.begin(), files.end()), files.end());
  return files;
}

// Where a constant lies on this machine; empty: that is not known yet.
Result<std::string> path_of_constant(const KernelPackageOptions& options, const std::string& name) {
  if (!kernel_graph::is_mounted(name)) return options.folder + "/" + name;
  for (size_t i = 0; i < options.mounts.size(); ++i) {
    const std::string& at = options.mounts[i].at;
    if (!name.starts_with(at + "/")) continue;
    const bool is_known = i < options.mount_folders.size() && !options.mount_folders[i].empty();
    return is_known ? options.mount_folders[i] + name.substr(at.size()) : std::string();
  }
  if (options.awaits_files) return std::string();
  return Error{ErrorCode::kInvalidArgument,
               quoted(name) + " is in no volume that the function mounts"};
}

// Invalid: it is not known here yet, or not there yet and that is no mistake.
Result<OwnedFd> open_constant(const KernelPackageOptions& options, const std::string& name) {
  ASSIGN_OR_RETURN(const std::string path, path_of_constant(options, name));
  if (path.empty()) return OwnedFd();
  if (!kernel_graph::is_mounted(name)) return open_file(path, name + " of the package");
  const bool is_missing = access(path.c_str(), F_OK) != 0;
  if (is_missing && options.awaits_files) return OwnedFd();
  return open_file(path, name);
}

// By path; an error has the place of the first constant that wants the file.
Result<kernel_graph::FileSizes> sizes_of_constants(const KernelPackageOptions& options,
                                                   const KernelGraph& graph) {
  const auto plan = kernel_graph::plan_memory(graph, kernel_graph::order_of(graph.steps));
  kernel_graph::FileSizes sizes;
  for (size_t i = 0; i < graph.buffers.size(); ++i) {
    const std::string& name = graph.buffers[i].file;
    if (name.empty() || sizes.contains(name)) continue;
    const auto file = open_constant(options, name);
    if (!file.ok()) {
      return file.error().with_context(options.graph + ": " + place_of_file(graph, i));
    }
    if (!file->valid()) {
      sizes[name] = plan.sizes[i].count;
      continue;
    }
    struct stat facts {};
    if (fstat(file->get(), &facts) != 0) return error_from_errno("look at " + name, errno);
    sizes[name] = static_cast<uint64_t>(facts.st_size);
  }
  return sizes;
}

// What an executor's pool takes for a request (executor::MemoryPool): from a MiB on a buffer has
// whole units of the device's to itself, smaller ones share units.
Bytes device_memory_of(const KernelGraph& graph) {
  constexpr Bytes kPiece = Bytes(512);
  const auto round_up = [](Bytes size, Bytes to) {
    return Bytes((size.count + to.count - 1) / to.count * to.count);
  };
  const auto plan = kernel_graph::plan_memory(graph, kernel_graph::order_of(graph.steps));
  Bytes small;
  Bytes large;
  const auto add = [&](Bytes size) {
    if (size < protocol::kLeastLarge) {
      small += round_up(std::max(size, Bytes(1)), kPiece);
    } else {
      large += round_up(size, protocol::kPoolUnit);
    }
  };
  add(plan.temporaries);
  for (size_t i = 0; i < graph.buffers.size(); ++i) {
    if (graph.buffers[i].role != kernel_graph::BufferRole::kTemporary) add(plan.sizes[i]);
  }
  return large + round_up(small, protocol::kPoolUnit);
}

// Where to look first if there is not enough for all.
Error too_large(const KernelGraph& graph, Bytes needed, Bytes most) {
  const auto sizes = kernel_graph::plan_memory(graph, kernel_graph::order_of(graph.steps)).sizes;
  const auto largest = static_cast<size_t>(std::ranges::max_element(sizes) - sizes.begin());
  return {ErrorCode::kInvalidArgument,
          "buffers[" + std::to_string(largest) + "] ('" + graph.buffers[largest].name +
              "'): a request takes " + to_string(needed) + " of device memory, " +
              to_string(sizes[largest]) + " of it for this buffer, the largest; the largest GPU " +
              "here has " + to_string(most) + " for a function"};
}

}  // namespace

Result<Bytes> check_kernel_package(const KernelPackageOptions& options, Bytes most) {
  ASSIGN_OR_RETURN(const KernelGraph graph, read_graph(options));
  ASSIGN_OR_RETURN(const auto kernels, kernels_of(options, graph));
  auto valid = kernel_graph::validate(graph, kernels);
  if (!valid.ok()) return valid.error().with_context(options.graph);
  ASSIGN_OR_RETURN(const auto sizes, sizes_of_constants(options, graph));
  valid = kernel_graph::validate_files(graph, sizes);
  if (!valid.ok()) return valid.error().with_context(options.graph);
  ASSIGN_OR_RETURN(const auto files, open_kernel_package(options));
  const Bytes needed = device_memory_of(graph);
  if (needed > most) return too_large(graph, needed, most).with_context(options.graph);
  return needed;
}

Result<ModelDescription> describe_kernel_package(const KernelPackageOptions& options) {
  ASSIGN_OR_RETURN(const KernelGraph graph, read_graph(options));
  ModelDescription description{.platform = "lambent_kernels", .inputs = {}, .outputs = {}};
  const std::vector<uint64_t> variants = kernel_graph::variants_of(graph);
  if (!variants.empty()) description.most_elements = variants.back();
  description.batches = graph.batches;
  for (const kernel_graph::Buffer& buffer : graph.buffers) {
    TensorSpec tensor{buffer.name, buffer.type.datatype,
                      Shape(buffer.type.shape.begin(), buffer.type.shape.end())};
    const bool is_open = !variants.empty() && !tensor.shape.empty();
    if (is_open) tensor.shape.front() = -1;
    if (is_input(buffer.role)) description.inputs.push_back(tensor);
    if (is_output(buffer.role)) description.outputs.push_back(tensor);
  }
  return description;
}

Result<std::vector<PackageFile>> open_kernel_package(const KernelPackageOptions& options) {
  ASSIGN_OR_RETURN(const KernelGraph graph, read_graph(options));
  std::vector<PackageFile> files;
  size_t name_bytes = 0;
  const auto add = [&](const std::string& name, Result<OwnedFd> fd) -> Result<void> {
    if (!fd.ok()) return fd.error();
    if (!fd->valid()) return {};
    if (files.size() == kMostPacketFds) {
      return Error{ErrorCode::kInvalidArgument,
                   "the graph needs more than " + std::to_string(kMostPacketFds) +
                       " files; put constants together, or use fewer bundles"};
    }
    name_bytes += name.size();
    if (name_bytes > protocol::kExecutorMessage.count / 2) {
      return Error{ErrorCode::kInvalidArgument, "the names of the graph's files are too long"};
    }
    files.push_back({name, *std::move(fd)});
    return {};
  };
  const auto add_file = [&](const std::string& path, const std::string& name) {
    return add(name, open_file(path, name + " of the package"));
  };
  RETURN_IF_ERROR(add_file(options.folder + "/" + options.graph, options.graph));
  for (const std::string& name : constant_files(graph)) {
    RETURN_IF_ERROR(add(name, open_constant(options, name)));
  }
  for (const std::string& name : bundles_to_send(options, graph)) {
    ASSIGN_OR_RETURN(const bundle::Bundle bundle, open_bundle(options, name));
    std::vector<std::string> parts = bundle.manifest().sources;
    parts.emplace_back(bundle::kManifestFile);
    for (const bundle::Image& image : bundle.manifest().images) parts.push_back(image.file);
    for (const std::string& part : parts) {
      RETURN_IF_ERROR(add_file(path_on_disk(options, name + "/" + part), name + "/" + part));
    }
  }
  return files;
}

}  // namespace lambent::worker
