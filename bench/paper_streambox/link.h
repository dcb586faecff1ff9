// One direction of a link: transfers in blocks, by the production TransferQueue. One thread.
#pragma once

#include <functional>
#include <span>
#include <unordered_map>

#include "bench/paper_streambox/events.h"
#include "decide/scheduling/transfer_queue.h"

namespace lambent::paper_streambox {

struct LinkOptions {
  double bytes_per_s = 12e9;
  double block_overhead_s = 0;
  double batch_overhead_s = 0;  // between the end of one batch and the next one's begin
  scheduling::TransferOptions transfers;
};

class Link {
 public:
  // Told the index of each piece that is through; the last one ends the transfer.
  using Done = std::function<void(uint32_t piece)>;

  // `events` outlives the link.
  Link(Events& events, const LinkOptions& options)
      : events_(events), options_(options), queue_(options.transfers) {}

  void send(uint64_t owner, std::span<const Bytes> pieces, Done done);
  void send(uint64_t owner, Bytes bytes, std::function<void()> done) {
    send(owner, std::span(&bytes, 1), [done = std::move(done)](uint32_t) { done(); });
  }

 private:
  void take();

  Events& events_;
  LinkOptions options_;
  scheduling::TransferQueue queue_;
  std::unordered_map<scheduling::TransferQueue::Transfer, Done> waiting_;
  bool busy_ = false;
};

}  // namespace lambent::paper_streambox
