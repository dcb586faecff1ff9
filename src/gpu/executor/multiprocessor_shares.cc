#include "gpu/executor/multiprocessor_shares.h"

#include <cstdio>
#include <utility>

namespace lambent::executor {

MultiprocessorShares::MultiprocessorShares(const cuda::Driver& driver, int ordinal) {
  auto found = cuda::Multiprocessors::of(driver, ordinal);
  if (!found.ok()) return;
  table_.emplace(found->count(), found->group_size(), found->groups());
  all_.emplace(std::move(*found));
}

std::vector<uint32_t> MultiprocessorShares::give(SandboxId user, uint32_t share) {
  if (!table_ || all_->groups() < 2) {
    if (share < 100 && !std::exchange(has_printed_, true)) {
      std::fprintf(stderr, "lambent-executor: shares of the multiprocessors are not applied: %s\n",
                   table_ ? "this device has too few to be split"
                          : "this driver or device has no green contexts");
    }
    return {};
  }
  const ShareTable::Part part = table_->give(user.value, share);
  const unsigned all = all_->count();
  if (share < 100 && part.multiprocessors * 100 != all * share) {
    std::fprintf(stderr, "lambent-executor: a share of %u %% is %u of %u multiprocessors here\n",
                 share, part.multiprocessors, all);
  }
  return part.groups;
}

void MultiprocessorShares::take_back(SandboxId user) {
  if (table_) table_->take_back(user.value);
}

}  // namespace lambent::executor
