#include "sim/simulator/modelled_device.h"

#include <algorithm>
#include <cmath>

#include "core/base/check.h"

namespace lambent::simulator {

void ModelledDevice::start(uint64_t key, Duration work, Instant now, double occupancy) {
  advance(now);
  if (running_ == items_.size()) items_.push_back({.slot = static_cast<uint32_t>(running_)});
  const bool endless = work == Duration::max();
  const Item item{endless ? Duration::max() : work_done_ + work, key, items_[running_].slot,
                  static_cast<float>(occupancy)};
  size_t place = running_++;
  for (; place > 0 && items_[place - 1].ends_before(item); --place) {
    items_[place] = items_[place - 1];
  }
  items_[place] = item;
}

void ModelledDevice::stop(uint64_t key, Instant now) {
  for (size_t place = 0; place < running_; ++place) {
    if (items_[place].key != key) continue;
    advance(now);
    free(place);
    return;
  }
}

void ModelledDevice::free(size_t place) {
  const auto begin = items_.begin();
  std::rotate(begin + static_cast<ptrdiff_t>(place), begin + static_cast<ptrdiff_t>(place) + 1,
              begin + static_cast<ptrdiff_t>(running_));
  --running_;
}

void ModelledDevice::set_guests(unsigned guests, Instant now) {
  advance(now);
  guests_ = guests;
}

Instant ModelledDevice::next_finish() const {
  if (running_ == 0 || items_[running_ - 1].end == Duration::max()) return kNever;
  const double left = static_cast<double>((items_[running_ - 1].end - work_done_).count());
  return since_ + Duration(static_cast<int64_t>(std::ceil(std::max(0.0, left) * factor())));
}

uint64_t ModelledDevice::finish(Instant now) {
  CHECK(now >= next_finish(), "nothing has finished yet");
  const Item first = items_[running_ - 1];
  // Rounding must not let the clock fall short of what has been reached.
  advance(now);
  work_done_ = std::max(work_done_, first.end);
  free(running_ - 1);
  return first.key;
}

Duration ModelledDevice::busy(Instant now) const {
  return busy_ + (running_ == 0 ? Duration(0) : now - since_);
}

void ModelledDevice::advance(Instant now) {
  const Duration passed = now - since_;
  since_ = now;
  if (running_ == 0) return;
  busy_ += passed;
  work_done_ += Duration(static_cast<int64_t>(static_cast<double>(passed.count()) / factor()));
}

double ModelledDevice::factor() const {
  const double each = slowed_down(running_ + guests_, slowdown_, contention_);
  if (sharing_ == Sharing::kTurns) return each;
  double wanted = guests_;
  for (size_t i = 0; i < running_; ++i) wanted += static_cast<double>(items_[i].occupancy);
  return each * std::max(1.0, wanted);
}

double slowed_down(size_t sharing, double slowdown, std::span<const double> contention) {
  if (contention.empty() || sharing == 0) {
    return 1.0 + slowdown * static_cast<double>(sharing > 1 ? sharing - 1 : 0);
  }
  if (sharing <= contention.size()) return contention[sharing - 1];
  const double last = contention.back();
  const double grows = contention.size() > 1 ? last - contention[contention.size() - 2] : slowdown;
  return last + std::max(0.0, grows) * static_cast<double>(sharing - contention.size());
}

}  // namespace lambent::simulator
