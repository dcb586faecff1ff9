#include "decide/dispatch/shared_sandboxes.h"

#include <algorithm>
#include <utility>

#include "core/base/check.h"

namespace lambent::dispatch {

using scheduling::SandboxSlot;

const SharedSandboxes::Turn* SharedSandboxes::find(SandboxSlot slot) const {
  if (turns_.empty()) return nullptr;
  const auto found = turns_.find(slot);
  return found == turns_.end() ? nullptr : &found->second;
}

SharedSandboxes::Turn* SharedSandboxes::find(SandboxSlot slot) {
  return const_cast<Turn*>(std::as_const(*this).find(slot));
}

const std::vector<SandboxSlot>& SharedSandboxes::of(FunctionId function) const {
  static const std::vector<SandboxSlot> none;
  return function.value < by_function_.size() ? by_function_[function.value] : none;
}

void SharedSandboxes::begin(SandboxSlot slot, FunctionId function, Instant now) {
  if (function.value >= by_function_.size()) by_function_.resize(function.value + 1);
  const bool is_new = turns_
                          .try_emplace(slot, Turn{.function = function,
                                                  .others = {},
                                                  .began = now,
                                                  .last_start = now,
                                                  .charged_until = now})
                          .second;
  CHECK(is_new, "a sandbox has one turn at a time");
  by_function_[function.value].push_back(slot);
}

Duration SharedSandboxes::join(SandboxSlot slot, InvocationSlot invocation, Instant now) {
  Turn& turn = turns_.at(slot);
  turn.others.push_back(invocation);
  turn.is_shared = true;
  ++joins_;
  return now - std::exchange(turn.last_start, now);
}

void SharedSandboxes::leave(SandboxSlot slot, InvocationSlot invocation) {
  std::erase(turns_.at(slot).others, invocation);
}

void SharedSandboxes::end(SandboxSlot slot) {
  const auto found = turns_.find(slot);
  if (found == turns_.end()) return;
  std::erase(by_function_[found->second.function.value], slot);
  turns_.erase(found);
}

void SharedSandboxes::archive(StateArchive& archive) {
  archive.field(joins_);
  if (archive.reading()) turns_.clear();
  archive.list(by_function_, [&](std::vector<SandboxSlot>& slots) {
    const FunctionId function{static_cast<uint32_t>(&slots - by_function_.data())};
    archive.list(slots, [&](SandboxSlot& slot) {
      archive.field(slot);
      Turn turn;
      if (!archive.reading()) turn = turns_.at(slot);
      turn.function = function;
      archive.list(turn.others);
      archive.field(turn.began);
      archive.field(turn.last_start);
      archive.field(turn.charged_until);
      archive.field(turn.answered);
      archive.field(turn.is_shared);
      archive.field(turn.is_suspect);
      archive.field(turn.leaves);
      if (!archive.reading() || !archive.ok()) return;
      archive.expect(turns_.try_emplace(slot, std::move(turn)).second);
    });
  });
}

}  // namespace lambent::dispatch
