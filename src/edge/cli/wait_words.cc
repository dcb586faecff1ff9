#include "edge/cli/wait_words.h"

#include <utility>

namespace lambent::cli {

std::string_view wait_in_words(std::string_view wait_reason) {
  static constexpr std::pair<std::string_view, std::string_view> kWords[] = {
      {"own_queue", "behind others of its function"},
      {"concurrency_limit", "its function ran as many as it may at once"},
      {"throttled", "its function was ahead of the others' share"},
      {"behind_others", "other functions came first"},
      {"no_token", "every GPU ran as many as it may at once"},
      {"no_memory", "no GPU had the memory free beside other functions and executors"},
      {"no_sandbox", "the pool was full of sandboxes at work"},
      {"no_device", "no GPU was healthy"},
      {"memory_moving", "GPU memory was on its way"},
      {"own_pool", "its function's GPUs were at work, and no function had more"},
      {"pool_handover", "another function had to finish on the GPU that it was given"},
      {"at_work", "its sandboxes are at work, and a cold start is not worth it yet"},
      {"warm_elsewhere", "its sandbox is on a busy GPU, and a cold start would take longer"},
      {"slows_others", "beside those at work it would have slowed them more than it waited"},
      {"gpus_not_together", "as many GPUs as its function takes were not free at once"},
      {"gpu_reserved", "GPUs were kept for a function that takes several"},
      {"tenant_ahead", "its tenant was ahead of the other tenants' share"},
      {"tenant_concurrency", "its tenant ran as many as its quota allows"},
      {"tenant_gpu_memory", "its tenant had the GPU memory that its quota allows"},
      {"tenant_host_memory", "its tenant had the host memory that its quota allows"},
      {"tenant_gpu_time", "its tenant had used the GPU time that its quota allows in an hour"},
      {"draining", "the worker was about to stop"},
      {"no_slice", "no free slice held it"},
      {"slice_shared", "another function had its turn on the slice that both share"},
      {"start_paused", "a start failed, and was tried again after a pause"},
      {"starting", "its instance was started"},
      {"files_coming", "files that it mounts came from another node"},
      {"host_busy", "it runs on the host's processors, which run as many as they may"},
  };
  for (const auto& [reason, words] : kWords) {
    if (wait_reason == reason) return words;
  }
  return "";
}

}  // namespace lambent::cli
