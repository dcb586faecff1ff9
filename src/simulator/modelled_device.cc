#include "simulator/modelled_device.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"

namespace lambent::simulator {

void ModelledDevice::start(uint64_t key, Duration work, Instant now) {
  advance(now);
  uint32_t slot = static_cast<uint32_t>(keys_.size());
  if (free_.empty()) {
    keys_.push_back(key);
  } else {
    slot = free_.back();
    free_.pop_back();
    keys_[slot] = key;
  }
  items_.add(key, slot);
  const bool endless = work == Duration::max();
  ends_.put(slot, endless ? Duration::max() : work_done_ + work);
}

void ModelledDevice::stop(uint64_t key, Instant now) {
  const uint32_t* found = items_.find(key);
  if (found == nullptr) return;
  advance(now);
  ends_.erase(*found);
  free_.push_back(*found);
  items_.erase(key);
}

void ModelledDevice::set_guests(unsigned guests, Instant now) {
  advance(now);
  guests_ = guests;
}

Instant ModelledDevice::next_finish() const {
  if (ends_.empty() || ends_.top_key() == Duration::max()) return kNever;
  const double left = static_cast<double>((ends_.top_key() - work_done_).count());
  return since_ + Duration(static_cast<int64_t>(std::ceil(std::max(0.0, left) * factor())));
}

uint64_t ModelledDevice::finish(Instant now) {
  CHECK(now >= next_finish(), "nothing has finished yet");
  const uint32_t slot = ends_.top();
  const uint64_t key = keys_[slot];
  // Rounding must not let the clock fall short of what has been reached.
  const Duration end = ends_.top_key();
  advance(now);
  work_done_ = std::max(work_done_, end);
  stop(key, now);
  return key;
}

Duration ModelledDevice::busy(Instant now) const {
  return busy_ + (items_.empty() ? Duration(0) : now - since_);
}

void ModelledDevice::advance(Instant now) {
  const Duration passed = now - since_;
  since_ = now;
  if (items_.empty()) return;
  busy_ += passed;
  work_done_ += Duration(static_cast<int64_t>(static_cast<double>(passed.count()) / factor()));
}

double ModelledDevice::factor() const {
  return slowed_down(items_.size() + guests_, slowdown_, contention_);
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
