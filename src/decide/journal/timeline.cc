#include "decide/journal/timeline.h"

#include <cstdio>

#include "core/base/log.h"
#include "decide/journal/words.h"

namespace lambent::journal {
namespace {

using namespace dispatch;

// The queue's process; devices have their ids, the host has 0.
constexpr uint32_t kQueueProcess = 1'000'000;

std::string quoted(std::string_view text) { return "\"" + json_escape(text) + "\""; }

}  // namespace

Timeline::Timeline(std::ostream& out) : out_(out) {
  out_ << "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[";
  process(kQueueProcess, "dispatch");
}

void Timeline::put(std::string_view phase, Instant at, uint32_t process, uint32_t row,
                   const std::string& rest) {
  char head[128];
  // Microseconds, as the format wants, with what is below them behind the point.
  const int64_t ns = at.time_since_epoch().count();
  std::snprintf(head, sizeof(head), "%s\n{\"ph\":\"%.*s\",\"ts\":%lld.%03d,\"pid\":%u,\"tid\":%u,",
                first_ ? "" : ",", static_cast<int>(phase.size()), phase.data(),
                static_cast<long long>(ns / 1000), static_cast<int>(ns % 1000), process, row);
  first_ = false;
  out_ << head << rest << "}";
}

void Timeline::process(uint32_t process, const std::string& name) {
  put("M", Instant{}, process, 0,
      "\"name\":\"process_name\",\"args\":{\"name\":" + quoted(name) + "}");
}

void Timeline::begin(const Dispatcher& dispatcher, Instant now, const NameOf& name_of) {
  // After a gap it is unknown what became of what was under way.
  while (!places_.empty()) leave(places_.begin()->first, name_of);
  running_.clear();
  now_ = now;
  for (const scheduling::Device& device : dispatcher.fleet().devices()) {
    place_of(SandboxId{0}, device.options.id);
    leave(SandboxId{0}, name_of);
  }
  for (const scheduling::Fleet* fleet : {&dispatcher.fleet(), &dispatcher.host_fleet()}) {
    for (const scheduling::SandboxSlot slot : fleet->all()) {
      const scheduling::Sandbox& sandbox = fleet->sandbox(slot);
      if (sandbox.state == scheduling::SandboxState::kPlanned) continue;
      Place& place = place_of(sandbox.id, fleet->devices()[sandbox.device].options.id);
      place.function = sandbox.function;
      place.since = now;
      place.starting = sandbox.state == scheduling::SandboxState::kStarting;
    }
  }
}

// The row of a sandbox; a new one takes the lowest that is free.
Timeline::Place& Timeline::place_of(SandboxId sandbox, DeviceId device) {
  const auto [found, is_new] = places_.try_emplace(sandbox);
  if (is_new) take_row(found->second, device);
  return found->second;
}

void Timeline::take_row(Place& place, DeviceId device) {
  place.device = device.value;
  if (place.device >= rows_.size()) rows_.resize(place.device + 1);
  if (place.device >= processes_.size()) processes_.resize(place.device + 1);
  if (!processes_[place.device]) {
    processes_[place.device] = true;
    process(place.device, device_in_words(device));
  }
  std::vector<bool>& rows = rows_[place.device];
  while (place.row < rows.size() && rows[place.row]) ++place.row;
  if (place.row == rows.size()) {
    rows.push_back(false);
    put("M", Instant{}, place.device, place.row,
        "\"name\":\"thread_name\",\"args\":{\"name\":\"place " + std::to_string(place.row + 1) +
            "\"}");
  }
  rows[place.row] = true;
}

void Timeline::add(const Event& event, Instant now, const std::vector<Action>& actions,
                   const Dispatcher& dispatcher, const NameOf& name_of) {
  now_ = now;
  if (const auto* submitted = std::get_if<InvocationSubmitted>(&event)) {
    if (invocations_.try_emplace(submitted->invocation, Waiting{submitted->function}).second) {
      put("b", now_, kQueueProcess, 0,
          "\"cat\":\"invocation\",\"id\":" + quoted(to_string(submitted->invocation)) +
              ",\"name\":" + quoted(name_of(submitted->function)));
    }
  }
  if (const auto* ready = std::get_if<SandboxReady>(&event)) {
    const auto place = places_.find(ready->sandbox);
    if (place != places_.end() && place->second.starting) {
      close_span(place->second, "ready", name_of);
    }
  }
  if (const auto* exited = std::get_if<SandboxExited>(&event)) leave(exited->sandbox, name_of);
  if (const auto* returned = std::get_if<InvocationUndelivered>(&event)) {
    leave_joined(returned->invocation, "undelivered", name_of);
  }
  if (const auto* moved = std::get_if<MemoryMoved>(&event)) {
    memory_moment(moved->sandbox, std::string("memory moved ") +
                                      std::string(dispatch::name_of(moved->direction)) +
                                      (moved->done ? "" : ": failed"));
  }
  if (const auto* wanted = std::get_if<MemoryWanted>(&event)) {
    memory_moment(wanted->sandbox, "offloaded memory is wanted");
  }
  for (const Action& action : actions) {
    if (const auto* one = std::get_if<GrantMemory>(&action)) {
      memory_moment(one->sandbox,
                    one->bytes.count > 0 ? "memory is fetched" : "memory stays offloaded");
    }
    if (const auto* one = std::get_if<MoveMemoryIn>(&action)) {
      memory_moment(one->sandbox, "memory moves in");
    }
    if (const auto* one = std::get_if<MoveMemoryOut>(&action)) {
      memory_moment(one->sandbox, "memory moves out");
    }
    if (const auto* one = std::get_if<StartSandbox>(&action)) start(*one, dispatcher, name_of);
    if (const auto* one = std::get_if<StartInvocation>(&action)) run(*one);
    if (const auto* one = std::get_if<CompleteInvocation>(&action)) complete(*one, name_of);
    if (const auto* one = std::get_if<StopSandbox>(&action)) {
      const auto place = places_.find(one->sandbox);
      if (place == places_.end()) continue;
      close_span(place->second, "stopped", name_of);
      put("i", now_, place->second.device, place->second.row,
          "\"s\":\"t\",\"cat\":\"stop\",\"name\":" + quoted(dispatch::name_of(one->reason)));
    }
  }
  counters(dispatcher);
}

void Timeline::memory_moment(SandboxId sandbox, std::string_view what) {
  const auto place = places_.find(sandbox);
  if (place == places_.end()) return;
  put("i", now_, place->second.device, place->second.row,
      "\"s\":\"t\",\"cat\":\"memory\",\"name\":" + quoted(what));
}

void Timeline::start(const StartSandbox& action, const Dispatcher&, const NameOf&) {
  Place& place = place_of(action.sandbox, action.device);
  place.function = action.function;
  place.since = now_;
  place.starting = true;
}

void Timeline::run(const StartInvocation& action) {
  Place& place = place_of(action.sandbox, action.device);
  if (place.running) return join(action);
  const auto known = invocations_.find(action.invocation);
  if (known != invocations_.end()) place.function = known->second.function;
  place.since = now_;
  place.starting = false;
  place.running = true;
  place.invocation = action.invocation;
  running_[action.invocation] = action.sandbox;
}

// One more in a sandbox at work.
void Timeline::join(const StartInvocation& action) {
  Place place;
  take_row(place, action.device);
  place.function = places_.at(action.sandbox).function;
  place.since = now_;
  place.running = true;
  place.invocation = action.invocation;
  joined_[action.invocation] = place;
}

void Timeline::leave_joined(InvocationId invocation, std::string_view how, const NameOf& name_of) {
  const auto found = joined_.find(invocation);
  if (found == joined_.end()) return;
  close_span(found->second, how, name_of);
  rows_[found->second.device][found->second.row] = false;
  joined_.erase(found);
}

void Timeline::complete(const CompleteInvocation& action, const NameOf& name_of) {
  leave_joined(action.invocation, lambent::name_of(action.outcome), name_of);
  if (const auto run = running_.find(action.invocation); run != running_.end()) {
    if (const auto place = places_.find(run->second); place != places_.end()) {
      close_span(place->second, lambent::name_of(action.outcome), name_of);
    }
    running_.erase(action.invocation);
  }
  const auto known = invocations_.find(action.invocation);
  if (known == invocations_.end()) return;
  char phases[192];
  std::snprintf(phases, sizeof(phases),
                "\"queue_ms\":%.6f,\"sandbox_ms\":%.6f,\"init_ms\":%.6f,\"memory_ms\":%.6f,"
                "\"run_ms\":%.6f",
                to_milliseconds(action.phases.queue), to_milliseconds(action.phases.sandbox),
                to_milliseconds(action.phases.init), to_milliseconds(action.phases.memory),
                to_milliseconds(action.phases.run));
  put("e", now_, kQueueProcess, 0,
      "\"cat\":\"invocation\",\"id\":" + quoted(to_string(action.invocation)) +
          ",\"name\":" + quoted(name_of(known->second.function)) +
          ",\"args\":{\"outcome\":" + quoted(lambent::name_of(action.outcome)) +
          ",\"start\":" + quoted(lambent::name_of(action.start)) + ",\"waited_for\":" +
          quoted(scheduling::name_of(action.wait_reason)) + "," + phases + "}");
  invocations_.erase(known);
}

void Timeline::close_span(Place& place, std::string_view how, const NameOf& name_of) {
  if (!place.starting && !place.running) return;
  const std::string function = name_of(place.function);
  const int64_t length_ns = (now_ - place.since).count();
  char length[48];
  std::snprintf(length, sizeof(length), "\"dur\":%lld.%03d,",
                static_cast<long long>(length_ns / 1000), static_cast<int>(length_ns % 1000));
  std::string rest = length;
  rest += place.running ? "\"cat\":\"run\",\"name\":" + quoted(function)
                        : "\"cat\":\"cold start\",\"name\":" + quoted("cold start of " + function);
  rest += ",\"args\":{\"end\":" + quoted(how);
  if (place.running) rest += ",\"invocation\":" + quoted(to_string(place.invocation));
  put("X", place.since, place.device, place.row, rest + "}");
  place.starting = false;
  place.running = false;
}

void Timeline::leave(SandboxId sandbox, const NameOf& name_of) {
  const auto found = places_.find(sandbox);
  if (found == places_.end()) return;
  close_span(found->second, "gone", name_of);
  rows_[found->second.device][found->second.row] = false;
  places_.erase(found);
}

void Timeline::counters(const Dispatcher& dispatcher) {
  counter(kQueueProcess, "waiting", static_cast<double>(dispatcher.queued()));
  counter(kQueueProcess, "in flight", static_cast<double>(dispatcher.in_flight()));
  counter(kQueueProcess, "global virtual time, s",
          to_seconds(dispatcher.policy().global_virtual_time()));
  for (const scheduling::Device& device : dispatcher.fleet().devices()) {
    counter(device.options.id.value, "slots taken", device.tokens_held);
    counter(device.options.id.value, "utilisation, %", device.utilisation * 100);
    counter(device.options.id.value, "memory promised, GiB",
            static_cast<double>(device.committed.count) / (1ull << 30));
    if (!dispatcher.fleet().memory().moves_idle()) continue;
    counter(device.options.id.value, "memory on it, GiB",
            static_cast<double>(device.resident.count) / (1ull << 30));
  }
}

// Only what has changed.
void Timeline::counter(uint32_t process, std::string_view name, double value) {
  const auto [last, is_new] =
      last_counters_.try_emplace(std::to_string(process) + std::string(name), value);
  if (!is_new && last->second == value) return;
  last->second = value;
  char text[48];
  std::snprintf(text, sizeof(text), "%.9g", value);
  put("C", now_, process, 0, "\"name\":" + quoted(name) + ",\"args\":{\"value\":" + text + "}");
}

void Timeline::finish() {
  const auto no_name = [](FunctionId function) {
    return "function " + std::to_string(function.value);
  };
  while (!joined_.empty()) leave_joined(joined_.begin()->first, "gone", no_name);
  while (!places_.empty()) leave(places_.begin()->first, no_name);
  out_ << "\n]}\n";
}

}  // namespace lambent::journal
