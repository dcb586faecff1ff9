#include "emulator/emulated_cuda/kernel_guard.h"

#include <setjmp.h>
#include <signal.h>
#include <sys/mman.h>

#include <cstdlib>
#include <mutex>

namespace lambent::emulated_cuda {

namespace {

constexpr int kFaults[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};
constexpr size_t kSignalStackBytes = 64 * 1024;

struct Guard {
  sigjmp_buf back;
  CUresult error;
};
// Of the call under way. Read in handlers, on any thread: its place must not have to be allocated.
thread_local Guard* t_guard __attribute__((tls_model("initial-exec"))) = nullptr;

struct sigaction g_before[NSIG];  // the program's own handlers

CUresult error_of(int signal) {
  switch (signal) {
    case SIGSEGV:
    case SIGBUS:
      return CUDA_ERROR_ILLEGAL_ADDRESS;
    case SIGABRT:  // a failed assertion
      return CUDA_ERROR_ASSERT;
    default:
      return CUDA_ERROR_LAUNCH_FAILED;
  }
}

// Whatever does not come from a kernel goes where it would have gone without us.
void pass_on(int signal, siginfo_t* info, void* machine) {
  const struct sigaction& before = g_before[signal];
  if (before.sa_flags & SA_SIGINFO) {
    before.sa_sigaction(signal, info, machine);
  } else if (before.sa_handler == SIG_DFL) {
    // The instruction is repeated, or the signal sent again, and has its default effect.
    ::signal(signal, SIG_DFL);
    if (info->si_code <= 0) raise(signal);
  } else if (before.sa_handler != SIG_IGN) {
    before.sa_handler(signal);
  }
}

void on_fault(int signal, siginfo_t* info, void* machine) {
  if (!t_guard) return pass_on(signal, info, machine);
  abandon_guarded_call(error_of(signal));
}

void install_handlers() {
  struct sigaction ours {};
  ours.sa_sigaction = on_fault;
  ours.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
  sigemptyset(&ours.sa_mask);
  for (int signal : kFaults) sigaction(signal, &ours, &g_before[signal]);
}

}  // namespace

void prepare_thread_for_kernels() {
  static std::once_flag once;
  std::call_once(once, install_handlers);
  stack_t stack{};
  stack.ss_sp =
      mmap(nullptr, kSignalStackBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  stack.ss_size = kSignalStackBytes;
  if (stack.ss_sp != MAP_FAILED) sigaltstack(&stack, nullptr);
  sigset_t faults;
  sigemptyset(&faults);
  for (int signal : kFaults) sigaddset(&faults, signal);
  pthread_sigmask(SIG_UNBLOCK, &faults, nullptr);
}

CUresult run_guarded(void (*body)(void*), void* argument) {
  Guard guard;
  guard.error = CUDA_SUCCESS;
  if (sigsetjmp(guard.back, 0) == 0) {
    t_guard = &guard;
    body(argument);
  }
  t_guard = nullptr;
  return guard.error;
}

void abandon_guarded_call(CUresult error) {
  Guard* guard = t_guard;
  if (!guard) std::abort();
  t_guard = nullptr;
  guard->error = error;
  siglongjmp(guard->back, 1);
}

}  // namespace lambent::emulated_cuda
