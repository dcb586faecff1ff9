#include "sim/slice_simulator/links.h"

#include <algorithm>
#include <cmath>

#include "core/base/check.h"

namespace lambent::slice_simulator {

Links::PortId Links::add_port(double gb_per_s) {
  CHECK(gb_per_s > 0, "a link without a rate");
  ports_.push_back({gb_per_s * 1e9, 0});
  return ports_.size() - 1;
}

Links::CopyId Links::start(Bytes bytes, double gb_per_s, std::vector<PortId> ports, Instant now) {
  CHECK(gb_per_s > 0, "a copy without a rate");
  advance(now);
  for (const PortId port : ports) ++ports_.at(port).copies;
  copies_[++last_] = {static_cast<double>(bytes.count), gb_per_s * 1e9, 0, std::move(ports)};
  share();
  return last_;
}

void Links::cancel(CopyId id, Instant now) {
  const auto found = copies_.find(id);
  if (found == copies_.end()) return;
  advance(now);
  for (const PortId port : found->second.ports) --ports_[port].copies;
  copies_.erase(found);
  share();
}

std::vector<Links::CopyId> Links::finished(Instant now) {
  advance(now);
  std::vector<CopyId> done;
  for (const auto& [id, copy] : copies_) {
    // What a nanosecond can move is nothing: instants are whole nanoseconds.
    if (copy.left_bytes <= copy.bytes_per_s * 1e-9) done.push_back(id);
  }
  for (const CopyId id : done) {
    for (const PortId port : copies_[id].ports) --ports_[port].copies;
    copies_.erase(id);
  }
  if (!done.empty()) share();
  return done;
}

void Links::advance(Instant now) {
  const double passed_s = to_seconds(now - now_);
  now_ = now;
  if (passed_s <= 0) return;
  for (auto& [id, copy] : copies_) {
    copy.left_bytes = std::max(0.0, copy.left_bytes - copy.bytes_per_s * passed_s);
  }
}

void Links::share() {
  next_.reset();
  for (auto& [id, copy] : copies_) {
    copy.bytes_per_s = copy.most_bytes_per_s;
    for (const PortId port : copy.ports) {
      const double share = ports_[port].bytes_per_s / static_cast<double>(ports_[port].copies);
      copy.bytes_per_s = std::min(copy.bytes_per_s, share);
    }
    const Instant done =
        now_ + Duration(static_cast<int64_t>(std::ceil(copy.left_bytes / copy.bytes_per_s * 1e9)));
    if (!next_ || done < *next_) next_ = done;
  }
}

}  // namespace lambent::slice_simulator
