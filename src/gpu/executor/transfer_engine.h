// TransferEngine: all that this executor copies over the device's link in one direction, its
// functions in turn (decide/scheduling/transfer_queue.h), through page-locked memory that they
// share. Started and told of on the loop thread; copies on a thread of its own. Copies that clients
// make themselves have their turns in the same queue.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "core/base/mutex.h"
#include "core/base/result.h"
#include "core/loop/event_loop.h"
#include "decide/scheduling/transfer_queue.h"
#include "gpu/cuda/device.h"
#include "gpu/cuda/stream.h"
#include "gpu/executor/link_turns.h"
#include "gpu/forward_server/copy_turns.h"

namespace lambent::executor {

using protocol::LinkDirection;

// Bytes on the device, and those of the host that they come from or go to.
struct TransferPiece {
  CUdeviceptr device = 0;
  Bytes size;
  // On the host: here, else in the file from its beginning on, else, only to the device, the
  // pattern again and again.
  char* pointer = nullptr;
  int fd = -1;
  std::string pattern;
};

// Fills `to` with `size` bytes of the piece's host side from `offset` on.
Result<void> read_host_side(const TransferPiece& piece, uint64_t offset, void* to, size_t size);

class TransferEngine : public forward_server::CopyTurns {
 public:
  struct Options {
    scheduling::TransferOptions order;
    std::string link_path;  // lambent-device's socket for this process; empty: turns are free
  };
  struct Transfer {
    uint64_t owner = 0;   // whose turn it takes
    bool urgent = false;  // before what else waits of the owner
    std::vector<TransferPiece> pieces;
    // Only of those to the device, and only if the piece could be had: it is there for what begins
    // after this event, from now on. May be empty.
    std::function<void(uint32_t piece, const cuda::Event& arrival)> on_queued;
    // Nothing of it is on its way any more, and all of it is there unless there is an error. What
    // the pieces point to may go.
    std::function<void(Result<void>)> on_end;
  };

  static Result<std::unique_ptr<TransferEngine>> create(loop::EventLoop& loop,
                                                        const cuda::Driver& driver,
                                                        const cuda::Context& context,
                                                        LinkDirection direction,
                                                        const Options& options);
  // Waits for what is on its way; what was not begun is dropped, and its end is not reported.
  ~TransferEngine() override;
  TransferEngine(const TransferEngine&) = delete;
  TransferEngine& operator=(const TransferEngine&) = delete;

  // At least one piece. Both calls come later, from the loop.
  void start(Transfer transfer);
  void set_weight(uint64_t owner, uint32_t weight);

  // Of a client's copies, of at most a block each. Any thread.
  Turn begin(uint64_t client, Bytes size, std::function<void()> go) override;
  void end(uint64_t copy) override;
  bool is_quiet() const override;

 private:
  // Copies under way at once: the link has the next one when one ends.
  static constexpr size_t kSlots = 6;

  using Block = scheduling::TransferQueue::Block;
  using Part = scheduling::TransferQueue::Part;
  struct UnderWay {
    Transfer transfer;
    Result<void> outcome;
  };
  struct Slot {
    char* memory = nullptr;
    cuda::Event event;  // after the slot's last copy
  };
  struct BlockUnderWay {
    Block block;
    Slot* slot = nullptr;
    LinkTurns::TurnId turn = 0;
  };
  // A copy that a client makes.
  struct ClientCopy {
    Bytes size;
    std::function<void()> go;
    bool has_gone = false;
  };
  struct News {
    uint64_t transfer = 0;
    uint32_t piece = 0;
    const cuda::Event* arrival = nullptr;  // null: the transfer has ended
  };

  TransferEngine(loop::EventLoop& loop, cuda::Stream stream, cuda::PinnedBuffer memory,
                 std::vector<cuda::Event> events, LinkDirection direction, const Options& options);

  void serve(const cuda::Context& context);
  // Of the thread, which holds no lock.
  void copy(Block block, Bytes behind);
  LinkTurns::TurnId take_turn(Bytes size, Bytes behind);
  void let_clients_copy(const Block& block, Bytes behind);
  void wait_for_clients(Bytes size);
  Result<void> fill(const Block& block, Slot& slot);
  Result<void> queue_copies(const Block& block, const Slot& slot);
  void settle_oldest();
  UnderWay& find(uint64_t transfer);
  void tell(News news);
  // Of the loop.
  void deliver();

  loop::EventLoop& loop_;
  const LinkDirection direction_;
  cuda::Stream stream_;
  cuda::PinnedBuffer memory_;
  std::vector<Slot> slots_;
  size_t next_slot_ = 0;
  LinkTurns turns_;
  std::deque<BlockUnderWay> under_way_;

  mutable Mutex mutex_;
  Condition wake_;
  scheduling::TransferQueue queue_ GUARDED_BY(mutex_);
  // Added and removed on the loop; an outcome is the thread's until the end is told.
  std::unordered_map<uint64_t, std::unique_ptr<UnderWay>> transfers_ GUARDED_BY(mutex_);
  std::vector<News> news_ GUARDED_BY(mutex_);
  std::unordered_map<uint64_t, ClientCopy> client_copies_ GUARDED_BY(mutex_);
  Bytes clients_copy_ GUARDED_BY(mutex_);          // have gone and not ended
  uint64_t last_unqueued_ GUARDED_BY(mutex_) = 0;  // of copies that went at once
  uint64_t going_ GUARDED_BY(mutex_) = 0;          // whose `go` is being called
  Condition has_gone_, has_ended_;
  bool stopping_ GUARDED_BY(mutex_) = false;

  // What was posted to the loop and finds this false does nothing. Read and written on the loop.
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
  std::thread thread_;
};

}  // namespace lambent::executor
