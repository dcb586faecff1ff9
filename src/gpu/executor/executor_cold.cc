// The executor's launches: a warm request's graphs as they are; a cold one's kernel by kernel, each
// as soon as its constants are on their way, so that loading and computing overlap.
#include <algorithm>
#include <cstdio>
#include <utility>

#include "core/base/check.h"
#include "gpu/executor/executor.h"

namespace lambent::executor {
namespace {

// Launches that are queued before the host waits for the device: a driver's queue is not endless,
// and the loop thread must not wait at its end.
constexpr uint64_t kMostQueued = 64;

bool uses(const kernel_graph::Launch& launch, uint32_t buffer) {
  return std::any_of(launch.arguments.begin(), launch.arguments.end(), [&](const auto& argument) {
    const auto* used = std::get_if<kernel_graph::BufferArgument>(&argument);
    return used != nullptr && used->buffer == buffer;
  });
}

}  // namespace

void Executor::note_coming(Instance& instance) {
  const auto& constants = instance.loaded->constants;
  for (uint32_t i = 0; i < constants.size(); ++i) {
    if (!store_->find(constants[i].name)->filled) instance.request->coming.push_back(i);
  }
}

// False if the device, or a constant, has to come first.
Result<bool> Executor::launch(Instance& instance, const Instruction& now) {
  RequestUnderWay& request = *instance.request;
  // A graph's kernels run in the context of their module, which is the whole device: a share is
  // that of the stream, where each is launched by itself.
  const bool has_share = instance.loaded->placement->partition.has_value();
  const bool is_cold = !request.coming.empty() || request.kernel > 0;
  if (has_share || (is_cold && now.times == 1)) return launch_apart(instance, now);
  if (is_cold) {
    // Launched again and again: from the first time on it needs all of them.
    ASSIGN_OR_RETURN(const bool here, await_constants_of(instance, now.graph));
    if (!here) return false;
  }
  while (request.launched < now.times) {
    if (request.queued == kMostQueued) {
      RETURN_IF_ERROR(call_back(instance));
      return false;
    }
    ASSIGN_OR_RETURN(const bool launched,
                     instance.loaded->program->launch(now.graph, instance.loaded->stream().get(),
                                                      instance.loaded->blas()));
    if (!launched) {
      tell_of_apart(instance);
      return launch_apart(instance, now);
    }
    ++request.launched;
    ++request.queued;
  }
  request.launched = 0;
  return true;
}

void Executor::tell_of_apart(const Instance& instance) {
  if (std::exchange(has_told_of_apart_, true)) return;
  std::fprintf(stderr, "lambent-executor: calls of cuBLAS are not launched as graphs: %s\n",
               to_string(*instance.loaded->program->why_apart()).c_str());
}

// Without graphs.
Result<bool> Executor::launch_apart(Instance& instance, const Instruction& now) {
  RequestUnderWay& request = *instance.request;
  for (; request.launched < now.times; ++request.launched) {
    ASSIGN_OR_RETURN(const bool all, launch_kernels(instance, now));
    if (!all) return false;
  }
  request.launched = 0;
  return true;
}

// The device's loops, too, run in the context of their module: with a share, the instructions that
// follow do the loop kernel by kernel.
Result<bool> Executor::launch_loop(Instance& instance, const Instruction& now) {
  RequestUnderWay& request = *instance.request;
  if (instance.loaded->placement->partition) {
    ++request.instruction;
    return true;
  }
  ASSIGN_OR_RETURN(const bool here, await_constants_of(instance, now.graph));
  if (!here) return false;
  if (request.queued == kMostQueued) {
    RETURN_IF_ERROR(call_back(instance));
    return false;
  }
  ASSIGN_OR_RETURN(const bool launched,
                   instance.loaded->program->launch(now.graph, instance.loaded->stream().get()));
  CHECK(launched, "a loop of the device has no calls that could come out otherwise");
  ++request.queued;
  request.instruction = now.target;
  return true;
}

// One by one. Made for one launch, graphs of the kernels between two constants would cost more than
// to launch these by themselves.
Result<bool> Executor::launch_kernels(Instance& instance, const Instruction& now) {
  RequestUnderWay& request = *instance.request;
  Program& program = *instance.loaded->program;
  const auto kernels = program.kernels_of(now.graph);
  for (; kernels.begin + request.kernel < kernels.end; ++request.kernel) {
    if (request.queued == kMostQueued) {
      RETURN_IF_ERROR(call_back(instance));
      return false;
    }
    const uint32_t kernel = kernels.begin + request.kernel;
    ASSIGN_OR_RETURN(const bool here, await_constants(instance, kernel));
    if (!here) return false;
    RETURN_IF_ERROR(
        program.launch_kernel(kernel, instance.loaded->stream().get(), instance.loaded->blas()));
    ++request.queued;
  }
  request.kernel = 0;
  return true;
}

Result<bool> Executor::await_constants_of(Instance& instance, uint32_t graph) {
  const auto kernels = instance.loaded->program->kernels_of(graph);
  for (uint32_t kernel = kernels.begin; kernel < kernels.end && !instance.request->coming.empty();
       ++kernel) {
    ASSIGN_OR_RETURN(const bool here, await_constants(instance, kernel));
    if (!here) return false;
  }
  return true;
}

// The stream waits for those of the kernel's constants that are on their way. False if one is not:
// progress will be told.
Result<bool> Executor::await_constants(Instance& instance, uint32_t kernel) {
  RequestUnderWay& request = *instance.request;
  const kernel_graph::Launch& launch = instance.loaded->program->launch_of(kernel);
  request.awaits_constant = false;
  for (size_t i = 0; i < request.coming.size();) {
    const Constant& constant = instance.loaded->constants[request.coming[i]];
    if (!uses(launch, constant.buffer)) {
      ++i;
      continue;
    }
    ASSIGN_OR_RETURN(const auto content, contents_->look(constant, user_of(instance.id)));
    request.awaits_constant = !content.is_here && content.arrival == nullptr;
    if (request.awaits_constant) return false;
    if (!content.is_here) RETURN_IF_ERROR(instance.loaded->stream().wait_for(*content.arrival));
    request.coming.erase(request.coming.begin() + static_cast<std::ptrdiff_t>(i));
  }
  return true;
}

}  // namespace lambent::executor
