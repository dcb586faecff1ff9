#include "decide/scheduling/transfer_queue.h"

#include <algorithm>
#include <utility>

#include "core/base/check.h"

namespace lambent::scheduling {
namespace {

// Virtual bytes of a byte, so that they can be divided by a weight.
constexpr uint64_t kScale = 64;

uint64_t round_up(uint64_t value, uint64_t step) { return (value + step - 1) / step * step; }

}  // namespace

TransferQueue::Transfer TransferQueue::add(Owner owner, std::span<const Bytes> pieces,
                                           bool urgent) {
  CHECK(!pieces.empty(), "a transfer has a piece");
  Line& line = lines_[owner];
  if (line.empty()) {
    // Who comes new, or had less than the others, is next; who has just had its turn is not.
    line.turn = std::max(line.turn, now_);
    line.since = ++calls_;
  }
  Waiting transfer;
  transfer.transfer = ++last_transfer_;
  transfer.pieces.assign(pieces.begin(), pieces.end());
  for (const Bytes piece : pieces) waiting_ += piece;
  ++waiting_transfers_;
  (urgent ? line.urgent : line.others).push_back(std::move(transfer));
  return last_transfer_;
}

void TransferQueue::set_weight(Owner owner, uint32_t weight) {
  lines_[owner].weight = std::clamp<uint32_t>(weight, 1, kScale);
}

void TransferQueue::forget(Owner owner) {
  const auto line = lines_.find(owner);
  if (line == lines_.end()) return;
  CHECK(line->second.empty(), "what waits is not forgotten");
  lines_.erase(line);
}

std::vector<TransferQueue::Block> TransferQueue::take_batch(size_t most) {
  std::vector<Block> batch;
  if (options_.batch != 0) most = std::min(most, options_.batch);
  while (!empty() && batch.size() < most) {
    const auto next = whose_turn();
    Line& line = next->second;
    now_ = std::max(now_, line.turn);
    batch.push_back(cut(next->first, line));
    // An empty block took a copy's time too.
    const uint64_t cost = std::max(batch.back().size, options_.alignment).count;
    line.turn += cost * kScale / line.weight;
  }
  forget_idle_owners();
  return batch;
}

// Who had its turn is remembered until the others had theirs.
void TransferQueue::forget_idle_owners() {
  if (empty()) {
    for (const auto& [owner, line] : lines_) now_ = std::max(now_, line.turn);
  }
  std::erase_if(lines_, [this](const auto& each) {
    const Line& line = each.second;
    return line.empty() && line.weight == 1 && line.turn <= now_;
  });
}

// The owner who has had least; of several the one who waits since last, for it comes new. If first
// come is first served, the one with the oldest transfer.
std::map<TransferQueue::Owner, TransferQueue::Line>::iterator TransferQueue::whose_turn() {
  auto best = lines_.end();
  for (auto each = lines_.begin(); each != lines_.end(); ++each) {
    Line& line = each->second;
    if (line.empty()) continue;
    if (best == lines_.end()) {
      best = each;
      continue;
    }
    Line& other = best->second;
    const bool is_before =
        options_.fair ? std::pair(line.turn, ~line.since) < std::pair(other.turn, ~other.since)
                      : line.next().front().transfer < other.next().front().transfer;
    if (is_before) best = each;
  }
  return best;
}

TransferQueue::Block TransferQueue::cut(Owner owner, Line& line) {
  Block block;
  block.owner = owner;
  while (!line.empty()) {
    auto& queue = line.next();
    Waiting& waiting = queue.front();
    const Bytes piece = waiting.pieces[waiting.piece];
    Part part;
    part.at = Bytes(round_up(block.size.count, options_.alignment.count));
    if (!block.parts.empty() && (!options_.fuse || part.at >= options_.block)) break;
    part.transfer = waiting.transfer;
    part.piece = waiting.piece;
    part.offset = waiting.offset;
    part.size = std::min(piece - waiting.offset, options_.block - part.at);
    waiting.offset += part.size;
    part.ends_piece = waiting.offset == piece;
    part.ends_transfer = part.ends_piece && waiting.piece + 1 == waiting.pieces.size();
    block.size = part.at + part.size;
    block.parts.push_back(part);
    waiting_ -= part.size;
    if (part.ends_piece) {
      ++waiting.piece;
      waiting.offset = Bytes(0);
    }
    if (part.ends_transfer) {
      queue.pop_front();
      --waiting_transfers_;
    }
    if (!part.ends_piece) break;
  }
  return block;
}

}  // namespace lambent::scheduling
