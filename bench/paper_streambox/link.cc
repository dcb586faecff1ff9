#include "bench/paper_streambox/link.h"

namespace lambent::paper_streambox {

void Link::send(uint64_t owner, std::span<const Bytes> pieces, Done done) {
  waiting_.emplace(queue_.add(owner, pieces), std::move(done));
  if (!busy_) take();
}

void Link::take() {
  const auto blocks = queue_.take_batch();
  busy_ = !blocks.empty();
  if (!busy_) return;
  double ends_after_s = options_.batch_overhead_s;
  for (const auto& block : blocks) {
    ends_after_s +=
        options_.block_overhead_s + static_cast<double>(block.size.count) / options_.bytes_per_s;
    bool ends_any = false;
    for (const auto& part : block.parts) ends_any = ends_any || part.ends_piece;
    if (!ends_any) continue;
    events_.after(ends_after_s, [this, parts = block.parts] {
      for (const auto& part : parts) {
        if (!part.ends_piece) continue;
        const auto found = waiting_.find(part.transfer);
        const Done done = found->second;
        if (part.ends_transfer) waiting_.erase(found);
        done(part.piece);
      }
    });
  }
  events_.after(ends_after_s, [this] { take(); });
}

}  // namespace lambent::paper_streambox
