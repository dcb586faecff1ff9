#include "tests/scenarios/given.h"

namespace lambent::scenario {
namespace {

// learnt, none, or a time.
Duration read_queue_time(Words& words) {
  if (words.take("learnt")) return scheduling::kLearntQueueTime;
  if (words.take("none")) return scheduling::kNoQueueTime;
  return words.duration();
}

}  // namespace

bool Given::read(Words& words) {
  if (words.take("policy")) {
    read_policy(words);
  } else if (words.take("device")) {
    read_device(words);
  } else if (words.take("function")) {
    read_function(words);
  } else if (words.take("tenant")) {
    read_tenant(words, tenant(words.take_any()));
  } else if (!read_option(words)) {
    return false;
  }
  if (!words.done()) throw Failure("'" + words.take_any() + "' has no meaning here");
  return true;
}

dispatch::TenantChanged& Given::tenant(const std::string& name) {
  const auto id = static_cast<uint32_t>(tenants.size() + 2);
  return tenants.try_emplace(name, dispatch::TenantChanged{.tenant = TenantId{id}}).first->second;
}

// [weight 3] [concurrency 2] [gpu-memory 4GiB] [host-memory 8GiB] [gpu-time 60s]
void Given::read_tenant(Words& words, dispatch::TenantChanged& tenant) {
  tenant = {.tenant = tenant.tenant};
  while (!words.done()) {
    if (words.take("weight")) {
      tenant.weight = words.number();
    } else if (words.take("concurrency")) {
      tenant.concurrency = words.count();
    } else if (words.take("gpu-memory")) {
      tenant.gpu_memory = words.bytes();
    } else if (words.take("host-memory")) {
      tenant.host_memory = words.bytes();
    } else if (words.take("gpu-time")) {
      tenant.gpu_time_per_hour = words.duration();
    } else {
      return;
    }
  }
}

void Given::read_policy(Words& words) {
  policy_ = words.take_any();
  scheduling::MqfqOptions& mqfq = policy_options_.mqfq;
  while (!words.done()) {
    if (words.take("strict-paper")) {
      mqfq = scheduling::MqfqOptions::strict_paper();
    } else if (words.take("over-run")) {
      mqfq.over_run = words.duration();
    } else if (words.take("anticipation")) {
      mqfq.anticipation = words.number();
    } else if (words.take("longest-first")) {
      mqfq.order = scheduling::CandidateOrder::kLengthFirst;
    } else if (words.take("first-estimate")) {
      mqfq.first_estimate = words.duration();
    } else if (words.take("adapts")) {
      policy_options_.density.adapts = true;
    } else if (words.take("weighs-queue")) {
      policy_options_.density.weighs_queue = true;
    } else {
      return;
    }
  }
}

void Given::read_device(Words& words) {
  scheduling::DeviceOptions device{.id = DeviceId{static_cast<uint32_t>(words.count())},
                                   .memory = Bytes::gib(16)};
  while (!words.done()) {
    if (words.take("memory")) {
      device.memory = words.bytes();
    } else if (words.take("tokens")) {
      device.tokens = static_cast<unsigned>(words.count());
    } else if (words.take("memory-stays")) {
      device.memory_moves = false;
    } else if (words.take("contexts")) {
      device.contexts = static_cast<unsigned>(words.count());
    } else if (words.take("utilisation-under")) {
      const double threshold = words.number();
      words.expect("most");
      device.by_utilisation =
          scheduling::UtilisationOptions{threshold, static_cast<unsigned>(words.count())};
    } else {
      return;
    }
  }
  options_.fleet.devices.push_back(device);
}

void Given::read_function(Words& words) {
  dispatch::FunctionProfile profile{.id = FunctionId{static_cast<uint32_t>(functions.size() + 1)},
                                    .tenant = TenantId{1},
                                    .device_memory = Bytes::gib(1),
                                    .timeout = seconds(1000)};
  const std::string name = words.take_any();
  while (!words.done()) {
    if (words.take("memory")) {
      profile.device_memory = words.bytes();
    } else if (words.take("memory-stays")) {
      profile.memory_moves = false;
    } else if (words.take("checkpoints")) {
      profile.checkpoints = true;
    } else if (words.take("without-gpu")) {
      profile.device_memory = Bytes(0);
    } else if (words.take("max-queue-time")) {
      profile.max_queue_time = read_queue_time(words);
    } else if (words.take("timeout")) {
      profile.timeout = words.duration();
    } else if (words.take("of")) {
      profile.tenant = tenant(words.take_any()).tenant;
    } else if (words.take("host-memory")) {
      profile.host_memory = words.bytes();
    } else if (words.take("weight")) {
      profile.weight = words.number();
    } else if (words.take("concurrency")) {
      profile.max_concurrency = static_cast<unsigned>(words.count());
    } else if (words.take("min-instances")) {
      profile.min_instances = static_cast<unsigned>(words.count());
    } else if (words.take("keep-alive")) {
      profile.keep_alive = words.duration();
    } else if (words.take("gpus")) {
      profile.gpu_count = static_cast<unsigned>(words.count());
    } else if (words.take("in-one-sandbox")) {
      profile.sandbox_concurrency = static_cast<unsigned>(words.count());
    } else if (words.take("cpu-variant")) {
      profile.has_cpu_variant = true;
    } else if (words.take("speedup")) {
      profile.gpu_speedup = words.number();
    } else if (words.take("host-takes")) {
      profile.mean_host_execution = words.duration();
      profile.completed_on_host = 1;
    } else if (words.take("takes")) {
      profile.mean_execution = words.duration();
      profile.completed = 1;
    } else if (words.take("every")) {
      profile.mean_interarrival = words.duration();
      profile.completed = 1;
    } else if (words.take("cold-start")) {
      profile.mean_cold_start = words.duration();
    } else {
      return;
    }
  }
  functions[name] = profile;
}

bool Given::read_option(Words& words) {
  if (words.take("pool")) {
    options_.fleet.most_sandboxes = static_cast<unsigned>(words.count());
  } else if (words.take("eviction")) {
    const std::string rule = words.take_any();
    const auto known = scheduling::eviction_rule_from(rule);
    if (!known) throw Failure("eviction is lru, cost-aware or foreseen");
    options_.fleet.eviction = *known;
  } else if (words.take("foresee")) {
    options_.fleet.foresight.starts_ahead = true;
  } else if (words.take("move-grace-period")) {
    options_.fleet.move_grace_period = words.number();
  } else if (words.take("second-grace-period")) {
    options_.fleet.second_grace_period = words.number();
  } else if (words.take("memory-moves")) {
    options_.fleet.memory_rule = scheduling::MemoryRule::kMoveIdle;
  } else if (words.take("no-prefetch")) {
    options_.fleet.prefetch = false;
  } else if (words.take("host-memory")) {
    options_.fleet.host_memory = words.bytes();
  } else if (words.take("move-timeout")) {
    options_.move_timeout = words.duration();
  } else if (words.take("starts-outside-tokens")) {
    options_.fleet.starts_outside_tokens = static_cast<unsigned>(words.count());
  } else if (words.take("hybrid")) {
    const auto rule = scheduling::hybrid_rule_from(words.take_any());
    if (!rule) throw Failure("hybrid is off, top-share or queueing");
    options_.hybrid.rule = *rule;
    if (words.take("share")) options_.hybrid.gpu_share = words.number();
  } else if (words.take("host-concurrency")) {
    options_.host_concurrency = static_cast<unsigned>(words.count());
  } else if (words.take("queue-per-function")) {
    options_.queued_per_function = words.count();
  } else if (words.take("queue-synchronous")) {
    options_.queued_synchronous = words.count();
  } else if (words.take("max-queue-time")) {
    options_.max_queue_time = read_queue_time(words);
  } else if (words.take("queue-wait")) {
    options_.queue_wait = words.duration();
  } else if (words.take("queue")) {
    options_.queued_invocations = words.count();
  } else if (words.take("longest-wait")) {
    options_.longest_wait = words.duration();
  } else if (words.take("init-timeout")) {
    options_.init_timeout = words.duration();
  } else if (words.take("stop-timeout")) {
    options_.stop_timeout = words.duration();
  } else if (words.take("keep-alive")) {
    options_.keep_alive = words.duration();
  } else {
    return false;
  }
  return true;
}

std::unique_ptr<dispatch::Dispatcher> Given::build() const {
  auto policy = scheduling::make_policy(policy_, policy_options_);
  if (!policy.ok()) throw Failure(policy.error().message);
  return std::make_unique<dispatch::Dispatcher>(options_, std::move(policy).value());
}

}  // namespace lambent::scenario
