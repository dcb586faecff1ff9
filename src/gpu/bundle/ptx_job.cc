#include "gpu/bundle/ptx_job.h"

#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <vector>

#include "core/base/fd.h"
#include "gpu/bundle/ptx_program.h"
#include "gpu/cuda_abi/ptx_job.h"

namespace lambent::bundle {
namespace {

constexpr unsigned kMostOptimisation = 3;

// Compilers, and what they start, are in the group that the driver has made for this process.
void end_group(int) {
  if (getpgrp() == getpid()) kill(0, SIGKILL);
  _exit(1);
}

// The driver's process may be killed, or be stopped from a terminal, and then nothing waits for the
// code.
void end_with_reader() {
  struct sigaction ending {};
  ending.sa_handler = end_group;
  sigaction(SIGTERM, &ending, nullptr);
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  pollfd reader = {STDOUT_FILENO, 0, 0};
  if (poll(&reader, 1, 0) > 0 && (reader.revents & POLLERR) != 0) end_group(0);  // it has ended
}

}  // namespace

Result<void> run_ptx_job(const PtxJob& job) {
  end_with_reader();
  HostCompilation compilation;
  compilation.limits.wall_time = seconds(cuda_abi::kPtxJobMost_s);
  compilation.limits.end = SystemClock().now() + compilation.limits.wall_time;
  compilation.limits.in_own_group = false;
  // The translation is this process; each compiler gets limits of its own.
  bound_this_process(compilation.limits);
  // What the program had open is none of a compiler's business.
  syscall(SYS_close_range, 3u, ~0u, 0u);
  std::vector<std::string> modules;
  size_t bytes = 0;
  std::error_code none;
  for (;;) {
    const std::string file = job.folder + "/" + cuda_abi::ptx_job_input(modules.size());
    if (!modules.empty() && !std::filesystem::exists(file, none)) break;
    ASSIGN_OR_RETURN(modules.emplace_back(), read_file(file, cuda_abi::kMostPtxBytes));
    bytes += modules.back().size();
    if (bytes > cuda_abi::kMostPtxBytes) {
      return Error{ErrorCode::kResourceExhausted, "the PTX is too large for host kernels"};
    }
  }
  compilation.include_folder = job.include_folder;
  compilation.scratch_folder = job.folder;
  compilation.output = job.folder + "/" + cuda_abi::kPtxJobOutput;
  compilation.compiler = job.compiler;
  const std::string optimisation =
      "-O" + std::to_string(std::min(job.optimisation, kMostOptimisation));
  RETURN_IF_ERROR(compile_ptx(modules, compilation, optimisation));
  return {};
}

std::string answer_of(const Result<void>& outcome) {
  using cuda_abi::PtxJobOutcome;
  const auto outcome_of = [](ErrorCode code) {
    switch (code) {
      case ErrorCode::kInvalidArgument:
        return PtxJobOutcome::kInvalid;
      case ErrorCode::kUnimplemented:
        return PtxJobOutcome::kUnsupported;
      case ErrorCode::kUnavailable:
        return PtxJobOutcome::kNoCompiler;
      case ErrorCode::kDeadlineExceeded:
      case ErrorCode::kResourceExhausted:
      case ErrorCode::kStorageFull:
        return PtxJobOutcome::kTooMuch;
      default:
        return PtxJobOutcome::kFailed;
    }
  };
  return std::string(cuda_abi::kPtxJobAnswer) +
         cuda_abi::name_of(outcome.ok() ? PtxJobOutcome::kMade : outcome_of(outcome.error().code)) +
         "\n" + (outcome.ok() ? "" : outcome.error().message);
}

}  // namespace lambent::bundle
