#include "scheduling/make_policy.h"

#include <array>
#include <string>

#include "scheduling/fcfs.h"

namespace lambent::scheduling {
namespace {

constexpr std::array<std::string_view, 2> kNames = {"fcfs", "fcfs-naive"};

}  // namespace

std::span<const std::string_view> policy_names() { return kNames; }

Result<std::unique_ptr<Policy>> make_policy(std::string_view name, const PolicyOptions& options) {
  const FcfsOptions fcfs{.moves_off_after_run = options.fcfs_moves_off_after_run};
  if (name == "fcfs") return std::unique_ptr<Policy>(std::make_unique<FcfsPolicy>(fcfs));
  if (name == "fcfs-naive") {
    return std::unique_ptr<Policy>(
        std::make_unique<FcfsPolicy>(FcfsOptions{.keeps_sandboxes = false}));
  }
  std::string known;
  for (const std::string_view each : kNames)
    known += (known.empty() ? "" : ", ") + std::string(each);
  return Error{ErrorCode::kInvalidArgument,
               "there is no policy '" + std::string(name) + "'; there are: " + known};
}

}  // namespace lambent::scheduling
