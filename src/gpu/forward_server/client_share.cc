#include "gpu/forward_server/client_share.h"

#include <cstdio>
#include <utility>

namespace lambent::forward_server {

void ClientShare::set(std::vector<uint32_t> groups) {
  const MutexLock lock(mutex_);
  if (groups == groups_) return;
  groups_ = std::move(groups);
  version_.fetch_add(1, std::memory_order_release);
}

ClientShare::Part ClientShare::part(uint64_t* version) {
  const MutexLock making(making_mutex_);
  std::vector<uint32_t> groups;
  {
    const MutexLock lock(mutex_);
    groups = groups_;
    *version = version_.load(std::memory_order_relaxed);
  }
  if (groups.empty() || splitting_.multiprocessors == nullptr) return nullptr;
  if (made_version_ == *version) {
    if (Part part = part_.lock(); part != nullptr || failed_) return part;
  }
  auto made = cuda::GreenContext::create(splitting_.driver, splitting_.ordinal,
                                         *splitting_.multiprocessors, groups);
  made_version_ = *version;
  failed_ = !made.ok();
  if (failed_) {
    std::fprintf(stderr, "lambent-executor: a share is not applied: %s\n",
                 to_string(made.error()).c_str());
    return nullptr;
  }
  auto part = std::make_shared<const cuda::GreenContext>(std::move(*made));
  part_ = part;
  return part;
}

}  // namespace lambent::forward_server
