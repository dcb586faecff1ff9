// The executor's shares: which multiprocessors a function's kernels may use, changed between two of
// its requests; a handler's, between two of its calls.
#include <cstdio>
#include <utility>

#include "gpu/executor/executor.h"

namespace lambent::executor {

void Executor::handle(protocol::SetShare message, std::vector<OwnedFd>) {
  Instance* instance = find(message.instance);
  if (instance == nullptr && forward_ != nullptr && forward_->has(message.instance)) {
    return forward_->change_groups(message.instance, shares_.give(message.instance, message.share));
  }
  if (instance == nullptr || instance->is_removed || instance->share == message.share) return;
  instance->share = message.share;
  if (instance->loaded != nullptr) change_share(*instance);
}

// The new place is made aside: requests go on where the function is until then.
void Executor::change_share(Instance& instance) {
  auto made = std::make_shared<Result<std::unique_ptr<Placement>>>(Error{});
  loads_->run(
      [this, made, groups = shares_.give(instance.id, instance.share),
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
          watch_.end_if_broken(made->error());
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
