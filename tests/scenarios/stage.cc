#include "tests/scenarios/stage.h"

namespace lambent::scenario {

using dispatch::Action;

Stage::Stage(const Given& given)
    : functions_(given.functions), tenants_(given.tenants), dispatcher_(given.build()) {
  for (const auto& [name, tenant] : tenants_) give(tenant);
  for (const auto& [name, profile] : functions_) give(dispatch::FunctionRegistered{profile});
}

void Stage::play(Words& words) {
  expect_nothing_more();
  now_ = std::max(now_, Instant(words.duration()));
  const std::string verb = words.take_any();
  const auto sandbox = [&] { return SandboxId{words.count()}; };
  if (verb == "submit") {
    play_submit(words);
  } else if (verb == "ready") {
    const SandboxId id = sandbox();
    const Duration init = words.take("init") ? words.duration() : Duration(0);
    give(dispatch::SandboxReady{.sandbox = id, .init_time = init});
  } else if (verb == "finish" || verb == "error") {
    const InvocationId id = invocation(words.take_any());
    const Duration took = words.take("after") ? words.duration() : seconds(1);
    give(dispatch::InvocationFinished{id, took, verb == "finish"});
  } else if (verb == "gone") {
    give(dispatch::SandboxExited{sandbox(), {}, ""});
  } else if (verb == "crash") {
    give(dispatch::SandboxExited{
        sandbox(), {ErrorCode::kUnknown, "exit status 1"}, "Runtime.ExitError"});
  } else if (verb == "lost") {
    give(dispatch::SandboxExited{
        sandbox(), {ErrorCode::kUnknown, "exit status 0"}, "Runtime.ExitError", true});
  } else if (verb == "undelivered") {
    give(dispatch::InvocationUndelivered{invocation(words.take_any())});
  } else if (verb == "platform-failure") {
    give(dispatch::SandboxExited{
        sandbox(), {ErrorCode::kInternal, "no more processes"}, "Sandbox.Failure"});
  } else if (verb == "moved") {
    play_moved(words);
  } else if (verb == "wants") {
    const SandboxId id = sandbox();
    give(dispatch::MemoryWanted{id, words.bytes()});
  } else if (verb == "cancel") {
    give(dispatch::InvocationCancelled{invocation(words.take_any())});
  } else if (verb == "foresee") {
    dispatch::CallForeseen foreseen{.function = function(words.take_any()).id};
    if (words.take("within")) foreseen.within = words.duration();
    if (words.take("chance")) foreseen.chance = words.number();
    give(foreseen);
  } else if (verb == "crowded-out") {
    give(dispatch::SandboxCrowdedOut{sandbox()});
  } else if (verb == "timer") {
    give(dispatch::TimerFired{});
  } else if (verb == "drain") {
    give(dispatch::DrainStarted{});
  } else if (verb == "redeploy") {
    dispatch::FunctionProfile& profile = function(words.take_any());
    ++profile.revision;
    if (words.take("without-gpu")) profile.device_memory = Bytes(0);
    if (words.take("without-cpu-variant")) profile.has_cpu_variant = false;
    if (words.take("memory")) profile.device_memory = words.bytes();
    if (words.take("host-memory")) profile.host_memory = words.bytes();
    if (words.take("concurrency")) profile.max_concurrency = words.count();
    if (words.take("min-instances")) profile.min_instances = words.count();
    if (words.take("gpus")) profile.gpu_count = words.count();
    if (words.take("in-one-sandbox")) profile.sandbox_concurrency = words.count();
    give(dispatch::FunctionRegistered{profile});
  } else if (verb == "change") {
    // Without another revision: what it has serves on.
    dispatch::FunctionProfile& profile = function(words.take_any());
    words.expect("min-instances");
    profile.min_instances = words.count();
    give(dispatch::FunctionRegistered{profile});
  } else if (verb == "remove") {
    give(dispatch::FunctionRemoved{function(words.take_any()).id});
  } else if (verb == "taken") {
    const DeviceId device{static_cast<uint32_t>(words.count())};
    give(dispatch::DeviceTaken{device, words.bytes()});
  } else if (verb == "tenant") {
    dispatch::TenantChanged& changed = tenant(words.take_any());
    Given::read_tenant(words, changed);
    give(changed);
  } else if (verb == "reading") {
    const DeviceId device{static_cast<uint32_t>(words.count())};
    const bool lost = words.take("lost");
    const bool broken = lost || words.take("broken");
    const double utilisation = broken ? 0 : words.number();
    give(dispatch::DeviceReading{
        .device = device, .utilisation = utilisation, .healthy = !broken, .lost = lost});
  } else {
    throw Failure("'" + verb + "' is no event");
  }
  if (!words.done()) throw Failure("'" + words.take_any() + "' has no meaning here");
}

// moved S in|out|nowhere-in|nowhere-out [left 500MiB] [offloaded 4GiB]
void Stage::play_moved(Words& words) {
  dispatch::MemoryMoved moved{.sandbox = SandboxId{words.count()}, .duration = seconds(1)};
  const std::string way = words.take_any();
  if (way != "in" && way != "out" && way != "nowhere-in" && way != "nowhere-out") {
    throw Failure("memory is moved in, out, nowhere-in or nowhere-out");
  }
  moved.done = way == "in" || way == "out";
  moved.direction = way == "out" || way == "nowhere-out" ? dispatch::MoveDirection::kOut
                                                         : dispatch::MoveDirection::kIn;
  if (words.take("left")) moved.left = words.bytes();
  if (words.take("offloaded")) moved.offloaded = words.bytes();
  give(moved);
}

// submit F [xN] [async] as NAME
void Stage::play_submit(Words& words) {
  const FunctionId id = function(words.take_any()).id;
  uint64_t times = 1;
  bool numbered = false;
  bool asynchronous = false;
  while (!words.next_is("as")) {
    const std::string word = words.take_any();
    if (word == "async") {
      asynchronous = true;
    } else if (word[0] == 'x') {
      times = std::stoull(word.substr(1));
      numbered = true;
    } else {
      throw Failure("'" + word + "' has no meaning here");
    }
  }
  words.expect("as");
  const std::string base = words.take_any();
  for (uint64_t i = 1; i <= times; ++i) {
    const std::string name = numbered ? base + std::to_string(i) : base;
    const InvocationId invocation{1, names_.size() + 1};
    if (!invocations_.emplace(name, invocation).second) throw Failure(name + " is taken");
    names_[invocation] = name;
    give(dispatch::InvocationSubmitted{invocation, id, asynchronous});
  }
}

void Stage::give(const dispatch::Event& event) {
  std::vector<Action> actions;
  dispatcher_->handle(event, now_, actions);
  for (Action& action : actions) {
    if (const auto* wake = std::get_if<dispatch::WakeAt>(&action)) {
      wake_ = wake->instant;
    } else {
      actions_.push_back(std::move(action));
    }
  }
}

void Stage::expect(Words& words) {
  if (expect_state(words)) {
    if (!words.done()) throw Failure("'" + words.take_any() + "' has no meaning here");
    return;
  }
  expect_action(words);
}

void Stage::expect_nothing_more() const {
  if (!actions_.empty()) {
    throw Failure("before this line, the story does not tell: " + describe(actions_.front()));
  }
}

// The line is compared with the action in words; the story may leave out its last words.
void Stage::expect_action(Words& words) {
  std::string expected = words.take_any();
  while (!words.done()) expected += " " + words.take_any();
  if (actions_.empty()) throw Failure("nothing more happened");
  const std::string actual = describe(actions_.front());
  if (actual != expected && actual.rfind(expected + " ", 0) != 0) {
    throw Failure("what happened: " + actual);
  }
  actions_.pop_front();
}

bool Stage::expect_state(Words& words) {
  const auto same = [](const std::string& actual, const std::string& expected) {
    if (actual != expected) throw Failure("it is " + actual);
  };
  if (words.take("nothing")) {
    expect_nothing_more();
  } else if (words.take("flow")) {
    const FunctionId id = function(words.take_any()).id;
    same(std::string(name_of(dispatcher_->status(id, now_).state)), words.take_any());
  } else if (words.take("virtual-time")) {
    const FunctionId id = function(words.take_any()).id;
    same(in_words(dispatcher_->status(id, now_).virtual_time), in_words(words.duration()));
  } else if (words.take("tenant")) {
    expect_tenant(words);
  } else if (words.take("instances")) {
    const auto status = dispatcher_->instances(function(words.take_any()).id);
    same(std::to_string(status.ready), words.take_any());
  } else if (words.take("global-virtual-time")) {
    same(in_words(dispatcher_->policy().global_virtual_time()), in_words(words.duration()));
  } else if (words.take("conserving-dispatches")) {
    same(std::to_string(dispatcher_->policy().conserving_dispatches()), words.take_any());
  } else if (words.take("queued")) {
    const FunctionId id = function(words.take_any()).id;
    same(std::to_string(dispatcher_->flows()[id.value].pending), words.take_any());
  } else if (words.take("tokens-held")) {
    const auto device =
        dispatcher_->fleet().device_index(DeviceId{static_cast<uint32_t>(words.count())});
    if (!device) throw Failure("there is no such device");
    same(std::to_string(dispatcher_->fleet().devices()[*device].tokens_held), words.take_any());
  } else if (words.take("on-device")) {
    const auto device =
        dispatcher_->fleet().device_index(DeviceId{static_cast<uint32_t>(words.count())});
    if (!device) throw Failure("there is no such device");
    same(to_string(dispatcher_->fleet().devices()[*device].resident), to_string(words.bytes()));
  } else if (words.take("on-host")) {
    same(to_string(dispatcher_->fleet().memory().on_host()), to_string(words.bytes()));
  } else if (words.take("waits")) {
    const auto explanation = dispatcher_->explain(invocation(words.take_any()), now_);
    if (!explanation) throw Failure("it has its outcome already");
    same(std::string(name_of(explanation->reason)), words.take_any());
  } else if (words.take("wake-at")) {
    same(in_words(wake_.time_since_epoch()), in_words(words.duration()));
  } else if (words.take("drained")) {
    if (!dispatcher_->drained()) throw Failure("it is not");
  } else {
    return false;
  }
  return true;
}

// expect tenant NAME [running 1] [waiting 2] [service 6s] [gpu-time 30s] [gpu-memory 4GiB]
// [host-memory 8GiB]
void Stage::expect_tenant(Words& words) {
  const TenantId id = tenant(words.take_any()).tenant;
  for (const dispatch::TenantStatus& status : dispatcher_->tenant_status(now_)) {
    if (status.id != id) continue;
    const auto same = [](const std::string& what, const std::string& actual,
                         const std::string& expected) {
      if (actual != expected) throw Failure("its " + what + " is " + actual);
    };
    while (!words.done()) {
      const std::string what = words.take_any();
      if (what == "running") {
        same(what, std::to_string(status.running), words.take_any());
      } else if (what == "waiting") {
        same(what, std::to_string(status.waiting), words.take_any());
      } else if (what == "service") {
        same(what, in_words(status.virtual_service), in_words(words.duration()));
      } else if (what == "gpu-time") {
        same(what, in_words(status.gpu_time_in_hour), in_words(words.duration()));
      } else if (what == "gpu-memory") {
        same(what, to_string(status.gpu_memory), to_string(words.bytes()));
      } else if (what == "host-memory") {
        same(what, to_string(status.host_memory), to_string(words.bytes()));
      } else {
        throw Failure("'" + what + "' is nothing that a tenant has");
      }
    }
    return;
  }
  throw Failure("dispatch knows no such tenant");
}

// "+2+3"
std::string beside_in_words(uint64_t devices) {
  std::string text;
  scheduling::for_each_device_in(devices,
                                 [&](uint32_t index) { text += "+" + std::to_string(index + 1); });
  return text;
}

std::string Stage::describe(const Action& action) const {
  if (const auto* a = std::get_if<dispatch::StartSandbox>(&action)) {
    return "start sandbox " + std::to_string(a->sandbox.value) + " for " +
           name_of_function(a->function) + " on device " + std::to_string(a->device.value) +
           beside_in_words(a->beside) + " revision " + std::to_string(a->revision);
  }
  if (const auto* a = std::get_if<dispatch::StartInvocation>(&action)) {
    return "run " + name_of_invocation(a->invocation) + " in sandbox " +
           std::to_string(a->sandbox.value) + " " + std::string(name_of(a->start));
  }
  if (const auto* a = std::get_if<dispatch::StopSandbox>(&action)) {
    return "stop sandbox " + std::to_string(a->sandbox.value) + " " +
           std::string(name_of(a->reason));
  }
  if (const auto* a = std::get_if<dispatch::CompleteInvocation>(&action)) {
    std::string text = name_of_invocation(a->invocation) + " " + std::string(name_of(a->outcome));
    if (a->error) text += " " + std::string(name_of(a->error->code));
    if (!a->error_type.empty()) text += " " + a->error_type;
    if (a->retry_after > Duration(0)) text += " retry-after " + in_words(a->retry_after);
    if (a->outcome == Outcome::kSucceeded) {
      text += " queue " + in_words(a->phases.queue) + " sandbox " + in_words(a->phases.sandbox) +
              " init " + in_words(a->phases.init) +
              (a->phases.memory > Duration(0) ? " memory " + in_words(a->phases.memory) : "") +
              " run " + in_words(a->phases.run);
    }
    if (a->wait_reason != scheduling::WaitReason::kNone) {
      text += " waited " + std::string(name_of(a->wait_reason));
    }
    if (a->error) text += " saying " + a->error->message;
    return text;
  }
  if (const auto* a = std::get_if<dispatch::MoveMemoryIn>(&action)) {
    return "move memory of sandbox " + std::to_string(a->sandbox.value) + " in";
  }
  if (const auto* a = std::get_if<dispatch::MoveMemoryOut>(&action)) {
    return "move memory of sandbox " + std::to_string(a->sandbox.value) + " out" +
           (a->depth == dispatch::MoveDepth::kContext ? " with-context" : "");
  }
  if (const auto* a = std::get_if<dispatch::GrantMemory>(&action)) {
    return "grant sandbox " + std::to_string(a->sandbox.value) + " " +
           (a->bytes.count > 0 ? to_string(a->bytes) : "nothing");
  }
  return "wake";
}

dispatch::FunctionProfile& Stage::function(const std::string& name) {
  const auto found = functions_.find(name);
  if (found == functions_.end()) throw Failure("there is no function '" + name + "'");
  return found->second;
}

dispatch::TenantChanged& Stage::tenant(const std::string& name) {
  const auto found = tenants_.find(name);
  if (found == tenants_.end()) throw Failure("there is no tenant '" + name + "'");
  return found->second;
}

std::string Stage::name_of_function(FunctionId id) const {
  for (const auto& [name, profile] : functions_) {
    if (profile.id == id) return name;
  }
  return "?";
}

InvocationId Stage::invocation(const std::string& name) const {
  const auto found = invocations_.find(name);
  if (found == invocations_.end()) throw Failure("there is no invocation '" + name + "'");
  return found->second;
}

std::string Stage::name_of_invocation(InvocationId id) const { return names_.at(id); }

}  // namespace lambent::scenario
