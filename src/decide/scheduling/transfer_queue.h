// TransferQueue: in which order the bytes of several functions go over one device's link in one
// direction: in blocks, the owners in turn, a batch of blocks at a time. Pure; of one thread.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <span>
#include <vector>

#include "core/base/units.h"

namespace lambent::scheduling {

struct TransferOptions {
  // So large that a copy's fixed cost is small beside it, so small that none waits long for one.
  Bytes block = Bytes::mib(2);
  // Blocks that are given to the driver together; what comes later gets in with the next ones. 0:
  // all that wait.
  size_t batch = 6;
  bool fuse = true;  // neighbours of one owner that are smaller than a block share one
  bool fair = true;  // owners take turns; false: first come, first served
  // Parts of a block begin at multiples of this, so that what lies next to each other on the device
  // in such steps can be one copy.
  Bytes alignment = Bytes(512);
};

class TransferQueue {
 public:
  using Owner = uint64_t;
  using Transfer = uint64_t;

  // Some bytes of a piece, within a block.
  struct Part {
    Transfer transfer = 0;
    uint32_t piece = 0;       // of the transfer
    Bytes offset;             // in the piece
    Bytes at;                 // in the block
    Bytes size;               // 0 only if the piece is empty
    bool ends_piece = false;  // after this block all of the piece is through
    bool ends_transfer = false;
    bool operator==(const Part&) const = default;
  };
  struct Block {
    Owner owner = 0;
    std::vector<Part> parts;  // by where they begin
    Bytes size;               // up to the end of the last
    bool operator==(const Block&) const = default;
  };

  explicit TransferQueue(TransferOptions options) : options_(options) {}

  // Pieces go in their order, a transfer's one after the other; transfers of one owner in the order
  // of the calls, except that urgent ones go before what waits of the others. At least one piece.
  Transfer add(Owner owner, std::span<const Bytes> pieces, bool urgent = false);
  // How many times as much as one of weight 1 the owner gets while both wait; from 1 to 64.
  void set_weight(Owner owner, uint32_t weight);
  // Nothing of the owner waits; its weight is 1 again if it comes back.
  void forget(Owner owner);

  // The next ones, at most so many, in the order in which they are to be copied; none if nothing
  // waits.
  std::vector<Block> take_batch(size_t most = SIZE_MAX);

  bool empty() const { return waiting_.count == 0 && waiting_transfers_ == 0; }
  Bytes waiting() const { return waiting_; }

 private:
  struct Waiting {
    Transfer transfer = 0;
    std::vector<Bytes> pieces;
    uint32_t piece = 0;  // the next
    Bytes offset;        // in it
  };
  struct Line {
    std::deque<Waiting> urgent, others;
    uint32_t weight = 1;
    uint64_t turn = 0;   // when it is the owner's turn again, in virtual bytes
    uint64_t since = 0;  // when it began to wait, counted in calls
    bool empty() const { return urgent.empty() && others.empty(); }
    std::deque<Waiting>& next() { return urgent.empty() ? others : urgent; }
  };

  std::map<Owner, Line>::iterator whose_turn();
  Block cut(Owner owner, Line& line);
  void forget_idle_owners();

  const TransferOptions options_;
  std::map<Owner, Line> lines_;
  uint64_t now_ = 0;  // virtual bytes: what an owner of weight 1 has had that always waited
  uint64_t calls_ = 0;
  Transfer last_transfer_ = 0;
  Bytes waiting_;
  size_t waiting_transfers_ = 0;
};

}  // namespace lambent::scheduling
