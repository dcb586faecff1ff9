#include "executor/executor.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace lambent::executor {
namespace {

constexpr Duration kLookPeriod = milliseconds(250);

}  // namespace

Result<std::unique_ptr<Executor>> Executor::create(loop::EventLoop& loop,
                                                   const cuda::Driver& driver,
                                                   const cuda::Context& context, OwnedFd socket,
                                                   int ordinal, std::function<void(int)> on_end) {
  std::unique_ptr<Executor> executor(
      new Executor(loop, driver, context, std::move(socket), ordinal, std::move(on_end)));
  RETURN_IF_ERROR(executor->start());
  return executor;
}

Executor::Executor(loop::EventLoop& loop, const cuda::Driver& driver, const cuda::Context& context,
                   OwnedFd socket, int ordinal, std::function<void(int)> on_end)
    : loop_(loop),
      driver_(driver),
      context_(context),
      ordinal_(ordinal),
      on_end_(std::move(on_end)),
      connection_(
          loop, std::move(socket),
          [this](protocol::ExecutorMessage message, std::vector<OwnedFd> fds) {
            handle(std::move(message), std::move(fds));
          },
          [this] {
            if (!std::exchange(ended_, true)) on_end_(0);
          }) {}

Result<void> Executor::start() {
  ASSIGN_OR_RETURN(const auto capability, context_.compute_capability());
  ASSIGN_OR_RETURN(pool_, MemoryPool::create(driver_, ordinal_));
  store_ = std::make_unique<DeviceStore>(*pool_);
  loader_ = std::make_unique<SeatLoader>(driver_, capability);
  ASSIGN_OR_RETURN(in_copier_, Copier::create(driver_));
  ASSIGN_OR_RETURN(out_copier_, Copier::create(driver_));
  for (auto* thread : {&loads_, &content_copies_, &copies_in_, &copies_out_}) {
    *thread = std::make_unique<DeviceThread>(loop_, context_);
  }
  Contents::Hooks hooks;
  hooks.open = [this](ObjectId object) { connection_.send(protocol::OpenObject{object}); };
  hooks.progress = [this] { progress(); };
  ASSIGN_OR_RETURN(contents_,
                   Contents::create(driver_, *store_, *content_copies_, std::move(hooks)));
  look_after_requests();
  return {};
}

Executor::~Executor() {
  // Work on other threads ends before what it uses goes.
  loads_.reset();
  content_copies_.reset();
  copies_in_.reset();
  copies_out_.reset();
}

void Executor::say_hello(Duration context_time) {
  connection_.send(protocol::ExecutorHello{.context_time = context_time});
}

void Executor::handle(protocol::ExecutorMessage message, std::vector<OwnedFd> fds) {
  if (ended_) return;
  std::visit([&](auto& each) { handle(std::move(each), std::move(fds)); }, message);
}

Executor::Seat* Executor::find(SandboxId id) {
  const auto found = seats_.find(id);
  return found == seats_.end() ? nullptr : found->second.get();
}

Executor::Seat* Executor::find_request(SandboxId id, uint64_t request) {
  Seat* seat = find(id);
  const bool is_there = seat != nullptr && seat->request != nullptr;
  return is_there && seat->request->number == request ? seat : nullptr;
}

// A content came, or failed: whoever waits for some looks again.
void Executor::progress() {
  std::vector<SandboxId> waiting;
  for (const auto& [id, seat] : seats_) {
    const bool request_waits =
        seat->request != nullptr && seat->request->stage == RequestUnderWay::Stage::kContents;
    if (seat->is_arriving || request_waits) waiting.push_back(id);
  }
  for (const SandboxId id : waiting) {
    if (Seat* seat = find(id); seat != nullptr && seat->is_arriving) arrive(*seat);
    Seat* seat = find(id);
    if (seat != nullptr && seat->request != nullptr &&
        seat->request->stage == RequestUnderWay::Stage::kContents) {
      gather(*seat);
    }
  }
}

bool Executor::end_if_broken(Seat* seat, const Error& error) {
  if (ended_) return true;
  // A broken context says so at every call, this one included.
  const CUresult state = driver_->stream_query(nullptr);
  if (state == CUDA_SUCCESS || state == CUDA_ERROR_NOT_READY) return false;
  ended_ = true;
  // Every stream tells of it, and every call: only one that is under way alone is known to have
  // done it.
  const auto under_way = std::count_if(seats_.begin(), seats_.end(), [](const auto& entry) {
    return entry.second->request != nullptr;
  });
  if (seat != nullptr && seat->request != nullptr && !seat->is_removed && under_way == 1) {
    protocol::Finished finished;
    finished.invocation = seat->request->message.invocation;
    finished.error = error;
    connection_.send(std::move(finished));
  }
  connection_.send(protocol::Broken{error});
  connection_.flush();
  on_end_(1);
  return true;
}

void Executor::look_after_requests() {
  loop_.call_after(kLookPeriod, [this] {
    if (ended_) return;
    for (const auto& [id, seat] : seats_) {
      if (seat->request == nullptr || seat->loaded == nullptr) continue;
      const auto idle = seat->loaded->stream->is_idle();
      if (!idle.ok() && end_if_broken(seat.get(), idle.error())) return;
    }
    look_after_requests();
  });
}

}  // namespace lambent::executor
