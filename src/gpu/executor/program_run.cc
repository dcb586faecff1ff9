#include "gpu/executor/program_run.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "core/base/check.h"

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

ProgramRun::ProgramRun(SandboxId instance, LoadedInstance& loaded, Contents& contents,
                       LayeredMemory* layers, std::function<void(CUresult)> on_layer)
    : instance_(instance),
      loaded_(loaded),
      contents_(contents),
      layers_(layers),
      on_layer_(std::move(on_layer)) {}

void ProgramRun::begin(std::span<const CUdeviceptr> addresses, uint64_t variant) {
  addresses_ = addresses;
  variant_ = variant;
  for (uint32_t i = 0; i < loaded_.constants.size(); ++i) {
    if (!contents_.is_here(loaded_.constants[i].name)) coming_.push_back(i);
  }
  loaded_.program->bind(addresses);
}

Result<ProgramRun::Next> ProgramRun::advance() {
  awaits_ = Next::kDevice;
  while (!has_ended()) {
    ASSIGN_OR_RETURN(const bool goes_on, step());
    if (!goes_on) return awaits_;
  }
  queued_ = 0;
  return Next::kEnd;
}

bool ProgramRun::has_ended() const { return instruction_ == instructions().size(); }

bool ProgramRun::await(Next what) {
  awaits_ = what;
  if (what == Next::kDevice) queued_ = 0;
  return false;
}

// One instruction, or as much of it as may be queued.
Result<bool> ProgramRun::step() {
  const Instruction& now = instructions()[instruction_];
  switch (now.kind) {
    case Instruction::Kind::kLaunch: {
      ASSIGN_OR_RETURN(const bool all, launch(now));
      if (!all) return false;
      ++instruction_;
      break;
    }
    case Instruction::Kind::kLayer: {
      ASSIGN_OR_RETURN(const bool begun, begin_layer(now.graph));
      if (!begun) return false;
      ++instruction_;
      break;
    }
    case Instruction::Kind::kLoop:
      return launch_loop(now);
    case Instruction::Kind::kZeroFlag:
      RETURN_IF_ERROR(loaded_.stream().zero(addresses_[now.buffer], Bytes(4)));
      ++instruction_;
      break;
    case Instruction::Kind::kBegin:
      rounds_.push_back(now.times);
      ++instruction_;
      break;
    case Instruction::Kind::kCheck:
      reads_flag_ = true;
      RETURN_IF_ERROR(
          loaded_.stream().copy_to_host(loaded_.out->pointer(), addresses_[now.buffer], Bytes(4)));
      return await(Next::kDevice);
    case Instruction::Kind::kEnd:
      if (--rounds_.back() > 0) {
        instruction_ = now.target;
      } else {
        rounds_.pop_back();
        ++instruction_;
      }
      break;
    case Instruction::Kind::kVariant:
      instruction_ = now.times == variant_ ? instruction_ + 1 : now.target;
      break;
  }
  return true;
}

void ProgramRun::device_answered() {
  if (!std::exchange(reads_flag_, false)) return;
  uint32_t flag = 0;
  memcpy(&flag, loaded_.out->pointer(), sizeof(flag));
  if (flag != 0) {
    rounds_.pop_back();
    instruction_ = instructions()[instruction_].target;
  } else {
    ++instruction_;
  }
}

void ProgramRun::withdraw() {
  is_withdrawn_ = true;
  loaded_.program->stop_loops();
}

// Waits for the layer's memory if that is not there. Where it is, the layer is launched behind the
// one before, and on_layer reports the end of that one.
Result<bool> ProgramRun::begin_layer(uint32_t layer) {
  if (is_withdrawn_) return Error{ErrorCode::kUnavailable, "it was removed"};
  ASSIGN_OR_RETURN(const bool there, layers_->is_there(instance_, layer));
  if (!there) return await(Next::kLayer);
  const cuda::Stream& stream = loaded_.stream();
  if (layer > 0) {
    const auto on_answer = [](CUstream, CUresult result, void* run) {
      static_cast<ProgramRun*>(run)->on_layer_(result);
    };
    RETURN_IF_ERROR(stream.call_back(on_answer, this));
  }
  // The function must not see what others had there.
  auto foreign = layers_->begin_layer(instance_, layer);
  for (const PagePool::Run& run : foreign) RETURN_IF_ERROR(stream.zero(run.address, run.size));
  layers_->clean(instance_, std::move(foreign));
  return true;
}

// A warm run's graphs are launched as they are; a cold one's kernel by kernel, each as soon as its
// constants are on their way, so that loading and computing overlap.
Result<bool> ProgramRun::launch(const Instruction& now) {
  // A graph's kernels run in the context of their module, which is the whole device: a share is
  // that of the stream, where each is launched by itself.
  const bool has_share = loaded_.placement->partition.has_value();
  const bool is_cold = !coming_.empty() || kernel_ > 0;
  if (has_share || (is_cold && now.times == 1)) return launch_apart(now);
  if (is_cold) {
    // Launched again and again: from the first time on it needs all of them.
    ASSIGN_OR_RETURN(const bool here, await_constants_of(now.graph));
    if (!here) return false;
  }
  while (launched_ < now.times) {
    if (queued_ == kMostQueued) return await(Next::kDevice);
    ASSIGN_OR_RETURN(const bool launched,
                     loaded_.program->launch(now.graph, loaded_.stream().get(), loaded_.blas()));
    if (!launched) {
      has_launched_apart_ = true;
      return launch_apart(now);
    }
    ++launched_;
    ++queued_;
  }
  launched_ = 0;
  return true;
}

// Without graphs.
Result<bool> ProgramRun::launch_apart(const Instruction& now) {
  for (; launched_ < now.times; ++launched_) {
    ASSIGN_OR_RETURN(const bool all, launch_kernels(now));
    if (!all) return false;
  }
  launched_ = 0;
  return true;
}

// The device's loops, too, run in the context of their module: with a share, the instructions that
// follow do the loop kernel by kernel.
Result<bool> ProgramRun::launch_loop(const Instruction& now) {
  if (loaded_.placement->partition) {
    ++instruction_;
    return true;
  }
  ASSIGN_OR_RETURN(const bool here, await_constants_of(now.graph));
  if (!here) return false;
  if (queued_ == kMostQueued) return await(Next::kDevice);
  ASSIGN_OR_RETURN(const bool launched, loaded_.program->launch(now.graph, loaded_.stream().get()));
  CHECK(launched, "a loop of the device has no calls that could come out otherwise");
  ++queued_;
  instruction_ = now.target;
  return true;
}

// One by one. Made for one launch, graphs of the kernels between two constants would cost more than
// to launch these by themselves.
Result<bool> ProgramRun::launch_kernels(const Instruction& now) {
  const auto kernels = loaded_.program->kernels_of(now.graph);
  for (; kernels.begin + kernel_ < kernels.end; ++kernel_) {
    if (queued_ == kMostQueued) return await(Next::kDevice);
    const uint32_t kernel = kernels.begin + kernel_;
    ASSIGN_OR_RETURN(const bool here, await_constants(kernel));
    if (!here) return false;
    RETURN_IF_ERROR(loaded_.program->launch_kernel(kernel, loaded_.stream().get(), loaded_.blas()));
    ++queued_;
  }
  kernel_ = 0;
  return true;
}

Result<bool> ProgramRun::await_constants_of(uint32_t graph) {
  const auto kernels = loaded_.program->kernels_of(graph);
  for (uint32_t kernel = kernels.begin; kernel < kernels.end && !coming_.empty(); ++kernel) {
    ASSIGN_OR_RETURN(const bool here, await_constants(kernel));
    if (!here) return false;
  }
  return true;
}

// The stream waits for those of the kernel's constants that are on their way. If one is not, the
// run goes on when Contents reports progress.
Result<bool> ProgramRun::await_constants(uint32_t kernel) {
  const kernel_graph::Launch& launch = loaded_.program->launch_of(kernel);
  for (size_t i = 0; i < coming_.size();) {
    const Constant& constant = loaded_.constants[coming_[i]];
    if (!uses(launch, constant.buffer)) {
      ++i;
      continue;
    }
    ASSIGN_OR_RETURN(const auto content, contents_.look(constant, user_of(instance_)));
    if (!content.is_here && content.arrival == nullptr) return await(Next::kConstant);
    if (!content.is_here) RETURN_IF_ERROR(loaded_.stream().wait_for(*content.arrival));
    coming_.erase(coming_.begin() + static_cast<std::ptrdiff_t>(i));
  }
  return true;
}

}  // namespace lambent::executor
