// Where a layer finds too little memory: free pages of other windows are loosened, what could go
// elsewhere goes to the device, and it is asked again whenever a request has given some back.
#include <utility>

#include "gpu/executor/layered_memory.h"

namespace lambent::executor {

void LayeredMemory::find_room(Instance& instance, Bytes size) {
  // What is being unmapped is there, or loose, when that is done.
  const bool is_short = instance.lack->code == ErrorCode::kResourceExhausted;
  if (is_short && !std::exchange(instance.has_loosened, true)) {
    return give([pool = pool_.get(), size] { pool->loosen(size); });
  }
  if (is_short && hooks_.make_room && !std::exchange(instance.has_made_room, true)) {
    Room room = hooks_.make_room(size);
    if (room.give) return give(std::move(room.give), std::move(room.then));
  }
  fail_if_stuck();
}

// Where none can go on, the youngest request fails: the others then have what it had.
void LayeredMemory::fail_if_stuck() {
  if (giving_ > 0 || (hooks_.waits && hooks_.waits())) return;
  Instance* youngest = nullptr;
  SandboxId failed;
  for (auto& [id, instance] : instances_) {
    if (!instance.runs) continue;
    const bool is_stuck = instance.lack.has_value() && instance.ended == instance.there;
    if (!is_stuck && instance.count > 0) return;  // it will give that back
    if (is_stuck && (youngest == nullptr || instance.request > youngest->request)) {
      youngest = &instance;
      failed = id;
    }
  }
  if (youngest == nullptr) return;  // its layer runs
  youngest->failure = youngest->lack->with_context("memory for a layer");
  youngest->lack.reset();
  hooks_.progress(failed);
}

void LayeredMemory::give(std::function<void()> work, std::function<void()> then) {
  ++giving_;
  gives_.run(std::move(work), [this, then = std::move(then)] {
    --giving_;
    if (then) then();
    retry();
  });
}

// Behind what was given back on the other thread.
void LayeredMemory::give_to_device(std::function<void()> then) {
  takes_.run([] {},
             [this, then = std::move(then)]() mutable {
               give([pool = pool_.get()] { pool->shrink(pool->size()); }, std::move(then));
             });
}

void LayeredMemory::room_came() {
  for (auto& [id, instance] : instances_) instance.has_made_room = false;
  pages_came();
}

void LayeredMemory::pages_came() {
  for (auto& [id, instance] : instances_) instance.has_loosened = false;
  retry();
}

void LayeredMemory::retry() {
  ++gains_;
  for (auto& [id, instance] : instances_) {
    if (!instance.lack) continue;
    instance.lack.reset();
    prepare(id, instance);
  }
}

}  // namespace lambent::executor
