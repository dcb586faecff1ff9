// The executor's shares: which multiprocessors a function's kernels may use, changed between two of
// its requests; a handler's, between two of its calls.
#include <cstdio>
#include <utility>

#include "gpu/executor/executor.h"

namespace lambent::executor {

void Executor::find_multiprocessors() {
  auto found = cuda::Multiprocessors::of(driver_, ordinal_);
  if (!found.ok()) return;
  shares_.emplace(found->count(), found->group_size(), found->groups());
  multiprocessors_.emplace(std::move(*found));
}

// Of multiprocessors; none: all.
std::vector<uint32_t> Executor::groups_for(SandboxId seat, uint32_t share) {
  if (!shares_ || multiprocessors_->groups() < 2) {
    if (share < 100 && !std::exchange(has_told_of_shares_, true)) {
      std::fprintf(stderr, "lambent-executor: shares of the multiprocessors are not applied: %s\n",
                   shares_ ? "this device has too few to be split"
                           : "this driver or device has no green contexts");
    }
    return {};
  }
  const ShareBook::Part part = shares_->give(user_of(seat), share);
  const unsigned all = multiprocessors_->count();
  if (share < 100 && part.multiprocessors * 100 != all * share) {
    std::fprintf(stderr, "lambent-executor: a share of %u %% is %u of %u multiprocessors here\n",
                 share, part.multiprocessors, all);
  }
  return part.groups;
}

void Executor::handle(protocol::SetShare message, std::vector<OwnedFd>) {
  Seat* seat = find(message.seat);
  if (seat == nullptr && forward_ != nullptr && forward_->has(message.seat)) {
    return forward_->change_groups(message.seat, groups_for(message.seat, message.share));
  }
  if (seat == nullptr || seat->is_removed || seat->share == message.share) return;
  seat->share = message.share;
  if (seat->loaded != nullptr) change_share(*seat);
}

// The new place is made aside: requests go on where the function is until then.
void Executor::change_share(Seat& seat) {
  auto made = std::make_shared<Result<std::unique_ptr<Placement>>>(Error{});
  loads_->run(
      [this, made, groups = groups_for(seat.id, seat.share),
       has_calls = seat.loaded->program->calls() > 0] {
        *made = loader_->place(groups, has_calls);
      },
      [this, made, id = seat.id, share = seat.share] {
        Seat* seat = find(id);
        const bool is_wanted = seat != nullptr && !seat->is_removed && seat->share == share;
        if (!made->ok()) {
          std::fprintf(stderr, "lambent-executor: a share of %u %% is not applied: %s\n", share,
                       to_string(made->error()).c_str());
          if (is_wanted) {
            connection_.send(protocol::SeatFailed{
                id, made->error().with_context("a share of " + std::to_string(share) + " %")});
          }
          end_if_broken(nullptr, made->error());
          return;
        }
        if (!is_wanted) return;  // another is on its way
        seat->next_placement = std::move(**made);
        if (seat->request == nullptr) settle_in(*seat);
      });
}

// Between two requests.
void Executor::settle_in(Seat& seat) {
  if (seat.next_placement == nullptr) return;
  auto left = std::make_shared<std::unique_ptr<Placement>>(std::move(seat.next_placement));
  left->swap(seat.loaded->placement);
  loads_->run([left] { left->reset(); }, [] {});
}

}  // namespace lambent::executor
