// Program: a kernel function's graph as CUDA graphs, made once for an instance and launched for
// each of its requests, with what the host does between them. A resource of the thread that uses it
// at a time; the context is current there.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "core/base/result.h"
#include "decide/kernel_graph/graph.h"
#include "decide/kernel_graph/plan.h"
#include "gpu/cublas/handle.h"
#include "gpu/cuda/device.h"
#include "gpu/cuda/graph.h"
#include "gpu/cuda/stream.h"

namespace lambent::executor {

// Rounds of a repeat are written out in a CUDA graph up to so many kernels; longer ones launch the
// graph several times, which costs the host one call for all of its kernels.
constexpr uint64_t kMostNodes = 256;
// Of the device's memory, for each program with calls of cuBLAS: as much as NVIDIA suggests for
// GPUs before Hopper, where more (32 MiB) is for number formats that these calls do not have.
constexpr Bytes kCallWorkspace = Bytes::mib(4);
// When a buffer of a call moves, the call is captured again. Estimated: that takes as long as to
// change so many kernels.
constexpr size_t kUsesOfACall = 16;

struct Instruction {
  enum class Kind : uint8_t {
    kLaunch,    // graph `graph`, `times` times
    kLayer,     // layer `graph` begins: its memory has to be there
    kLoop,      // graph `graph` does all that is before `target` by itself; or else it is done
    kZeroFlag,  // the first 32 bits of `buffer`
    kBegin,     // a loop of at most `times` rounds
    kCheck,     // leaves the loop, for `target`, if the flag in `buffer` is set
    kEnd,       // of a round: goes back to `target` if rounds are left
    kVariant,   // goes on at `target` in requests that run another variant than that of `times`
  };
  Kind kind = Kind::kLaunch;
  uint32_t graph = 0;
  uint64_t times = 1;
  uint32_t buffer = 0;
  uint32_t target = 0;
};

class Program {
 public:
  using KernelOf = std::function<Result<CUfunction>(const kernel_graph::Launch&)>;
  enum class Loops : uint8_t {
    kOfHost,    // it reads a loop's flag after each round
    kOfDevice,  // conditional nodes, where the driver has them; `kernel_of` knows those of
                // kLoopBundle
  };

  // `graph` is valid, and stays as long as the program; no buffer has an address yet. With `blas`,
  // which is used here and not kept, launches of kBlasBundle become calls of cuBLAS where it has
  // them; in loops of the device they stay kernels. `layers` are the steps, ascending, at which
  // layers begin: no graph reaches across, and an instruction stands there.
  static Result<std::unique_ptr<Program>> compile(
      const cuda::Driver& driver, const kernel_graph::KernelGraph& graph,
      const kernel_graph::StepOrder& order, const KernelOf& kernel_of, Loops loops = Loops::kOfHost,
      cublas::Handle* blas = nullptr, std::span<const uint32_t> layers = {});

  const std::vector<Instruction>& instructions() const { return instructions_; }
  // Why loops that could have been the device's are the host's.
  const std::optional<Error>& no_device_loops() const { return no_device_loops_; }
  // How many launches are calls of cuBLAS, and why some that could have been are not.
  size_t calls() const { return calls_; }
  const std::optional<Error>& no_calls() const { return no_calls_; }
  // Why a graph's kernels have to be launched one by one, the last time that this was found out.
  const std::optional<Error>& why_apart() const { return why_apart_; }

  // Where each buffer lies from the next launch on.
  void bind(std::span<const CUdeviceptr> addresses);
  // How many kernels have to be changed when the buffer moves.
  size_t uses(uint32_t buffer) const { return uses_[buffer]; }

  // Changes those kernels and calls of the graph first of which a buffer has moved. False if it was
  // not launched, and never will be: a call has come out in another shape, and its kernels have to
  // be launched one by one. `blas` is there if the program has calls.
  Result<bool> launch(uint32_t graph, CUstream stream, cublas::Handle* blas = nullptr);

  // Loops of the device end with the round that they are in, now and from now on. Any thread.
  void stop_loops();

  // The kernels of a graph, in an order in which they can run one after the other.
  struct Kernels {
    uint32_t begin = 0, end = 0;
  };
  Kernels kernels_of(uint32_t graph) const { return parts_[graph].kernels; }
  const kernel_graph::Launch& launch_of(uint32_t kernel) const { return *nodes_[kernel].launch; }
  // Launches one by itself; a call as such, with a handle of the stream's context, or else our own
  // kernel.
  Result<void> launch_kernel(uint32_t kernel, CUstream stream, cublas::Handle* blas = nullptr);
  size_t node_count() const { return nodes_.size(); }

 private:
  struct Node {
    CUgraphNode node = nullptr;
    const kernel_graph::Launch* launch = nullptr;
    CUfunction function = nullptr;
    uint32_t graph = 0;
    std::optional<cublas::Call> call = std::nullopt;  // then `node` is a graph with what it does
    bool is_stale = false;                            // a buffer has moved since it was changed
  };
  struct Part {
    cuda::Graph graph;
    std::unique_ptr<cuda::ExecutableGraph> exec;
    Kernels kernels;
    bool is_loop = false;
    std::vector<uint32_t> stale;  // of its kernels
    bool is_apart = false;        // its kernels are launched one by one
  };
  struct Compiler;

  Program(const cuda::Driver& driver, size_t buffers)
      : driver_(driver), nodes_of_(buffers), uses_(buffers, 0), addresses_(buffers, 0) {}

  Result<void> change_stale(Part& part, cublas::Handle* blas);
  Result<void> change_call(Part& part, const Node& node, cublas::Handle* blas);
  cublas::Operands operands_of(const Node& node) const;
  cublas::Workspace workspace() const { return {workspace_->pointer(), workspace_->size()}; }
  // The node's kernel with the buffers where they are, until the next call.
  cuda::KernelNode kernel_of(const kernel_graph::Launch& launch, CUfunction function);

  const cuda::Driver& driver_;
  std::vector<Part> parts_;
  std::vector<Node> nodes_;
  std::vector<std::vector<uint32_t>> nodes_of_;  // by buffer
  std::vector<size_t> uses_;                     // by buffer; those of kLoop not counted again
  std::vector<CUdeviceptr> addresses_;           // by buffer
  std::vector<Instruction> instructions_;
  // What kernels of loops read and write beside buffers: a word that is not zero when loops are to
  // stop, and for each loop the rounds that it has done. The device reaches it by itself.
  std::optional<cuda::PinnedBuffer> loop_words_;
  std::deque<kernel_graph::Launch> loop_launches_;
  std::optional<Error> no_device_loops_;
  // Of all calls, one of which is under way at a time.
  std::optional<cuda::DeviceBuffer> workspace_;
  size_t calls_ = 0;
  std::optional<Error> no_calls_, why_apart_;
  // Of the kernel that is being described.
  std::vector<CUdeviceptr> values_;
  std::vector<void*> pointers_;
};

}  // namespace lambent::executor
