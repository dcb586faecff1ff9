#include "gpu/executor/program.h"

#include <utility>

#include "core/base/check.h"

namespace lambent::executor {

using kernel_graph::BufferArgument;
using kernel_graph::Launch;
using kernel_graph::LiteralArgument;

cuda::KernelNode Program::kernel_of(const Launch& launch, CUfunction function) {
  values_.clear();
  values_.reserve(launch.arguments.size());
  pointers_.clear();
  for (const auto& argument : launch.arguments) {
    if (const auto* buffer = std::get_if<BufferArgument>(&argument)) {
      values_.push_back(addresses_[buffer->buffer] + buffer->offset_bytes);
      pointers_.push_back(&values_.back());
    } else {
      const std::string& bytes = std::get<LiteralArgument>(argument).bytes;
      pointers_.push_back(const_cast<char*>(bytes.data()));
    }
  }
  cuda::KernelNode node;
  node.function = function;
  node.grid = {launch.grid.x, launch.grid.y, launch.grid.z};
  node.block = {launch.block.x, launch.block.y, launch.block.z};
  node.shared_bytes = launch.shared_bytes;
  node.parameters = pointers_;
  return node;
}

void Program::bind(std::span<const CUdeviceptr> addresses) {
  CHECK(addresses.size() == addresses_.size(), "an address for each buffer");
  for (size_t i = 0; i < addresses.size(); ++i) {
    if (addresses_[i] == addresses[i]) continue;
    addresses_[i] = addresses[i];
    for (const uint32_t number : nodes_of_[i]) {
      Node& node = nodes_[number];
      if (!std::exchange(node.is_stale, true)) parts_[node.graph].stale.push_back(number);
    }
  }
}

cublas::Operands Program::operands_of(const Node& node) const {
  const auto address = [&](uint8_t argument) {
    const auto* buffer = std::get_if<BufferArgument>(&node.launch->arguments[argument]);
    return buffer != nullptr ? addresses_[buffer->buffer] + buffer->offset_bytes : 0;
  };
  const cublas::Call& call = *node.call;
  return {address(call.argument_a), address(call.argument_b), address(call.argument_c)};
}

Result<void> Program::change_call(Part& part, const Node& node, cublas::Handle* blas) {
  if (blas == nullptr) return Error{ErrorCode::kUnavailable, "there is no handle of cuBLAS"};
  ASSIGN_OR_RETURN(const auto captured, blas->capture(*node.call, operands_of(node), workspace()));
  return part.exec->change_child(node.node, captured);
}

// Single kernels of an executable graph are changed one by one; of those in the body of a loop the
// driver only promises that an update of the whole graph reaches them.
Result<void> Program::change_stale(Part& part, cublas::Handle* blas) {
  for (const uint32_t number : part.stale) {
    const Node& node = nodes_[number];
    if (node.call) {
      const auto changed = change_call(part, node, blas);
      if (changed.ok()) continue;
      // If the driver is broken, that shows in the launches that follow.
      part.is_apart = true;
      why_apart_ = changed.error();
      return {};
    }
    const cuda::KernelNode kernel = kernel_of(*node.launch, node.function);
    RETURN_IF_ERROR(part.is_loop ? part.graph.change_kernel(node.node, kernel)
                                 : part.exec->change_kernel(node.node, kernel));
  }
  if (part.is_loop) RETURN_IF_ERROR(part.exec->update(part.graph));
  for (const uint32_t number : part.stale) nodes_[number].is_stale = false;
  part.stale.clear();
  return {};
}

Result<bool> Program::launch(uint32_t graph, CUstream stream, cublas::Handle* blas) {
  Part& part = parts_[graph];
  if (!part.is_apart && !part.stale.empty()) RETURN_IF_ERROR(change_stale(part, blas));
  if (part.is_apart) return false;
  RETURN_IF_ERROR(part.exec->launch(stream));
  return true;
}

void Program::stop_loops() {
  if (!loop_words_) return;
  __atomic_store_n(static_cast<uint64_t*>(loop_words_->pointer()), 1, __ATOMIC_RELEASE);
}

Result<void> Program::launch_kernel(uint32_t kernel, CUstream stream, cublas::Handle* blas) {
  const Node& node = nodes_[kernel];
  if (node.call && blas != nullptr) {
    auto ran = blas->run(*node.call, operands_of(node), workspace(), stream);
    if (ran.ok() || ran.error().code != ErrorCode::kUnimplemented) return ran;
  }
  return cuda::launch(driver_, kernel_of(*node.launch, node.function), stream);
}

}  // namespace lambent::executor
