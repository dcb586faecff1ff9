// InstanceLoader: makes a function ready to run: its files become kernels that are loaded, a graph
// that is checked, and CUDA graphs. Slow; of the one thread that loads instances.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/base/fd.h"
#include "decide/kernel_graph/layers.h"
#include "decide/kernel_graph/plan.h"
#include "decide/kernel_graph/request.h"
#include "decide/kernel_graph/validation.h"
#include "gpu/cuda/stream.h"
#include "gpu/executor/blas.h"
#include "gpu/executor/constant_files.h"
#include "gpu/executor/device_store.h"
#include "gpu/executor/kernel_cache.h"
#include "gpu/executor/page_pool.h"
#include "gpu/executor/program.h"

namespace lambent::executor {

// Inputs and outputs up to this go through page-locked memory of the instance's own, copied by the
// loop thread; larger ones are copied by another thread.
constexpr Bytes kInlineCopy = Bytes::kib(256);
constexpr Bytes kFlagBytes = Bytes(64);

// A buffer's content that is the same for every request.
struct Constant {
  uint32_t buffer = 0;
  Bytes size;
  DeviceName name;
  std::shared_ptr<OwnedFd> file;  // where it comes from, shared by all; null if it has a fill
  std::string pattern;            // what it is filled with
};

// Where a function's kernels run: on all of the device, or on some groups of multiprocessors.
struct Placement {
  std::optional<cuda::GreenContext> partition;  // none: on all
  std::unique_ptr<cuda::Stream> stream;
  std::unique_ptr<cublas::Handle> blas;  // of the partition, if there is cuBLAS and it is needed
};

// A function that can run. What the members say holds until it goes.
struct LoadedInstance {
  explicit LoadedInstance(kernel_graph::KernelGraph the_graph)
      : graph(std::move(the_graph)),
        order(kernel_graph::order_of(graph.steps)),
        plan(kernel_graph::plan_memory(graph, order)),
        codec(graph) {}

  const kernel_graph::KernelGraph graph;
  const kernel_graph::StepOrder order;
  const kernel_graph::MemoryPlan plan;
  const kernel_graph::RequestCodec codec;
  std::vector<std::shared_ptr<const LoadedBundle>> bundles;  // shared with other instances
  std::vector<Constant> constants;                           // in the order of their first use
  // Where temporaries come and go while a request runs: their layers, and the address of their
  // window.
  std::optional<kernel_graph::LayerPlan> layers;
  CUdeviceptr window = 0;
  bool has_layers() const { return layers.has_value(); }
  // Counted by the pages' own pool, not by that of all the rest.
  Bytes window_size() const { return layers ? layers->page * layers->pages : Bytes(0); }
  // For inputs, and for the flag of loops (kFlagBytes) with outputs behind it.
  std::optional<cuda::PinnedBuffer> in, out;
  std::unique_ptr<Placement> placement;
  cuda::Stream& stream() const { return *placement->stream; }
  // Of the executor; null: launches of built-in linear algebra are kernels of ours.
  cublas::Handle* shared_blas = nullptr;
  // With which the loop thread launches, on stream().
  cublas::Handle* blas() const {
    return placement->partition ? placement->blas.get() : shared_blas;
  }
  std::unique_ptr<Program> program;  // last: it goes before its bundles
};

class InstanceLoader {
 public:
  struct Options {
    // They outlive the loader; null: all kernels run on all of them.
    const cuda::Multiprocessors* multiprocessors = nullptr;
    // Loops with a flag are the device's, if the package comes with kernel_graph::kLoopBundle.
    bool device_loops = true;
    // See Blas.
    std::vector<std::string> blas_libraries = {};
    // It outlives the loader; null: temporaries stay as long as a request runs.
    PagePool* pages = nullptr;
  };
  // `capability` is the device's compute capability.
  InstanceLoader(const cuda::Driver& driver, int ordinal, std::pair<int, int> capability,
                 Options options)
      : driver_(driver),
        ordinal_(ordinal),
        multiprocessors_(options.multiprocessors),
        device_loops_(options.device_loops),
        pages_(options.pages),
        blas_(driver, std::move(options.blas_libraries)),
        kernels_(driver, capability) {}

  struct Order {
    SandboxId instance;
    std::string graph;  // which of the files is the graph
    // Those of bundles lie below what the graph calls their bundle: built-in ones come too.
    std::vector<std::string> names;
    std::vector<OwnedFd> files;
    Bytes memory;
    bool modelled = false;
    std::vector<uint32_t> groups;  // of multiprocessors; none: all
  };
  // INVALID_ARGUMENT with the place in the graph, NOT_FOUND for files and bundles that are not
  // there, DATA_LOSS for a damaged bundle, RESOURCE_EXHAUSTED if it needs more than its memory.
  Result<std::unique_ptr<LoadedInstance>> load(Order order);

  // On these groups of multiprocessors; none: on all. With a handle of cuBLAS if it has calls of it
  // and needs one of its own.
  Result<std::unique_ptr<Placement>> place(std::span<const uint32_t> groups, bool has_calls);

 private:
  Result<std::shared_ptr<const LoadedBundle>> load_bundle(const std::string& name,
                                                          const Order& order);
  Result<void> make_program(LoadedInstance& instance, std::vector<std::string> names,
                            const Order& order);
  Result<std::vector<Constant>> take_constants(const kernel_graph::KernelGraph& graph,
                                               const kernel_graph::MemoryPlan& plan, Order& order);

  const cuda::Driver& driver_;
  const int ordinal_;
  const cuda::Multiprocessors* const multiprocessors_;
  const bool device_loops_;
  PagePool* const pages_;
  bool has_told_of_loops_ = false, has_told_of_calls_ = false;
  Blas blas_;
  KernelCache kernels_;
  ConstantFiles constant_files_;
};

}  // namespace lambent::executor
