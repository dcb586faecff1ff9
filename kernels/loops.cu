// What a loop with a flag has beside its steps when the device does it by itself: the value of its
// conditional node, set before its first round and after each. Launch with one thread.
#include <lambent/kernel.h>

// No round is done yet, and the flag is not set. `rounds` lies in the host's memory, beside the
// word that stops the loop: these two kernels alone use it, and no function's plan has a place for
// it.
extern "C" __global__ void loop_begin(cudaGraphConditionalHandle loop, unsigned* flag,
                                      volatile unsigned long long* rounds) {
  *flag = 0;
  *rounds = 0;
  cudaGraphSetConditional(loop, 1);
}

// Another round follows unless a step has set the flag, this was the last that may be, or the host
// has asked the loop to stop.
extern "C" __global__ void loop_end_round(cudaGraphConditionalHandle loop, const unsigned* flag,
                                          volatile unsigned long long* rounds,
                                          unsigned long long most,
                                          const volatile unsigned long long* stop) {
  const unsigned long long done = *rounds + 1;
  *rounds = done;
  cudaGraphSetConditional(loop, *flag == 0 && done < most && *stop == 0);
}

LAMBENT_KERNEL(loop_begin);
LAMBENT_KERNEL(loop_end_round);
