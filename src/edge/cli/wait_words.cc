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
