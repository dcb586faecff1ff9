#include "forward_server/client_share.h"

#include <cstdio>
#include <utility>

namespace lambent::forward_server {

void ClientShare::set(std::vector<uint32_t> groups) {
  const std::lock_guard lock(mutex_);
  if (groups == groups_) return;
  groups_ = std::move(groups);
  part_ = nullptr;
  has_part_ = false;
  version_.fetch_add(1, std::memory_order_release);
}

ClientShare::Part ClientShare::part(uint64_t* version) {
  const std::lock_guard lock(mutex_);
  *version = version_.load(std::memory_order_relaxed);
  if (std::exchange(has_part_, true) || groups_.empty()) return part_;
  if (splitting_.multiprocessors == nullptr) return nullptr;
  auto made = cuda::GreenContext::create(splitting_.driver, splitting_.ordinal,
                                         *splitting_.multiprocessors, groups_);
  if (made.ok()) {
    part_ = std::make_shared<const cuda::GreenContext>(std::move(*made));
  } else {
    std::fprintf(stderr, "lambent-executor: a share is not applied: %s\n",
                 to_string(made.error()).c_str());
  }
  return part_;
}

void ClientShare::abandon() {
  const std::lock_guard lock(mutex_);
  if (part_ != nullptr) (void)new Part(part_);
}

}  // namespace lambent::forward_server
