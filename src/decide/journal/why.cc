#include "decide/journal/why.h"

#include <algorithm>
#include <cstdio>
#include <functional>
#include <utility>
#include <vector>

#include "core/domain/function_limits.h"
#include "decide/journal/words.h"

namespace lambent::journal {
namespace {

using namespace dispatch;
using scheduling::WaitReason;

std::string_view sentence_of(WaitReason reason) {
  switch (reason) {
    case WaitReason::kNone:
      return "for no reason that is known";
    case WaitReason::kOwnQueue:
      return "behind others of its function";
    case WaitReason::kConcurrencyLimit:
      return "because its function ran as many as it may";
    case WaitReason::kThrottled:
      return "because its function was too far ahead of the others' share";
    case WaitReason::kBehindOthers:
      return "because other functions came first in the policy's order";
    case WaitReason::kNoToken:
      return "because every device ran as many as it may";
    case WaitReason::kNoMemory:
      return "because no device had that much memory free";
    case WaitReason::kNoSandbox:
      return "because the pool was full of sandboxes at work or waited for";
    case WaitReason::kNoDevice:
      return "because no device was fit for it";
    case WaitReason::kMemoryMoving:
      return "because device memory was on its way";
    case WaitReason::kDraining:
      return "because the worker took no more work";
    case WaitReason::kOwnPool:
      return "because the devices of its function were at work, and no function had more of them";
    case WaitReason::kPoolHandover:
      return "because another function had to finish on the device that it was given";
    case WaitReason::kHostBusy:
      return "because the host's processors ran as many as they may";
    case WaitReason::kWarmElsewhere:
      return "because it was warm on a busy device, and a cold start on an idle one not worth it "
             "yet";
    case WaitReason::kAtWork:
      return "because its sandbox was at work, and a cold start beside it not worth it yet";
    case WaitReason::kTenantConcurrency:
      return "because its tenant had as many invocations at work as its quota allows";
    case WaitReason::kTenantGpuMemory:
      return "because sandboxes at work had the GPU memory that its tenant's quota allows";
    case WaitReason::kTenantHostMemory:
      return "because sandboxes at work had the host memory that its tenant's quota allows";
    case WaitReason::kTenantGpuTime:
      return "because its tenant had used the GPU time that its quota allows in an hour";
    case WaitReason::kTenantAhead:
      return "because its tenant was too far ahead of the other tenants' share";
    case WaitReason::kSlowsOthers:
      return "because beside those at work it would have cost more than to wait for one of them";
    case WaitReason::kGpusNotTogether:
      return "because as many GPUs as its function takes together were not free at once";
    case WaitReason::kGpuReserved:
      return "because GPUs were kept for a function that takes several and had waited for them";
  }
  return "";
}

// Why it runs on the host although its function uses a GPU.
std::string host_reason_in_words(const Explanation& here) {
  using scheduling::HostReason;
  switch (here.host_reason) {
    case HostReason::kNone:
      break;
    case HostReason::kTooLarge:
      return "because no GPU here has the memory that its function asks for";
    case HostReason::kNoDevice:
      return "because no GPU that is large enough is healthy";
    case HostReason::kSmallSpeedup:
      return "because others gain more from a GPU (hybrid=top-share)";
    case HostReason::kTenantQuota:
      return "because a quota of its tenant keeps it from GPUs";
    case HostReason::kTrial:
      return "to learn how long its function takes there";
    case HostReason::kQueue:
      return "because " +
             std::string(here.expected_with_host < here.expected_with_gpu
                             ? "it would end sooner"
                             : "those behind it save more than it loses") +
             ": with a GPU in " + duration_in_words(here.expected_with_gpu) + ", there in " +
             duration_in_words(here.expected_with_host) + ", as far as is known";
  }
  return "";
}

// Those that its function may get: the GPUs', or the host's where it uses none.
std::string slots_in_words(const Dispatcher& dispatcher, bool wants_gpu) {
  std::string text;
  const scheduling::Fleet& fleet = wants_gpu ? dispatcher.fleet() : dispatcher.host_fleet();
  for (const scheduling::Device& device : fleet.devices()) {
    text += (text.empty() ? "" : ", ") + device_in_words(device.options.id) + " has " +
            std::to_string(device.tokens_held) + " of " + std::to_string(device.tokens()) +
            " slots taken" + (device.healthy ? "" : " and is not healthy");
    if (text.size() > 300) return text + ", ...";
  }
  return text;
}

// Who has the slots, since when, and until when at most.
std::vector<std::string> holders_in_words(const Dispatcher& dispatcher, const Names& names,
                                          Instant now) {
  constexpr size_t kMostShown = 8;
  std::vector<std::string> sentences;
  for (const TokenHolder& holder : dispatcher.token_holders(now)) {
    if (sentences.size() == kMostShown) {
      sentences.push_back("and others");
      break;
    }
    std::string sentence = device_in_words(holder.device) + " was held by " +
                           name_in(names, holder.function) + ", for " +
                           duration_in_words(holder.held) + " so far";
    if (holder.state == InvocationState::kStarting) sentence += ", starting";
    // No function has a longer one: it stands for none, as a simulation has it.
    const Duration timeout = dispatcher.flows()[holder.function.value].timeout;
    if (holder.most_left && timeout <= limits::kMostTimeout) {
      sentence += ", for " + duration_in_words(*holder.most_left) + " more at most (its timeout)";
    }
    sentences.push_back(std::move(sentence));
  }
  return sentences;
}

const scheduling::Sandbox* find_sandbox(const Dispatcher& dispatcher, SandboxId id) {
  for (const scheduling::Fleet* fleet : {&dispatcher.fleet(), &dispatcher.host_fleet()}) {
    if (const auto slot = fleet->find(id)) return &fleet->sandbox(*slot);
  }
  return nullptr;
}

}  // namespace

void Why::restored(const SegmentHeader& header, const Dispatcher& dispatcher, const Names&) {
  over_run_ = header.facts.policy_options.mqfq.over_run;
  policy_ = header.facts.policy;
  has_virtual_times_ = policy_.starts_with("mqfq") || policy_ == "density";
  if (outcome_ || (found_ && dispatcher.explain(invocation_, header.now))) return;
  if (found_) {
    say(header.now, "the journal has a gap here; what became of it is not in it");
    queued_ = false;
    return;
  }
  const auto here = dispatcher.explain(invocation_, header.now);
  if (!here) return;
  found_ = true;
  function_ = here->function;
  tenant_ = dispatcher.flows()[function_.value].tenant;
  arrived_ = submitted_ = header.now - here->waited;
  last_ = header.now;
  queued_ = here->state == InvocationState::kQueued;
  reason_ = here->reason;
  say(header.now, "was there already when the journal's oldest segment begins");
}

std::string Why::status_in_words(const Dispatcher& dispatcher, Instant now) const {
  if (!has_virtual_times_ || dispatcher.flows()[function_.value].device_memory.count == 0) {
    return "";
  }
  const scheduling::FlowStatus status = dispatcher.status(function_, now);
  const Duration ahead = status.virtual_time - status.global;
  return "its function's virtual time is " + duration_in_words(status.virtual_time) + ", " +
         duration_in_words(ahead < Duration(0) ? -ahead : ahead) +
         (ahead < Duration(0) ? " behind" : " ahead of") +
         " the global one (T = " + duration_in_words(over_run_) + "): " +
         (status.state == scheduling::FlowState::kThrottled ? "throttled" : "not throttled");
}

void Why::step(const ReplayStep& step) {
  if (const auto* submitted = std::get_if<InvocationSubmitted>(&step.recorded.event);
      submitted != nullptr && submitted->invocation == invocation_ && (!found_ || outcome_)) {
    arrive(step, *submitted);
  }
  if (!found_ || outcome_) return;
  if (function_name_.empty()) function_name_ = name_in(step.names, function_);
  if (names_.empty()) names_ = step.names;
  follow(step);
}

// Nothing of its run before is true of the next one; how long it waited in all is.
void Why::begin_again() {
  outcome_.reset();
  queued_ = cold_ = started_ = waits_for_token_ = false;
  sandbox_ = started_sandbox_ = {};
  evicted_.clear();
  went_first_.clear();
}

void Why::arrive(const ReplayStep& step, const InvocationSubmitted& event) {
  const Dispatcher& dispatcher = step.dispatcher;
  const bool again = found_;
  if (again) begin_again();
  found_ = true;
  function_ = event.function;
  submitted_ = last_ = step.recorded.now;
  if (!again) arrived_ = submitted_;
  asynchronous_ = event.asynchronous;
  std::string sentence = event.asynchronous ? "arrived, asynchronous" : "arrived";
  if (again) sentence = "is tried again, run " + std::to_string(++runs_);
  const bool known = function_.value < dispatcher.flows().size();
  const bool wants_gpu = known && dispatcher.flows()[function_.value].device_memory.count > 0;
  if (known) {
    const scheduling::Flow& flow = dispatcher.flows()[function_.value];
    tenant_ = flow.tenant;
    const auto here = dispatcher.explain(invocation_, submitted_);
    queued_ = here && here->state == InvocationState::kQueued;
    // Those that are dispatched at once are not counted any more.
    const uint64_t own = flow.pending - (queued_ && flow.pending > 0 ? 1 : 0);
    sentence += "; " + std::to_string(own) + " of its function waited before it, " +
                std::to_string(dispatcher.queued() - (queued_ ? 1 : 0)) + " in all; " +
                slots_in_words(dispatcher, wants_gpu);
    if (here) reason_ = here->reason;
  }
  say(submitted_, std::move(sentence));
  if (!known) return;
  if (std::string status = status_in_words(dispatcher, submitted_); !status.empty()) {
    say(submitted_, std::move(status));
  }
  if (queued_ && wants_gpu) {
    for (std::string& sentence : holders_in_words(dispatcher, step.names, submitted_)) {
      say(submitted_, std::move(sentence));
    }
  }
  // Not taken up by follow(): it was not queued before.
  if (!queued_) leave_queue(step);
}

void Why::follow(const ReplayStep& step) {
  const Instant now = step.recorded.now;
  const auto here = step.dispatcher.explain(invocation_, now);
  if (queued_) {
    waits_[reason_] += now - last_;
    untold_waits_[reason_] += now - last_;
    last_ = now;
    if (waits_for_token_) note_place(step);
    if (!here || here->state != InvocationState::kQueued) leave_queue(step);
  } else if (here && here->state == InvocationState::kQueued) {
    const auto* ready = std::get_if<SandboxReady>(&step.recorded.event);
    waits_for_token_ = started_ && ready != nullptr && ready->sandbox == started_sandbox_;
    say(now, waits_for_token_ ? "its sandbox is ready, and waits for a slot of its device"
                              : "went back into the queue: its place was no more");
    started_ = waits_for_token_;
    sandbox_ = {};
    queued_ = true;
    last_ = now;
  }
  if (here) reason_ = here->reason;
  note_actions(step);
}

// Whether the sandbox that waits for a token is still there.
void Why::note_place(const ReplayStep& step) {
  const auto* exited = std::get_if<SandboxExited>(&step.recorded.event);
  bool is_gone = exited != nullptr && exited->sandbox == started_sandbox_;
  for (const Action& action : step.actions) {
    const auto* stop = std::get_if<StopSandbox>(&action);
    is_gone = is_gone || (stop != nullptr && stop->sandbox == started_sandbox_);
  }
  if (!is_gone) return;
  say(step.recorded.now, "went back into the queue: its place was no more");
  waits_for_token_ = started_ = false;
}

// Whether its sandbox was started before it came, and why.
void Why::note_foreseen(const ReplayedDecision& decision) {
  const scheduling::Fleet& fleet = decision.dispatcher.fleet();
  for (const scheduling::SandboxSlot slot : fleet.all()) {
    const scheduling::Sandbox& sandbox = fleet.sandbox(slot);
    const bool starts = is_start(sandbox.state) && !sandbox.has_invocation;
    const bool rests = sandbox.state == scheduling::SandboxState::kIdle && sandbox.served == 0;
    if (sandbox.function != decision.function || (!starts && !rests)) continue;
    const auto expected = fleet.foresight().expectation(decision.function);
    char chance[16];
    std::snprintf(chance, sizeof(chance), "%.0f %%", 100 * expected.chance);
    say(decision.now, "its sandbox was started ahead " +
                          duration_in_words(decision.now - expected.at) +
                          " before, because a call was expected within " +
                          duration_in_words(expected.within) + " (" + chance + " of such gaps, " +
                          duration_in_words(expected.silence) + " after the call before)");
    return;
  }
}

// Of those that are dispatched while it waits: what the policy saw then.
void Why::decided(const ReplayedDecision& decision) {
  if (decision.invocation == invocation_) note_foreseen(decision);
  if (!found_ || outcome_ || !queued_ || decision.invocation == invocation_) return;
  const scheduling::Flows& flows = decision.dispatcher.flows();
  const bool uses_gpu = flows[function_.value].device_memory.count > 0;
  if (uses_gpu == (decision.device == scheduling::kHostDevice)) return;
  ++untold_first_[decision.function];
  const auto found =
      std::find_if(went_first_.begin(), went_first_.end(),
                   [&](const WentFirst& each) { return each.function == decision.function; });
  if (found != went_first_.end()) {
    ++found->count;
    return;
  }
  const auto side = [&](FunctionId function) {
    const scheduling::Flow& flow = flows[function.value];
    return WentFirst::Side{decision.dispatcher.status(function, decision.now),
                           flow.pending,
                           flow.in_flight,
                           flow.sheds,
                           flow.tenant,
                           decision.dispatcher.policy().tenant_virtual_time(flow.tenant_slot)};
  };
  went_first_.push_back({decision.function, 1, side(decision.function), side(function_)});
}

// Why that one's function came first, as far as it is the policy's order.
std::string Why::order_in_words(const WentFirst& other) const {
  const auto& its = other.its;
  const auto& own = other.own;
  if (!has_virtual_times_ || other.function == function_) return "";
  if (its.tenant != own.tenant) {
    return "; tenant " + std::to_string(its.tenant.value) + " came before this one's, " +
           std::to_string(own.tenant.value) + " (virtual times of tenants " +
           duration_in_words(its.tenant_time) + " and " + duration_in_words(own.tenant_time) + ")";
  }
  const std::string virtual_times = "virtual times " + duration_in_words(its.status.virtual_time) +
                                    " and " + duration_in_words(own.status.virtual_time);
  if (own.status.state == scheduling::FlowState::kThrottled) {
    return "; this one's function was throttled (" + virtual_times + ")";
  }
  const auto at_work = [&](const std::string& first, const std::string& then) {
    return first + std::to_string(its.in_flight) + " and " + std::to_string(own.in_flight) + then;
  };
  if (its.status.due == kNever || own.status.due == kNever) {
    return "; it had " + std::to_string(its.pending) + " waiting, this one's function " +
           std::to_string(own.pending) + at_work(", at work ", ", ") + virtual_times;
  }
  const Duration ahead = own.status.due - its.status.due;
  std::string words = "; by wait and cost its turn was due " +
                      duration_in_words(std::max(ahead, -ahead)) +
                      (ahead < Duration(0) ? " after" : " before") + " this one's";
  if (own.in_flight > 0) {
    words += at_work(", but those with nothing at work come first (", ")");
  } else if (own.sheds) {
    words += ", but those that ask for more than their share come last";
  } else if (ahead < Duration(0)) {
    words += ", but there was no place for this one";
  }
  return words;
}

std::vector<std::string> Why::waits_in_words() const {
  std::vector<std::string> sentences;
  std::vector<std::pair<WaitReason, Duration>> waits(untold_waits_.begin(), untold_waits_.end());
  std::ranges::stable_sort(waits, std::greater{}, &std::pair<WaitReason, Duration>::second);
  for (const auto& [reason, waited] : waits) {
    if (waited == Duration(0)) continue;
    sentences.push_back("had waited " + duration_in_words(waited) + " " +
                        (waits_for_token_ ? "for that slot" : std::string(sentence_of(reason))) +
                        " (" + std::string(name_of(reason)) + ")");
  }
  for (const WentFirst& other : went_first_) {
    const auto untold = untold_first_.find(other.function);
    if (untold == untold_first_.end()) continue;
    sentences.push_back(std::to_string(untold->second) + " of " + name_in(names_, other.function) +
                        " went first" +
                        (untold->second == other.count ? order_in_words(other) : ""));
  }
  return sentences;
}

void Why::tell_waits(Instant now) {
  for (std::string& sentence : waits_in_words()) say(now, std::move(sentence));
  untold_waits_.clear();
  untold_first_.clear();
}

// It was dispatched at this event, unless it has its outcome.
void Why::leave_queue(const ReplayStep& step) {
  queued_ = false;
  const Instant now = step.recorded.now;
  tell_waits(now);
  const bool had_place = std::exchange(waits_for_token_, false);
  const auto here = step.dispatcher.explain(invocation_, now);
  if (!here || had_place) return;
  if (here->host_reason != scheduling::HostReason::kNone) {
    say(now, "goes to the host's processors " + host_reason_in_words(*here));
  } else if (std::string status = status_in_words(step.dispatcher, now);
             !status.empty() && now != submitted_) {
    say(now, "was dispatched; with the charge for it " + status);
  } else if (now != submitted_) {
    say(now, "was dispatched");
  }
  cold_ = here->state == InvocationState::kStarting;
  note_moves_out(step);
  if (!cold_) return;
  for (const Action& action : step.actions) {
    const auto* stop = std::get_if<StopSandbox>(&action);
    if (stop == nullptr || stop->reason != StopReason::kEvicted) continue;
    const scheduling::Sandbox* victim = find_sandbox(step.dispatcher, stop->sandbox);
    std::string words = "sandbox " + std::to_string(stop->sandbox.value);
    if (victim != nullptr) {
      words += " of " + name_in(step.names, victim->function) + " (" + to_string(victim->memory) +
               ", idle for " + duration_in_words(now - victim->last_used) + ")";
    }
    evicted_.push_back(std::move(words));
  }
  for (const std::string& victim : evicted_) {
    say(now, victim + " was evicted to make room for it");
  }
}

// Who makes room on the devices at the event that dispatched it.
void Why::note_moves_out(const ReplayStep& step) {
  for (const Action& action : step.actions) {
    const auto* out = std::get_if<MoveMemoryOut>(&action);
    const scheduling::Sandbox* victim =
        out == nullptr ? nullptr : find_sandbox(step.dispatcher, out->sandbox);
    if (victim == nullptr) continue;
    say(step.recorded.now, "memory of sandbox " + std::to_string(out->sandbox.value) + " of " +
                               name_in(step.names, victim->function) + " (" +
                               to_string(victim->memory) + ") is moved out to make room");
  }
}

void Why::note_actions(const ReplayStep& step) {
  const Instant now = step.recorded.now;
  if (const auto* moved = std::get_if<MemoryMoved>(&step.recorded.event);
      moved != nullptr && moved->sandbox == sandbox_) {
    say(now, in_words(step.recorded.event, step.names));
  }
  if (const auto* wanted = std::get_if<MemoryWanted>(&step.recorded.event);
      wanted != nullptr && wanted->sandbox == sandbox_) {
    say(now, in_words(step.recorded.event, step.names));
  }
  for (const Action& action : step.actions) {
    if (const auto* grant = std::get_if<GrantMemory>(&action);
        grant != nullptr && grant->sandbox == sandbox_) {
      say(now, grant->bytes.count > 0
                   ? "it may fetch " + to_string(grant->bytes) + " onto the device"
                   : "it gets no room for that on the device: it is used where it lies");
    }
    if (const auto* start = std::get_if<StartSandbox>(&action);
        start != nullptr && cold_ && !started_ && start->function == function_) {
      started_ = true;
      started_sandbox_ = start->sandbox;
      say(now, "cold: sandbox " + std::to_string(start->sandbox.value) + " is started for it on " +
                   devices_in_words(start->device, start->beside));
    }
    if (const auto* run = std::get_if<StartInvocation>(&action);
        run != nullptr && run->invocation == invocation_) {
      sandbox_ = run->sandbox;
      say(now, "begins to run in sandbox " + std::to_string(run->sandbox.value) + " on " +
                   devices_in_words(run->device, run->beside) + ", " +
                   std::string(name_of(run->start)));
    }
    if (const auto* in = std::get_if<MoveMemoryIn>(&action);
        in != nullptr && in->sandbox == sandbox_) {
      say(now, "its memory begins to move in");
    }
    if (const auto* done = std::get_if<CompleteInvocation>(&action);
        done != nullptr && done->invocation == invocation_) {
      complete(step, *done);
    }
  }
}

void Why::complete(const ReplayStep& step, const CompleteInvocation& action) {
  outcome_ = action;
  std::string sentence(name_of(action.outcome));
  if (action.error) {
    sentence += ", " + std::string(name_of(action.error->code));
    if (!action.error->message.empty()) sentence += ": " + action.error->message;
  }
  if (!action.error_type.empty()) sentence += " (" + action.error_type + ")";
  sentence +=
      "; queue " + duration_in_words(action.phases.queue) + ", sandbox " +
      duration_in_words(action.phases.sandbox) + ", init " + duration_in_words(action.phases.init) +
      (action.phases.memory > Duration(0) ? ", memory " + duration_in_words(action.phases.memory)
                                          : std::string()) +
      ", run " + duration_in_words(action.phases.run);
  say(step.recorded.now, std::move(sentence));
}

std::string Why::text() const {
  std::string text = "invocation " + to_string(invocation_) + " of " + function_name_ +
                     ", tenant " + std::to_string(tenant_.value) + "\n";
  const auto line = [&](Instant now, const std::string& sentence) {
    char at[32];
    std::snprintf(at, sizeof(at), "%+12.6f s  ", to_seconds(now - arrived_));
    text += at + sentence + "\n";
  };
  for (const Moment& moment : moments_) line(moment.now, moment.sentence);
  for (const std::string& sentence : waits_in_words()) line(last_, sentence);
  if (!outcome_) text += "              the journal ends before it has its outcome\n";
  return text;
}

}  // namespace lambent::journal
