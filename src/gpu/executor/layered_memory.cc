#include "gpu/executor/layered_memory.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "core/base/check.h"

namespace lambent::executor {
namespace {

// What is measured stands for 200 MB.
constexpr uint32_t kMeasuredPages = 16;
constexpr uint64_t kMeasuredFor = 200'000'000;
constexpr Duration kLongestInterval = seconds(1);
// What the pool keeps while requests follow each other. In the model
// (docs/internals/workflows-evaluation.md) it takes away what buying pages again costs, and is a
// small part of what a static pool has.
constexpr Bytes kKept = Bytes::mib(64);

bool needs(const kernel_graph::Layer& layer, uint32_t page) {
  return std::ranges::binary_search(layer.pages, page);
}

}  // namespace

Result<std::unique_ptr<LayeredMemory>> LayeredMemory::create(loop::EventLoop& loop,
                                                             const cuda::Driver& driver,
                                                             const cuda::Context& context,
                                                             int ordinal, Options options,
                                                             Hooks hooks) {
  CHECK(options.rule != scheduling::PoolRule::kStatic, "a static pool has no layers");
  ASSIGN_OR_RETURN(auto pool, PagePool::create(driver, ordinal));
  std::unique_ptr<LayeredMemory> memory(
      new LayeredMemory(loop, context, std::move(pool), options, std::move(hooks)));
  if (options.interval) {
    memory->interval_ = *options.interval;
  } else {
    memory->measure();
  }
  return memory;
}

LayeredMemory::LayeredMemory(loop::EventLoop& loop, const cuda::Context& context,
                             std::unique_ptr<PagePool> pool, Options options, Hooks hooks)
    : loop_(loop),
      options_(options),
      hooks_(std::move(hooks)),
      pool_(std::move(pool)),
      takes_(loop, context),
      gives_(loop, context) {}

LayeredMemory::~LayeredMemory() = default;

// Before anything runs, for which the driver might wait.
void LayeredMemory::measure() {
  auto interval = std::make_shared<Duration>(interval_);
  takes_.run(
      [pool = pool_.get(), &clock = loop_.clock(), interval] {
        const auto window = pool->open(kMeasuredPages);
        if (!window.ok()) return;
        std::vector<uint32_t> pages(kMeasuredPages);
        std::iota(pages.begin(), pages.end(), 0);
        const Instant begin = clock.now();
        if (pool->take(*window, pages).ok()) {
          const Instant taken = clock.now();
          pool->give_back(*window, pages);
          pool->drop(*window);
          const auto times = static_cast<double>(kMeasuredFor) /
                             static_cast<double>(pool->page().count * kMeasuredPages);
          const auto scaled = [times](Duration measured) {
            return from_seconds(to_seconds(measured) * times);
          };
          const Duration found =
              scheduling::scaling_interval(scaled(taken - begin), scaled(clock.now() - taken));
          *interval = std::min(found, kLongestInterval);
        }
        pool->close(*window);
      },
      [this, interval] { interval_ = *interval; });
}

void LayeredMemory::add(SandboxId id, CUdeviceptr window, const kernel_graph::LayerPlan& plan) {
  Instance& instance = instances_[id];
  instance.window = window;
  instance.plan = &plan;
  instance.profile = kernel_graph::profile_of(plan);
  instance.taken.resize(plan.pages, false);
}

void LayeredMemory::remove(SandboxId id, std::function<void()> then) {
  end(id);
  const CUdeviceptr window = instances_.at(id).window;
  instances_.erase(id);
  drop(window, std::move(then));
  watch();
}

void LayeredMemory::move_out(SandboxId id, std::function<void()> then) {
  Instance& instance = instances_.at(id);
  CHECK(!instance.runs, "what runs stays");
  instance.is_out = true;
  drop(instance.window, std::move(then));
}

// Behind what was given back on the other thread.
void LayeredMemory::drop(CUdeviceptr window, std::function<void()> then) {
  takes_.run([] {},
             [this, window, then = std::move(then)]() mutable {
               give([pool = pool_.get(), window] { pool->drop(window); }, std::move(then));
             });
}

void LayeredMemory::begin(SandboxId id) {
  Instance& instance = instances_.at(id);
  if (instance.runs) return;
  instance.runs = true;
  instance.is_out = false;
  instance.request = ++requests_;
  instance.there = instance.ended = 0;
  instance.has_loosened = instance.has_made_room = false;
  instance.failure.reset();
  instance.peak = 0;
  instance.foreign.clear();
  instance.began = loop_.clock().now();
  prepare(id, instance);
  watch();  // the next look may be far away
}

Result<bool> LayeredMemory::is_there(SandboxId id, uint32_t layer) const {
  const Instance& instance = instances_.at(id);
  CHECK(instance.runs, "a request that has begun");
  if (layer < instance.there) return true;
  if (instance.failure) return *instance.failure;
  return false;
}

std::vector<PagePool::Run> LayeredMemory::begin_layer(SandboxId id, uint32_t layer) {
  Instance& instance = instances_.at(id);
  if (layer == 0) instance.began = loop_.clock().now();
  return std::exchange(instance.foreign, {});
}

void LayeredMemory::clean(SandboxId id, std::vector<PagePool::Run> runs) {
  if (runs.empty()) return;
  // Before they are given back, which is done there too.
  takes_.run([pool = pool_.get(), window = instances_.at(id).window,
              runs = std::move(runs)] { pool->cleaned(window, runs); },
             [] {});
}

Bytes LayeredMemory::peak(SandboxId id) const { return pool_->page() * instances_.at(id).peak; }

// The layer that runs has its memory, and the next one's comes meanwhile.
void LayeredMemory::prepare(SandboxId id, Instance& instance) {
  const auto& layers = instance.plan->layers;
  while (instance.taking == nullptr && !instance.failure && !instance.lack &&
         instance.there < layers.size() && instance.there <= instance.ended + 1) {
    auto what = std::make_shared<Take>();
    for (const uint32_t page : layers[instance.there].pages) {
      if (!instance.taken[page]) what->pages.push_back(page);
    }
    if (!what->pages.empty()) return take(id, instance, std::move(what));
    ++instance.there;
  }
}

void LayeredMemory::take(SandboxId id, Instance& instance, std::shared_ptr<Take> what) {
  for (const uint32_t page : what->pages) instance.taken[page] = true;
  instance.count += what->pages.size();
  instance.peak = std::max(instance.peak, instance.count);
  instance.taking = what;
  what->gains = gains_;
  takes_.run([pool = pool_.get(), window = instance.window,
              what] { what->outcome = pool->take(window, what->pages); },
             [this, id, request = instance.request, what] { came(id, request, what); });
}

void LayeredMemory::came(SandboxId id, uint64_t request, const std::shared_ptr<Take>& what) {
  const auto found = instances_.find(id);
  if (found == instances_.end() || found->second.request != request || !found->second.runs) return;
  Instance& instance = found->second;
  instance.taking.reset();
  if (what->outcome.ok()) {
    instance.foreign.insert(instance.foreign.end(), what->outcome->begin(), what->outcome->end());
    ++instance.there;
    instance.has_loosened = instance.has_made_room = false;
    prepare(id, instance);
    return hooks_.progress(id);
  }
  for (const uint32_t page : what->pages) instance.taken[page] = false;
  instance.count -= what->pages.size();
  const Error& error = what->outcome.error();
  if (error.code != ErrorCode::kResourceExhausted && error.code != ErrorCode::kUnavailable) {
    instance.failure = error.with_context("memory for a layer");
    return hooks_.progress(id);
  }
  if (what->gains != gains_) return prepare(id, instance);  // it could not see what came meanwhile
  instance.lack = error;
  find_room(instance, pool_->page() * what->pages.size());
}

void LayeredMemory::layer_ended(SandboxId id) {
  Instance& instance = instances_.at(id);
  CHECK(instance.runs && instance.ended < instance.there, "a layer that has begun");
  const Instant now = loop_.clock().now();
  Duration& known = instance.profile.kernels[instance.ended].duration;
  const Duration took = now - instance.began;
  known = known == Duration(0) ? took : std::min(known, took);
  instance.began = now;
  const auto& layers = instance.plan->layers;
  const size_t end = instance.there + (instance.taking != nullptr ? 1 : 0);
  std::vector<uint32_t> over;
  for (const uint32_t page : layers[instance.ended].pages) {
    const auto is_needed = [&](const kernel_graph::Layer& layer) { return needs(layer, page); };
    const auto next = layers.begin() + instance.ended + 1;
    if (std::none_of(next, layers.begin() + static_cast<std::ptrdiff_t>(end), is_needed)) {
      over.push_back(page);
    }
  }
  ++instance.ended;
  give_back(instance, std::move(over));
  pages_came();
  prepare(id, instance);
}

void LayeredMemory::end(SandboxId id) {
  Instance& instance = instances_.at(id);
  if (!std::exchange(instance.runs, false)) return;
  last_end_ = loop_.clock().now();
  instance.lack.reset();
  if (instance.taking != nullptr) {
    // Behind its coming, if it comes.
    takes_.run(
        [pool = pool_.get(), window = instance.window, what = instance.taking] {
          if (what->outcome.ok()) pool->give_back(window, what->pages);
        },
        [] {});
    for (const uint32_t page : instance.taking->pages) instance.taken[page] = false;
    instance.count -= instance.taking->pages.size();
    instance.taking.reset();
  }
  std::vector<uint32_t> rest;
  for (uint32_t page = 0; page < instance.taken.size(); ++page) {
    if (instance.taken[page]) rest.push_back(page);
  }
  give_back(instance, std::move(rest));
  pages_came();
}

void LayeredMemory::give_back(Instance& instance, std::vector<uint32_t> pages) {
  if (pages.empty()) return;
  for (const uint32_t page : pages) instance.taken[page] = false;
  instance.count -= pages.size();
  takes_.run([pool = pool_.get(), window = instance.window,
              pages = std::move(pages)] { pool->give_back(window, pages); },
             [] {});
}

bool LayeredMemory::is_held(Instant now) const {
  return last_end_.has_value() && now - *last_end_ < options_.hold;
}

// Nothing is done while there is nothing to give to the device. What is held while nothing runs is
// looked at when it is no longer. A look that comes earlier stays: requests that begin more often
// than looks come do not put it off.
void LayeredMemory::watch() {
  Duration after = scheduling::scaling_period(interval_);
  const Instant now = loop_.clock().now();
  const auto runs = [](const auto& entry) { return entry.second.runs; };
  if (std::ranges::none_of(instances_, runs) && pool_->size() <= kKept && is_held(now)) {
    after = std::max<Duration>(after, *last_end_ + options_.hold - now);
  }
  const Instant due = now + after;
  if (watch_ && watch_->due <= due) return;
  if (watch_) loop_.cancel(watch_->timer);
  watch_ = {.timer = loop_.call_at(due,
                                   [this] {
                                     watch_.reset();
                                     look();
                                   }),
            .due = due};
}

// Algorithm 1 of the StreamBox paper.
void LayeredMemory::look() {
  const Instant now = loop_.clock().now();
  std::vector<scheduling::RunningFunction> running;
  scheduling::PoolOptions pool;
  pool.rule = options_.rule;
  pool.interval = interval_;
  pool.granule = pool_->page();
  pool.most = Bytes(0);
  Bytes taken;
  for (const auto& [id, instance] : instances_) {
    if (!instance.is_out) pool.most += instance.profile.whole;
    if (!instance.runs) continue;
    taken += pool_->page() * instance.count;
    running.push_back(
        {.profile = &instance.profile, .kernel = instance.ended, .elapsed = now - instance.began});
  }
  const Bytes size = pool_->size();
  const auto step = scheduling::scale_pool(pool, size, taken, running);
  if (step.grow > Bytes(0) && !std::exchange(grows_, true)) {
    takes_.run([pool = pool_.get(), target = size + step.grow] { pool->grow_to(target); },
               [this] { grows_ = false; });
  }
  // No rule keeps what could never be used.
  const bool holds = options_.hold > Duration(0) && (!running.empty() || is_held(now));
  const Bytes kept = holds ? kKept : Bytes(0);
  const Bytes less = std::max(std::min(step.shrink, size - kept), size - pool.most);
  if (less > Bytes(0) && !std::exchange(shrinks_, true)) {
    give([pool = pool_.get(), less] { pool->shrink(less); }, [this] { shrinks_ = false; });
  }
  const bool gives = options_.rule == scheduling::PoolRule::kResilient || size > pool.most;
  if (!running.empty() || (gives && size > Bytes(0))) watch();
}

}  // namespace lambent::executor
