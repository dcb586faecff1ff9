#include "emulator/emulated_cuda/kernel_launch.h"

#include <algorithm>

#include "emulator/emulated_cuda/occupancy.h"
#include "emulator/emulated_cuda/process.h"

namespace lambent::emulated_cuda {

namespace {

constexpr int64_t kLongestSleep_ns = 20'000'000;  // between looks at who else is still alive
constexpr int64_t kShortestSleep_ns = 20'000;
constexpr int64_t kFullTableSleep_ns = 1'000'000;

KernelDemand demand_of(Process& process, const Context& context, const KernelLaunch& whole,
                       void** parameters, int64_t begin_ns) {
  const emulated_kernel& kernel = *whole.function->kernel;
  const emulated_launch& launch = whole.shape;
  const DeviceSpec& spec = process.spec(context.device);
  uint64_t blocks = uint64_t{launch.grid.x} * launch.grid.y * launch.grid.z;
  uint64_t threads = uint64_t{launch.block.x} * launch.block.y * launch.block.z;
  uint64_t resident = static_cast<uint64_t>(
      resident_blocks(spec, kernel, static_cast<int>(threads), launch.dynamic_shared_bytes));
  uint64_t wanted = std::min<uint64_t>((blocks + resident - 1) / resident,
                                       static_cast<uint64_t>(spec.multiprocessors));
  uint64_t per_wave = resident * spec.multiprocessors;
  KernelDemand demand{};
  demand.priority = whole.priority;
  confine(process, context, &demand);
  demand.process = process.row;
  demand.multiprocessors = static_cast<uint32_t>(wanted);
  demand.duration_ns =
      kernel.duration_ns ? static_cast<int64_t>(std::min<uint64_t>(
                               kernel.duration_ns(&launch, parameters), uint64_t{1} << 60))
                         : static_cast<int64_t>((blocks + per_wave - 1) / per_wave) * spec.wave_ns;
  demand.begin_ns = begin_ns;
  demand.sequence = whole.sequence;
  demand.priority = whole.priority;
  demand.held = !process.settings.model_mode;
  return demand;
}

// A kernel that begins on a stuck device would take this long.
constexpr int64_t kNever_ns = int64_t{1} << 60;

uint64_t enter_model(Process& process, int device, KernelDemand demand) {
  for (;;) {
    {
      Node::Guard guard(*process.node);
      guard.reap(false);
      if (guard->devices[device_of_partition(device)].health.stuck) demand.duration_ns = kNever_ns;
      if (uint64_t ticket = start(guard.model(device), demand)) {
        ThreadClock::release();  // the model knows what comes
        return ticket;
      }
      guard.reap(true);
      ThreadClock::release();
    }
    process.node->sleep_until(INT64_MAX / 4, kFullTableSleep_ns);
  }
}

// Waits for the kernel's modelled end. Others may join or die meanwhile, so the prediction is asked
// again after every sleep.
int64_t leave_model(Process& process, const Context& context, uint64_t ticket) {
  int device = context.device;
  const auto shortest_sleep_ns =
      static_cast<int64_t>(kShortestSleep_ns * process.node->spec().time_scale);
  {
    Node::Guard guard(*process.node);
    release_hold(guard.model(device), ticket);
  }
  for (;;) {
    int64_t predicted_ns;
    {
      Node::Guard guard(*process.node);
      DeviceModel& model = guard.model(device);
      if (active_kernels(model) > 1) guard.reap(false);
      int64_t finish_ns = finished_at(model, ticket);
      if (process.health_of(context)) finish_ns = guard.now_ns();  // its device is gone
      if (finish_ns >= 0) {
        ThreadClock::hold(finish_ns);  // before the model goes on
        remove(model, ticket);
        return finish_ns;
      }
      predicted_ns = predicted_finish(model, ticket);
      // The model may stand still for another thread.
      predicted_ns = std::max(predicted_ns, guard.now_ns() + shortest_sleep_ns);
    }
    process.node->sleep_until(predicted_ns, kLongestSleep_ns);
  }
}

}  // namespace

CUresult check_launch(const Process& process, const Context& context, const Function& function,
                      const emulated_launch& launch) {
  const DeviceSpec& spec = process.spec(context.device);
  if (CUresult result = check_shape(*function.kernel, launch)) return result;
  const emulated_dim3& block = launch.block;
  const auto threads = static_cast<int>(block.x * block.y * block.z);
  if (launch.dynamic_shared_bytes > static_cast<uint32_t>(function.max_dynamic_shared_bytes)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (resident_blocks(spec, *function.kernel, threads, launch.dynamic_shared_bytes) == 0) {
    return CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES;
  }
  return CUDA_SUCCESS;
}

CUresult check_cooperative(const Process& process, const Context& context, const Function& function,
                           const emulated_launch& shape) {
  const DeviceSpec& spec = process.spec(context.device);
  uint64_t blocks = uint64_t{shape.grid.x} * shape.grid.y * shape.grid.z;
  auto threads = static_cast<int>(shape.block.x * shape.block.y * shape.block.z);
  uint64_t resident = static_cast<uint64_t>(
      resident_blocks(spec, *function.kernel, threads, shape.dynamic_shared_bytes));
  if (blocks > resident * static_cast<uint64_t>(spec.multiprocessors)) {
    return CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE;
  }
  if (blocks <= kMostCooperativeBlocks) return CUDA_SUCCESS;
  log_refusal("cooperative launch", "more blocks than threads that the driver gives them");
  return CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE;
}

namespace {

// The kernel failed: its context is of no more use, as on a GPU.
void note_failure(Context& context, const Function& function, CUresult result) {
  const char* what = result == CUDA_ERROR_ILLEGAL_ADDRESS ? "touched memory that is not there"
                     : result == CUDA_ERROR_ASSERT        ? "failed an assertion"
                                                          : "failed";
  log_refusal(("kernel " + function.name).c_str(), what);
  context.fail(result);
}

CUresult run_body(Process& process, Context& context, const KernelLaunch& launch,
                  void** parameters) {
  const emulated_kernel& kernel = *launch.function->kernel;
  if (!launch.cooperative) return process.blocks.run(kernel, launch.shape, parameters);
  if (CUresult result = check_cooperative(process, context, *launch.function, launch.shape)) {
    return result;  // a graph's node, which could not be checked before
  }
  return process.blocks.run_cooperative(kernel, launch.shape, parameters);
}

}  // namespace

int64_t perform(Process& process, Context& context, const KernelLaunch& launch, int64_t begin_ns) {
  void** parameters = const_cast<void**>(launch.parameters->pointers.data());
  begin_ns = std::max(begin_ns, launch.ready_ns);
  if (process.health_of(context)) return begin_ns;
  begin_ns = process.managed.before_kernel(context, launch, begin_ns);
  KernelDemand demand = demand_of(process, context, launch, parameters, begin_ns);
  uint64_t ticket = enter_model(process, context.device, demand);
  int64_t body_end_ns = 0;
  if (!process.settings.model_mode) {
    if (CUresult result = run_body(process, context, launch, parameters)) {
      note_failure(context, *launch.function, result);
    }
    body_end_ns = process.node->now_ns();
  }
  return std::max(leave_model(process, context, ticket), body_end_ns);
}

}  // namespace lambent::emulated_cuda
