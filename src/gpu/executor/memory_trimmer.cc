#include "gpu/executor/memory_trimmer.h"

#include <algorithm>
#include <unordered_map>
#include <utility>
#include <vector>

namespace lambent::executor {
namespace {

// Looks at the memory while it is held. Growing waits for none of them, so there need not be more.
constexpr uint64_t kLooks = 4;

}  // namespace

MemoryTrimmer::MemoryTrimmer(loop::EventLoop& loop, const cuda::Context& context, MemoryPool& pool,
                             DeviceStore& store, Options options, Hooks hooks)
    : loop_(loop),
      pool_(pool),
      store_(store),
      options_(options),
      hooks_(std::move(hooks)),
      unmaps_(loop, context) {}

MemoryTrimmer::~MemoryTrimmer() {
  if (next_look_) loop_.cancel(*next_look_);
}

void MemoryTrimmer::watch() {
  if (next_look_ || options_.rule != scheduling::PoolRule::kResilient) return;
  const Duration period = std::max<Duration>(options_.hold / kLooks, milliseconds(1));
  next_look_ = loop_.call_after(period, [this] {
    next_look_.reset();
    if (!hooks_.has_ended()) look();
  });
}

// An instance needs its buffers until it has had no request for the hold: what runs in it is one
// CUDA graph, mostly, and so its profile has one step, for which all of them must be there.
MemoryTrimmer::Excess MemoryTrimmer::find_excess() const {
  std::unordered_map<SandboxId, MemoryProfile> profiles;
  Bytes others, pinned;
  Excess excess;
  store_.for_each([&](const DeviceName& name, const DeviceStore::Entry& entry) {
    if (name.kind != DeviceName::Kind::kInstanceBuffer) {
      others += entry.size;
      return;
    }
    excess.has_buffers = true;
    if (entry.pins > 0) pinned += entry.size;
    const SandboxId instance(name.high);
    if (hooks_.is_idle(instance)) return;
    MemoryProfile& profile = profiles[instance];
    profile.kernels.resize(1, {.duration = options_.hold, .live = Bytes()});
    profile.kernels[0].live += entry.size;
    profile.whole += entry.size;
  });
  std::vector<scheduling::RunningFunction> running;
  for (const auto& [instance, profile] : profiles) running.push_back({.profile = &profile});

  scheduling::PoolOptions pool;
  pool.rule = options_.rule;
  pool.interval = options_.hold;
  excess.size = scheduling::scale_pool(pool, pool_.mapped() - others, pinned, running).shrink;
  return excess;
}

void MemoryTrimmer::look() {
  if (is_returning_) return watch();  // what is mapped is yet to change
  const Excess excess = find_excess();
  const uint64_t looks = options_.hold > Duration(0) ? kLooks : 0;
  auto leaving = store_.trim(excess.size, looks, hooks_.is_idle);
  if (excess.has_buffers || pool_.has_free()) watch();
  if (leaving.empty()) return;
  is_returning_ = true;
  unmaps_.run([this, leaving] { pool_.unmap(leaving); },
              [this, leaving] {
                is_returning_ = false;
                pool_.forget(leaving);
                if (!hooks_.has_ended()) hooks_.on_returned();
              });
}

}  // namespace lambent::executor
