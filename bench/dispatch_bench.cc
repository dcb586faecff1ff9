// dispatch_bench [--quick | --one POLICY,FLOWS,INVOCATIONS[,foresee]]: what a scheduling decision
// costs, and what an invocation costs the whole dispatcher. Prints a table and, as its last line,
// one JSON object.
//
// A *decision* is: Policy::decide (find the flow and its place among all that have work), taking
// the sandbox and the token in the fleet, and Policy::dispatched (charge the flow, put it and
// whoever it un-throttles where they belong now). Every flow has work waiting, has a warm sandbox,
// and costs and queue lengths differ. A *cycle* adds the other half: the finish (statistics, token
// and sandbox given back, Policy::finished) and the next arrival (Policy::enqueued). An
// *invocation* is two events through Dispatcher::handle, InvocationSubmitted and
// InvocationFinished, with a queue of other work behind it: ids, queues, deadlines, phases, the log
// hash and the actions included. *As shipped*: the default policy, which adapts and foresees, where
// memory moves. --one makes so many of one kind and prints nothing, for a profiler that counts
// instructions (dispatch_instructions.py).
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "core/base/check.h"
#include "core/base/random.h"
#include "decide/dispatch/dispatcher.h"
#include "decide/scheduling/make_policy.h"

namespace lambent {
namespace {

using scheduling::Flow;
using scheduling::SandboxSlot;

// Invocations dispatched in one go, so that reading the clock does not count; a flow runs one at a
// time, so a few flows fill no more than half as many.
unsigned tokens_for(uint32_t flows) { return std::min(32U, flows / 2); }

struct Costs {
  double decision_ns = 0;
  double cycle_ns = 0;
  double invocation_ns = 0;
};

double seconds_of_clock() {
  using Clock = std::chrono::steady_clock;
  return std::chrono::duration<double>(Clock::now().time_since_epoch()).count();
}

// A policy and a fleet with `count` busy flows, driven by hand.
class PolicyLoop {
 public:
  PolicyLoop(std::string_view policy, uint32_t count, scheduling::MemoryRule rule)
      : tokens_(tokens_for(count)),
        fleet_(fleet_options(count, rule)),
        random_(7),
        view_{flows_, fleet_, tenants_} {
    policy_ = std::move(scheduling::make_policy(policy)).value();
    flows_.resize(count + 1);
    for (uint32_t id = 1; id <= count; ++id) add_flow(FunctionId{id});
  }

  // Lets `rounds` times as many invocations as there are tokens be dispatched and finished; notes
  // what the dispatching and the whole of each round took.
  void run(int rounds, std::vector<double>& deciding, std::vector<double>& whole) {
    std::vector<SandboxSlot> running;
    running.reserve(tokens_);
    for (int round = 0; round < rounds; ++round) {
      now_ += milliseconds(10);
      const double before = seconds_of_clock();
      for (unsigned i = 0; i < tokens_; ++i) running.push_back(dispatch_one());
      deciding.push_back((seconds_of_clock() - before) * 1e9 / tokens_);
      for (const SandboxSlot sandbox : running) finish_one(sandbox);
      running.clear();
      whole.push_back((seconds_of_clock() - before) * 1e9 / tokens_);
    }
  }

 private:
  static scheduling::FleetOptions fleet_options(uint32_t count, scheduling::MemoryRule rule) {
    scheduling::FleetOptions options;
    options.memory_rule = rule;
    options.devices.push_back({.id = DeviceId{1},
                               .memory = Bytes::gib(1) * (count + 1),
                               .tokens = tokens_for(count),
                               .contexts = count + 1});
    options.most_sandboxes = count + 1;
    options.starts_outside_tokens = scheduling::kStartsOutsideTokens;
    return options;
  }

  void add_flow(FunctionId id) {
    Flow& flow = flows_[id.value];
    flow.registered = true;
    flow.device_memory = Bytes::gib(1);
    flow.execution.learn(milliseconds(1 + random_.below(3000)));
    policy_->flow_changed(view_, id, now_);
    const SandboxSlot sandbox =
        fleet_.plan(SandboxId{id.value}, id, flow, scheduling::Place{}, now_);
    fleet_.start(sandbox, now_);
    fleet_.rest(sandbox, now_);
    policy_->places_changed(view_, id, now_);
    for (uint64_t n = 1 + random_.below(8); n > 0; --n) enqueue(id);
  }

  void enqueue(FunctionId id) {
    Flow& flow = flows_[id.value];
    if (++flow.pending == 1) flow.oldest = ++arrivals_;
    policy_->enqueued(view_, id, now_);
  }

  SandboxSlot dispatch_one() {
    const scheduling::Decision decision = policy_->decide(view_, now_);
    CHECK(decision.dispatch, "there is always work");
    Flow& flow = flows_[decision.function.value];
    --flow.pending;
    flow.oldest = ++arrivals_;
    ++flow.in_flight;
    fleet_.run(decision.place.warm, now_);
    policy_->dispatched(view_, decision.function, now_);
    return decision.place.warm;
  }

  void finish_one(SandboxSlot sandbox) {
    const FunctionId id = fleet_.sandbox(sandbox).function;
    fleet_.rest(sandbox, now_);
    --flows_[id.value].in_flight;
    policy_->finished(view_, id, now_);
    policy_->places_changed(view_, id, now_);
    enqueue(id);
  }

  unsigned tokens_;
  scheduling::Flows flows_;
  scheduling::Tenants tenants_;
  scheduling::Fleet fleet_;
  SeededRandom random_;
  scheduling::View view_;
  std::unique_ptr<scheduling::Policy> policy_;
  uint64_t arrivals_ = 0;
  Instant now_{};
};

// What is measured of the whole dispatcher.
struct Whole {
  std::string policy;
  scheduling::MemoryRule rule = scheduling::MemoryRule::kEverySandbox;
  bool adapts = false;
  bool foresees = false;
  unsigned tokens = 0;  // 0: many, so that reading the clock does not count
  // Registered beside those that are called: functions without calls, each third with a GPU, of
  // so many tenants (each with a quota of concurrency; 0: all are of one, which has none).
  uint32_t resting = 0;
  uint32_t tenants = 0;
};

TenantId tenant_of(const Whole& whole, uint32_t function) {
  return TenantId{1 + (whole.tenants == 0 ? 0 : function % whole.tenants)};
}

// Two events an invocation through the whole dispatcher, `count` functions taking turns.
void invocation_costs(const Whole& whole, uint32_t count, int rounds, std::vector<double>& costs) {
  dispatch::DispatchOptions options;
  options.fleet.memory_rule = whole.rule;
  options.fleet.foresight.starts_ahead = whole.foresees;
  options.fleet.devices.push_back({.id = DeviceId{1},
                                   .memory = Bytes::gib(1) * (count + 1),
                                   .tokens = whole.tokens > 0 ? whole.tokens : tokens_for(count),
                                   .contexts = count + 1});
  options.fleet.most_sandboxes = count + 1;
  options.fleet.starts_outside_tokens = scheduling::kStartsOutsideTokens;
  options.keep_alive = seconds(1'000'000);
  options.longest_wait = seconds(1'000'000);
  scheduling::PolicyOptions policy;
  policy.density.adapts = whole.adapts;
  policy.density.weighs_queue = whole.adapts;
  dispatch::Dispatcher dispatcher(options,
                                  std::move(scheduling::make_policy(whole.policy, policy)).value());
  SeededRandom random(11);
  Instant now{};
  std::vector<dispatch::Action> actions;
  std::vector<InvocationId> running;
  const auto handle = [&](const dispatch::Event& event) {
    actions.clear();
    dispatcher.handle(event, now, actions);
    for (const dispatch::Action& action : actions) {
      if (const auto* start = std::get_if<dispatch::StartInvocation>(&action)) {
        running.push_back(start->invocation);
      }
    }
  };
  uint64_t ids = 0;
  const auto finish_oldest = [&] {
    const InvocationId id = running.front();
    running.front() = running.back();
    running.pop_back();
    handle(dispatch::InvocationFinished{id, milliseconds(1 + id.low % 3000), true});
  };
  for (uint32_t tenant = 1; tenant <= whole.tenants; ++tenant) {
    handle(dispatch::TenantChanged{.tenant = TenantId{tenant}, .weight = 1, .concurrency = 1});
  }
  for (uint32_t id = 1; id <= whole.resting; ++id) {
    handle(dispatch::FunctionRegistered{{.id = FunctionId{id},
                                         .tenant = tenant_of(whole, id),
                                         .device_memory = Bytes::gib(id % 3 == 0 ? 1 : 0),
                                         .timeout = seconds(1'000'000)}});
  }
  for (uint32_t id = whole.resting + 1; id <= whole.resting + count; ++id) {
    handle(dispatch::FunctionRegistered{{.id = FunctionId{id},
                                         .tenant = tenant_of(whole, id),
                                         .device_memory = Bytes::gib(1),
                                         .timeout = seconds(1'000'000)}});
    handle(dispatch::InvocationSubmitted{{0, ++ids}, FunctionId{id}});
    handle(dispatch::SandboxReady{SandboxId{id - whole.resting}});
    finish_oldest();
  }
  const auto submit = [&] {
    const FunctionId id{whole.resting + 1 + static_cast<uint32_t>(random.below(count))};
    handle(dispatch::InvocationSubmitted{{0, ++ids}, id});
  };
  for (uint32_t i = 0; i < 2 * count; ++i) submit();
  constexpr int kInRound = 100;
  for (int round = 0; round < rounds; ++round) {
    const double before = seconds_of_clock();
    for (int i = 0; i < kInRound; ++i) {
      now += microseconds(50);
      submit();
      finish_oldest();
    }
    costs.push_back((seconds_of_clock() - before) * 1e9 / kInRound);
  }
}

double median(std::vector<double>& values) {
  std::nth_element(values.begin(), values.begin() + values.size() / 2, values.end());
  return values[values.size() / 2];
}

// The default as a worker has it.
Whole as_shipped() {
  return {.policy = std::string(scheduling::kDefaultPolicy),
          .rule = scheduling::MemoryRule::kMoveIdle,
          .adapts = true,
          .foresees = true,
          .tokens = 2};
}

// Medians over rounds of a few loops, each warmed up first: a round that another process of the
// machine interrupted does not move them.
Costs measure(std::string_view policy, uint32_t count, scheduling::MemoryRule rule, bool quick) {
  const int repeats = quick ? 3 : 9;
  const int rounds = quick ? 4'000 : 20'000;
  std::vector<double> decisions;
  std::vector<double> cycles;
  std::vector<double> invocations;
  for (int repeat = 0; repeat < repeats; ++repeat) {
    PolicyLoop loop(policy, count, rule);
    std::vector<double> ignored;
    loop.run(rounds / 4, ignored, ignored);
    loop.run(rounds, decisions, cycles);
    invocation_costs({.policy = std::string(policy), .rule = rule}, count, rounds / 8, invocations);
  }
  return {median(decisions), median(cycles), median(invocations)};
}

std::string as_json(const std::vector<std::pair<uint32_t, Costs>>& rows, double Costs::*field) {
  std::string text = "{";
  for (const auto& [count, costs] : rows) {
    char entry[64];
    std::snprintf(entry, sizeof(entry), "%s\"%u\":%.1f", text.size() > 1 ? "," : "", count,
                  costs.*field);
    text += entry;
  }
  return text + "}";
}

void print_row(const std::string& name, uint32_t count, const Costs& costs) {
  std::printf("%-12s %8u %10.1f %10.1f %12.1f\n", name.c_str(), count, costs.decision_ns,
              costs.cycle_ns, costs.invocation_ns);
}

int run(bool quick) {
  std::printf("%sone core; nanoseconds, medians\n", quick ? "QUICK RUN; " : "");
  std::printf("%-12s %8s %10s %10s %12s\n", "policy", "flows", "decision", "cycle", "invocation");
  std::vector<std::pair<uint32_t, Costs>> sticky;
  for (const std::string_view policy :
       {"mqfq-sticky", "density", "fcfs", "batch", "cfs-affinity"}) {
    for (const uint32_t count : {10U, 100U, 1000U, 4000U, 10000U}) {
      const bool ours = policy == "mqfq-sticky" || policy == "density";
      if (!ours && count != 4000) continue;
      const Costs costs = measure(policy, count, scheduling::MemoryRule::kEverySandbox, quick);
      print_row(std::string(policy), count, costs);
      if (policy == "mqfq-sticky") sticky.emplace_back(count, costs);
    }
  }
  // The same where memory could move, though all of it has room: what watching it costs.
  for (const uint32_t count : {10U, 4000U}) {
    print_row("mqfq, moves", count,
              measure("mqfq-sticky", count, scheduling::MemoryRule::kMoveIdle, quick));
    print_row("density, moves", count,
              measure("density", count, scheduling::MemoryRule::kMoveIdle, quick));
  }
  // What a worker runs: 24 functions, and thousands; and without what is foreseen.
  std::string shipped, unforeseeing;
  for (const uint32_t count : {24U, 4000U}) {
    for (const bool foresees : {true, false}) {
      Whole whole = as_shipped();
      whole.foresees = foresees;
      std::vector<double> costs;
      for (int repeat = 0; repeat < (quick ? 3 : 9); ++repeat) {
        invocation_costs(whole, count, quick ? 500 : 2'500, costs);
      }
      const double cost_ns = median(costs);
      print_row(foresees ? "as shipped" : "foresee off", count, {0, 0, cost_ns});
      char entry[64];
      std::string& text = foresees ? shipped : unforeseeing;
      std::snprintf(entry, sizeof(entry), "%s\"%u\":%.1f", text.empty() ? "" : ",", count, cost_ns);
      text += entry;
    }
  }
  std::printf(
      "{\"bench\":\"dispatch\",\"quick\":%s,\"policy\":\"mqfq-sticky\","
      "\"ns_per_decision\":%s,\"ns_per_cycle\":%s,\"ns_per_invocation\":%s,"
      "\"ns_per_invocation_as_shipped\":{%s},\"ns_per_invocation_foresee_off\":{%s}}\n",
      quick ? "true" : "false", as_json(sticky, &Costs::decision_ns).c_str(),
      as_json(sticky, &Costs::cycle_ns).c_str(), as_json(sticky, &Costs::invocation_ns).c_str(),
      shipped.c_str(), unforeseeing.c_str());
  return 0;
}

// "shipped" or a policy, flows, invocations; "foresee" turns that on, "moves" memory; "resting=N"
// and "tenants=N" as Whole has them.
int run_one(const std::string& text) {
  std::vector<std::string> words;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(',', begin), text.size());
    words.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  if (words.size() < 3) return 2;
  Whole whole = words[0] == "shipped" ? as_shipped() : Whole{.policy = words[0]};
  for (const std::string& word : std::vector(words.begin() + 3, words.end())) {
    if (word == "foresee") whole.foresees = true;
    if (word == "no-foresee") whole.foresees = false;
    if (word == "adapts") whole.adapts = true;
    if (word == "moves") whole.rule = scheduling::MemoryRule::kMoveIdle;
    const auto number = [&word] {
      return static_cast<uint32_t>(std::stoul(word.substr(word.find('=') + 1)));
    };
    if (word.starts_with("resting=")) whole.resting = number();
    if (word.starts_with("tenants=")) whole.tenants = number();
  }
  std::vector<double> ignored;
  invocation_costs(whole, static_cast<uint32_t>(std::stoul(words[1])),
                   static_cast<int>(std::stoul(words[2])) / 100, ignored);
  return 0;
}

}  // namespace
}  // namespace lambent

int main(int count, char** arguments) {
  bool quick = false;
  for (int i = 1; i < count; ++i) {
    if (std::strcmp(arguments[i], "--quick") == 0) {
      quick = true;
    } else if (std::strcmp(arguments[i], "--one") == 0 && i + 1 < count) {
      return lambent::run_one(arguments[i + 1]);
    } else {
      std::fprintf(stderr,
                   "usage: dispatch_bench [--quick | --one POLICY,FLOWS,INVOCATIONS[,foresee]]\n");
      return 2;
    }
  }
  return lambent::run(quick);
}
