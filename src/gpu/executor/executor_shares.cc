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
std::vector<uint32_t> Executor::groups_for(SandboxId instance, uint32_t share) {
  if (!shares_ || multiprocessors_->groups() < 2) {
    if (share < 100 && !std::exchange(has_told_of_shares_, true)) {
      std::fprintf(stderr, "lambent-executor: shares of the multiprocessors are not applied: %s\n",
                   shares_ ? "this device has too few to be split"
                           : "this driver or device has no green contexts");
    }
    return {};
  }
  const ShareTable::Part part = shares_->give(user_of(instance), share);
  const unsigned all = multiprocessors_->count();
  if (share < 100 && part.multiprocessors * 100 != all * share) {
    std::fprintf(stderr, "lambent-executor: a share of %u %% is %u of %u multiprocessors here\n",
                 share, part.multiprocessors, all);
  }
  return part.groups;
}

void Executor::handle(protocol::SetShare message, std::vector<OwnedFd>) {
  Instance* instance = find(message.instance);
  if (instance == nullptr && forward_ != nullptr && forward_->has(message.instance)) {
    return forward_->change_groups(message.instance, groups_for(message.instance, message.share));
  }
  if (instance == nullptr || instance->is_removed || instance->share == message.share) return;
  instance->share = message.share;
  if (instance->loaded != nullptr) change_share(*instance);
}

// The new place is made aside: requests go on where the function is until then.
void Executor::change_share(Instance& instance) {
  auto made = std::make_shared<Result<std::unique_ptr<Placement>>>(Error{});
  loads_->run(
      [this, made, groups = groups_for(instance.id, instance.share),
       has_calls = instance.loaded->program->calls() > 0] {
        *made = loader_->place(groups, has_calls);
      },
      [this, made, id = instance.id, share = instance.share] {
        Instance* instance = find(id);
        const bool is_wanted =
            instance != nullptr && !instance->is_removed && instance->share == share;
        if (!made->ok()) {
          std::fprintf(stderr, "lambent-executor: a share of %u %% is not applied: %s\n", share,
                       to_string(made->error()).c_str());
          if (is_wanted) {
            connection_.send(protocol::InstanceFailed{
                id, made->error().with_context("a share of " + std::to_string(share) + " %")});
          }
          end_if_broken(nullptr, made->error());
          return;
        }
        if (!is_wanted) return;  // another is on its way
        instance->next_placement = std::move(**made);
        if (instance->request == nullptr) settle_in(*instance);
      });
}

// Between two requests.
void Executor::settle_in(Instance& instance) {
  if (instance.next_placement == nullptr) return;
  auto left = std::make_shared<std::unique_ptr<Placement>>(std::move(instance.next_placement));
  left->swap(instance.loaded->placement);
  loads_->run([left] { left->reset(); }, [] {});
}

}  // namespace lambent::executor
