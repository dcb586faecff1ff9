// Whether a graph makes sense, before anything runs: against its kernels, its files and the limits
// of devices. Pure functions; the worker asks at deploy, the executor again; any thread.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.h"
#include "decide/kernel_graph/graph.h"

namespace lambent::kernel_graph {

// What a compiled kernel says of itself (gpu/bundle/manifest.h).
struct KernelFacts {
  std::vector<uint32_t> parameter_sizes;
  uint32_t static_shared_bytes = 0;
  uint32_t max_threads = 1024;  // of a block

  bool operator==(const KernelFacts&) const = default;
};
// By bundle, as launches name it, and by the kernel's name in it.
using KernelLookup =
    std::map<std::string, std::map<std::string, KernelFacts, std::less<>>, std::less<>>;

// The bundles that the graph names, sorted, each once: what a KernelLookup must hold.
std::vector<std::string> bundles_of(const KernelGraph& graph);
// Where the graph names this bundle first, such as "steps[2].steps[0].bundle"; empty if nowhere.
std::string place_of_bundle(const KernelGraph& graph, std::string_view bundle);
// Of this launch of the graph's own steps, such as "steps[2].steps[0]"; empty if it is none of
// them.
std::string place_of_launch(const KernelGraph& graph, const Launch& launch);
// Of the file of a buffer, such as "buffers[1] ('w').file".
std::string place_of_file(const KernelGraph& graph, size_t buffer);

// INVALID_ARGUMENT for the first mistake, naming its place: kernels and bundles that are not there;
// arguments that do not fit the kernel's parameters in number or size; grids, blocks and shared
// memory that no device takes; offsets beyond a buffer or not aligned to its elements; writes to
// inputs and constants; reads of what was not written before; flags that are too small or that no
// step of their loop writes; outputs that are not written; buffers that are not used; loops without
// steps or rounds; more memory than limits::kGraphMemory; variants among other steps, in another
// order than that of their sizes, or of other sizes than the tensors of requests; in each variant
// what holds for a graph that has only its steps.
//
// A cycle cannot be written: steps run in the order in which they stand, so each depends only on
// earlier ones, and only a repeat leads back, to its own first step.
Result<void> validate(const KernelGraph& graph, const KernelLookup& kernels);

// The sizes of a package's files in bytes, by path.
using FileSizes = std::map<std::string, uint64_t, std::less<>>;
// INVALID_ARGUMENT for a constant whose file is not there or does not have exactly its size.
Result<void> validate_files(const KernelGraph& graph, const FileSizes& files);

}  // namespace lambent::kernel_graph
