#include "gpu/executor/transfer_engine.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "core/base/check.h"
#include "gpu/executor/file_io.h"

namespace lambent::executor {
namespace {

// How long to look for a turn before looking whether something has arrived.
constexpr Duration kTurnLook = milliseconds(20);
// Clients' copies under way at once; and how long they may hold up the next ones. They end when the
// client's thread sees it, which may be busy in the driver.
constexpr Bytes kClientsAtOnce = Bytes::mib(8);
constexpr Duration kLongestClientCopy = milliseconds(5);
// Of the numbers of owners and copies: clients have their own, beside the instances'.
constexpr uint64_t kOfClients = uint64_t{1} << 63;

}  // namespace

Result<void> read_host_side(const TransferPiece& piece, uint64_t offset, void* to, size_t size) {
  if (piece.pointer != nullptr) {
    memcpy(to, piece.pointer + offset, size);
    return {};
  }
  if (piece.fd >= 0) return read_fully(piece.fd, offset, to, size);
  // One period by hand, and from there on copies of the part that exists, twice as much each time.
  char* next = static_cast<char*>(to);
  const size_t period = piece.pattern.size();
  size_t there = std::min(size, period);
  for (size_t i = 0; i < there; ++i) next[i] = piece.pattern[(offset + i) % period];
  while (there < size) {
    const size_t more = std::min(there, size - there);
    memcpy(next + there, next, more);
    there += more;
  }
  return {};
}

Result<std::unique_ptr<TransferEngine>> TransferEngine::create(loop::EventLoop& loop,
                                                               const cuda::Driver& driver,
                                                               const cuda::Context& context,
                                                               LinkDirection direction,
                                                               const Options& options) {
  ASSIGN_OR_RETURN(auto stream, cuda::Stream::create(driver));
  ASSIGN_OR_RETURN(auto memory, cuda::PinnedBuffer::allocate(driver, options.order.block * kSlots));
  std::vector<cuda::Event> events;
  for (size_t i = 0; i < kSlots; ++i) {
    ASSIGN_OR_RETURN(auto event, cuda::Event::create(driver));
    events.push_back(std::move(event));
  }
  std::unique_ptr<TransferEngine> engine(new TransferEngine(
      loop, std::move(stream), std::move(memory), std::move(events), direction, options));
  engine->thread_ = std::thread([raw = engine.get(), &context] { raw->serve(context); });
  return engine;
}

TransferEngine::TransferEngine(loop::EventLoop& loop, cuda::Stream stream,
                               cuda::PinnedBuffer memory, std::vector<cuda::Event> events,
                               LinkDirection direction, const Options& options)
    : loop_(loop),
      direction_(direction),
      stream_(std::move(stream)),
      memory_(std::move(memory)),
      turns_(options.link_path, direction, loop.clock()),
      queue_(options.order) {
  char* next = static_cast<char*>(memory_.pointer());
  for (cuda::Event& event : events) {
    slots_.push_back({next, std::move(event)});
    next += options.order.block.count;
  }
}

TransferEngine::~TransferEngine() {
  *alive_ = false;
  {
    const MutexLock lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_one();
  if (thread_.joinable()) thread_.join();
}

void TransferEngine::start(Transfer transfer) {
  std::vector<Bytes> sizes;
  for (const TransferPiece& piece : transfer.pieces) sizes.push_back(piece.size);
  {
    const MutexLock lock(mutex_);
    const uint64_t id = queue_.add(transfer.owner, sizes, transfer.urgent);
    transfers_.emplace(id, std::make_unique<UnderWay>(UnderWay{std::move(transfer), {}}));
  }
  wake_.notify_one();
}

void TransferEngine::set_weight(uint64_t owner, uint32_t weight) {
  const MutexLock lock(mutex_);
  queue_.set_weight(owner, weight);
}

forward_server::CopyTurns::Turn TransferEngine::begin(uint64_t client, Bytes size,
                                                      std::function<void()> go) {
  const MutexLock lock(mutex_);
  if (queue_.empty() && clients_copy_ + size <= kClientsAtOnce) {
    clients_copy_ += size;
    const uint64_t copy = kOfClients | ++last_unqueued_;
    client_copies_.emplace(copy, ClientCopy{.size = size, .go = {}, .has_gone = true});
    return {copy, true};
  }
  const Bytes pieces[] = {size};
  const uint64_t copy = queue_.add(kOfClients | client, pieces);
  client_copies_.emplace(copy, ClientCopy{.size = size, .go = std::move(go)});
  wake_.notify_one();
  return {copy, false};
}

void TransferEngine::end(uint64_t copy) {
  MutexLock lock(mutex_);
  while (going_ == copy) has_gone_.wait(lock);
  const auto found = client_copies_.find(copy);
  if (found == client_copies_.end()) return;
  if (found->second.has_gone) clients_copy_ -= found->second.size;
  client_copies_.erase(found);
  has_ended_.notify_one();
}

bool TransferEngine::is_quiet() const {
  const MutexLock lock(mutex_);
  return queue_.empty();
}

// The turn is over for lambent-device when they go: when they arrive is known to others.
void TransferEngine::let_clients_copy(const Block& block, Bytes behind) {
  wait_for_clients(block.size);
  turns_.arrived(take_turn(block.size, behind), block.size);
  for (const Part& part : block.parts) {
    if (!part.ends_transfer) continue;
    MutexLock lock(mutex_);
    const auto found = client_copies_.find(part.transfer);
    if (found == client_copies_.end()) continue;  // it has ended without
    found->second.has_gone = true;
    clients_copy_ += found->second.size;
    const auto go = std::move(found->second.go);
    going_ = part.transfer;
    lock.unlock();
    go();
    lock.lock();
    going_ = 0;
    has_gone_.notify_all();
  }
}

void TransferEngine::wait_for_clients(Bytes size) {
  MutexLock lock(mutex_);
  while (!stopping_ && clients_copy_ > Bytes(0) && clients_copy_ + size > kClientsAtOnce) {
    if (!under_way_.empty()) {
      lock.unlock();
      settle_oldest();
      lock.lock();
    } else if (!has_ended_.wait_for(lock, kLongestClientCopy)) {
      return;
    }
  }
}

void TransferEngine::serve(const cuda::Context& context) {
  CHECK(context.enter().ok(), "a context that is there can be entered");
  MutexLock lock(mutex_);
  while (!stopping_) {
    if (queue_.empty() && under_way_.empty()) {
      turns_.rest();
      while (!stopping_ && queue_.empty()) wake_.wait(lock);
      continue;
    }
    // What is taken is before all that comes: while clients copy, no more than a block.
    std::vector<Block> batch = queue_.take_batch(client_copies_.empty() ? SIZE_MAX : 1);
    Bytes behind = queue_.waiting();
    for (const Block& block : batch) behind += block.size;
    lock.unlock();
    if (batch.empty()) settle_oldest();
    for (Block& block : batch) {
      behind -= block.size;
      if ((block.owner & kOfClients) != 0) {
        let_clients_copy(block, behind);
      } else {
        copy(std::move(block), behind);
      }
    }
    lock.lock();
  }
  lock.unlock();
  while (!under_way_.empty()) settle_oldest();
}

void TransferEngine::copy(Block block, Bytes behind) {
  if (under_way_.size() == slots_.size()) settle_oldest();
  const LinkTurns::TurnId turn = take_turn(block.size, behind);
  Slot& slot = slots_[next_slot_++ % slots_.size()];
  auto queued = fill(block, slot);
  if (queued.ok()) queued = queue_copies(block, slot);
  if (queued.ok()) queued = stream_.record(slot.event);
  if (!queued.ok()) {
    for (const Part& part : block.parts) {
      UnderWay& its = find(part.transfer);
      if (its.outcome.ok()) its.outcome = queued;
    }
  }
  if (direction_ == LinkDirection::kToDevice) {
    for (const Part& part : block.parts) {
      if (!part.ends_piece || !find(part.transfer).outcome.ok()) continue;
      tell({part.transfer, part.piece, &slot.event});
    }
  }
  under_way_.push_back({std::move(block), &slot, turn});
}

LinkTurns::TurnId TransferEngine::take_turn(Bytes size, Bytes behind) {
  std::optional<LinkTurns::TurnId> turn;
  while (!(turn = turns_.take(size, behind))) {
    if (under_way_.empty()) {
      turns_.await(kTurnLook);
    } else {
      settle_oldest();
    }
  }
  return *turn;
}

// A part that cannot be had fails only its transfer.
Result<void> TransferEngine::fill(const Block& block, Slot& slot) {
  if (direction_ == LinkDirection::kToHost) return {};
  Bytes end;
  for (const Part& part : block.parts) {
    // What lies between two parts goes along with them: nothing of others.
    memset(slot.memory + end.count, 0, (part.at - end).count);
    end = part.at + part.size;
    UnderWay& its = find(part.transfer);
    if (!its.outcome.ok()) continue;
    its.outcome = read_host_side(its.transfer.pieces[part.piece], part.offset.count,
                                 slot.memory + part.at.count, part.size.count);
  }
  return {};
}

// Parts that lie on the device as they lie in the block are one copy.
Result<void> TransferEngine::queue_copies(const Block& block, const Slot& slot) {
  CUdeviceptr device = 0;
  Bytes begin, end;
  const auto flush = [&]() -> Result<void> {
    if (begin == end) return {};
    return direction_ == LinkDirection::kToDevice
               ? stream_.copy_to_device(device, slot.memory + begin.count, end - begin)
               : stream_.copy_to_host(slot.memory + begin.count, device, end - begin);
  };
  for (const Part& part : block.parts) {
    const UnderWay& its = find(part.transfer);
    if (!its.outcome.ok() || part.size == Bytes(0)) continue;
    const CUdeviceptr lies = its.transfer.pieces[part.piece].device + part.offset.count;
    if (begin != end && lies == device + (part.at - begin).count) {
      end = part.at + part.size;
      continue;
    }
    RETURN_IF_ERROR(flush());
    device = lies;
    begin = part.at;
    end = part.at + part.size;
  }
  return flush();
}

void TransferEngine::settle_oldest() {
  const BlockUnderWay oldest = std::move(under_way_.front());
  under_way_.pop_front();
  const auto arrived = oldest.slot->event.synchronize();
  turns_.arrived(oldest.turn, oldest.block.size);
  for (const Part& part : oldest.block.parts) {
    UnderWay& its = find(part.transfer);
    if (its.outcome.ok()) its.outcome = arrived;
    if (its.outcome.ok() && direction_ == LinkDirection::kToHost) {
      const TransferPiece& piece = its.transfer.pieces[part.piece];
      const char* from = oldest.slot->memory + part.at.count;
      if (piece.pointer != nullptr) {
        memcpy(piece.pointer + part.offset.count, from, part.size.count);
      } else {
        its.outcome = write_fully(piece.fd, part.offset.count, from, part.size.count);
      }
    }
    if (part.ends_transfer) tell({part.transfer, 0, nullptr});
  }
}

TransferEngine::UnderWay& TransferEngine::find(uint64_t transfer) {
  const MutexLock lock(mutex_);
  return *transfers_.at(transfer);
}

void TransferEngine::tell(News news) {
  {
    const MutexLock lock(mutex_);
    news_.push_back(news);
    if (news_.size() > 1) return;  // the loop knows that there is some
  }
  const bool posted = loop_.post([this, alive = alive_] {
    if (*alive) deliver();
  });
  CHECK(posted, "the loop has room for one task an engine");
}

void TransferEngine::deliver() {
  std::vector<News> news;
  {
    const MutexLock lock(mutex_);
    news.swap(news_);
  }
  const auto alive = alive_;
  for (const News& each : news) {
    MutexLock lock(mutex_);
    const auto found = transfers_.find(each.transfer);
    if (each.arrival != nullptr) {
      const auto& on_queued = found->second->transfer.on_queued;
      lock.unlock();
      if (on_queued) on_queued(each.piece, *each.arrival);
    } else {
      const auto ended = std::move(found->second);
      transfers_.erase(found);
      lock.unlock();
      ended->transfer.on_end(std::move(ended->outcome));
    }
    if (!*alive) return;
  }
}

}  // namespace lambent::executor
