#include "bench/paper_streambox/experiments.h"

#include <algorithm>
#include <cmath>

namespace lambent::paper_streambox {
namespace {

using scheduling::PoolRule;

// What the system is whatever its settings.
Setup basic_setup(System system, const Constants& constants) {
  Setup setup;
  setup.system = system;
  setup.pool.interval =
      scheduling::scaling_interval(from_seconds(constants.allocate_s_per_byte * 200e6),
                                   from_seconds(constants.free_s_per_byte * 200e6));
  if (system == System::kStreamBox || system == System::kInflessScaler) return setup;
  setup.host_memory = Setup::HostMemory::kPageable;
  setup.keep_weights_s = -1;
  setup.wait_for_batches = false;
  if (system == System::kStreamOnly) {
    setup.pool.rule = PoolRule::kStatic;
    setup.transfers.fair = false;
    setup.transfers.batch = 0;
  }
  return setup;
}

struct Stage {
  const Load* load;
  std::vector<double> arrivals;
  double length_s;
};
// One part of the load after the other; from the start again when none is left.
Stage stage_of(const Plan& plan, const Load& load, double scale, unsigned part) {
  const size_t minutes = std::min(plan.minutes_of(load.name), load.per_minute.size());
  const size_t room = load.per_minute.size() - minutes;
  const size_t first = minutes * part % (room + 1);
  return {&load, arrivals_of(part_of(load, first, minutes), scale, plan.seed + part),
          60.0 * static_cast<double>(minutes)};
}

const Workflow& named(const char* name) {
  for (const Workflow& workflow : workflows()) {
    if (std::string_view(workflow.name) == name) return workflow;
  }
  std::abort();
}

RunResult mean_of(const std::vector<RunResult>& runs) {
  RunResult mean;
  const auto n = static_cast<double>(runs.size());
  for (const RunResult& run : runs) {
    mean.requests += run.requests;
    mean.answered += run.answered;
    mean.in_time += run.in_time;
    mean.length_s += run.length_s;
    mean.loads += run.loads;
    mean.starts += run.starts;
    mean.to_neighbours += run.to_neighbours;
    mean.to_host += run.to_host;
    for (const auto member :
         {&RunResult::p50_s, &RunResult::p90_s, &RunResult::p99_s, &RunResult::mean_s,
          &RunResult::startup_s, &RunResult::first_startup_s, &RunResult::memory_bytes,
          &RunResult::peak_memory_bytes, &RunResult::idle_memory_bytes, &RunResult::pool_bytes,
          &RunResult::communication_s, &RunResult::loading_s, &RunResult::compute_s}) {
      mean.*member += run.*member / n;
    }
  }
  return mean;
}

RunResult run_seeds(const Plan& plan, const Models& models, const Constants& constants,
                    const Workflow& workflow, const Setup& setup, const Load& load, double scale) {
  std::vector<RunResult> runs;
  for (unsigned part = plan.first_part; part < plan.first_part + plan.seeds; ++part) {
    const Stage stage = stage_of(plan, load, scale, part);
    runs.push_back(run_once(constants, models, workflow, setup, stage.arrivals, stage.length_s,
                            plan.seed + part));
  }
  return mean_of(runs);
}

std::string text(double value) {
  char text[32];
  std::snprintf(text, sizeof(text), "%g", value);
  return text;
}

void add_scalers(Setup setup, const std::string& name, std::vector<Candidate>& all) {
  const auto add = [&](const std::string& rest) { all.push_back({name + rest, setup}); };
  for (const auto slo : {milliseconds(60), milliseconds(100), milliseconds(200)}) {
    for (const double headroom : {1.0, 2.0, 4.0}) {
      for (const auto window : {seconds(2), seconds(10)}) {
        setup.scaler = {.slo = slo, .rate_window = window, .headroom = headroom};
        char rest[128];
        std::snprintf(rest, sizeof(rest), ", SLO %g ms, headroom %g, rate of %g s",
                      to_milliseconds(slo), headroom, to_seconds(window));
        setup.promised = 1;
        add(std::string(rest) + ", as published");
        // More than there is of the multiprocessors, and memory counts too.
        setup.promised = 4;
        setup.scaler.memory_weight = 1;
        add(std::string(rest) + ", promised 4, memory counts");
      }
    }
  }
}

std::vector<Candidate> candidates_of(System system, const Constants& constants) {
  std::vector<Candidate> all;
  for (const unsigned batch : {1u, 4u, 8u}) {
    Setup setup = basic_setup(system, constants);
    setup.batch = batch;
    const std::string name = "batch " + std::to_string(batch);
    if (system == System::kInflessScaler) {
      add_scalers(setup, name, all);
      continue;
    }
    if (has_processes(system)) {
      for (const double share : {1.0, 0.5}) {
        for (const double start_after_s : {0.0, 1.0, 6.0}) {
          setup.share = share;
          setup.start_after_s = start_after_s;
          all.push_back(
              {name + ", share " + text(share) + ", starts after " + text(start_after_s) + " s",
               setup});
        }
      }
      continue;
    }
    for (const unsigned jobs : {4u, 8u}) {
      setup.jobs = jobs;
      const std::string with_jobs = name + ", jobs " + std::to_string(jobs);
      if (system == System::kStreamOnly) {
        for (const auto host : {Setup::HostMemory::kPageable, Setup::HostMemory::kPinnedEachTime}) {
          setup.host_memory = host;
          all.push_back({with_jobs + (host == Setup::HostMemory::kPageable ? ", pageable"
                                                                           : ", pinned each time"),
                         setup});
        }
        continue;
      }
      for (const uint64_t least_mib : {0u, 64u}) {
        setup.pool.least = Bytes::mib(least_mib);
        all.push_back({with_jobs + ", pool from " + std::to_string(least_mib) + " MiB", setup});
      }
    }
  }
  return all;
}

double reduction_pct(double ours, double theirs) { return 100 * (1 - ours / theirs); }

}  // namespace

const char* name_of(KeptWeights kept) {
  static constexpr const char* kNames[] = {"minute", "runtime"};
  return kNames[static_cast<size_t>(kept)];
}

void keep_weights(Setup& setup, KeptWeights kept) {
  if (kept == KeptWeights::kRuntime) setup.keep_weights_s = -1;
}

Setup best_setup(System system, bool eager) {
  Setup setup = basic_setup(system, Constants{});
  if (system == System::kInflessScaler) {
    setup.batch = 8;
    setup.promised = 4;
    setup.scaler = {
        .slo = milliseconds(60), .rate_window = seconds(2), .headroom = 4, .memory_weight = 1};
  } else if (has_processes(system) && !eager) {
    setup.batch = 8;
    setup.start_after_s = 1;
  }
  return setup;
}

std::vector<Candidate> sweep(const Plan& plan, const Models& models, const Constants& constants,
                             const std::vector<Load>& loads, System system) {
  std::vector<Candidate> all = candidates_of(system, constants);
  Plan short_plan = plan;
  short_plan.seeds = 1;
  short_plan.bursty_minutes = 2;
  short_plan.periodic_minutes = 6;
  short_plan.sporadic_minutes = 60;
  for (Candidate& candidate : all) {
    Setup setup = candidate.setup;
    setup.drop_late = true;
    double cells = 0;
    for (const Workflow& workflow : workflows()) {
      for (const Load& load : loads) {
        for (const double scale : {0.3, 1.0, 10.0}) {
          const RunResult result =
              run_seeds(short_plan, models, constants, workflow, setup, load, scale);
          candidate.in_time_share += 1 - result.late_share();
          candidate.memory_gb += result.memory_bytes / 1e9;
          ++cells;
        }
      }
    }
    candidate.in_time_share /= cells;
    candidate.memory_gb /= cells;
  }
  std::ranges::stable_sort(all, std::greater(), &Candidate::in_time_share);
  return all;
}

std::vector<Cell> compare(const Plan& plan, const Models& models, const Constants& constants,
                          const std::vector<Load>& loads, const std::vector<Workflow>& workflows) {
  std::vector<Cell> cells;
  for (const Workflow& workflow : workflows) {
    for (const Load& load : loads) {
      Cell cell{.workflow = workflow.name, .load = load.name};
      for (const System system : plan.systems) {
        Setup setup = best_setup(system, plan.eager);
        if (system == System::kStreamBox) keep_weights(setup, plan.weights);
        cell.light[system] = run_seeds(plan, models, constants, workflow, setup, load, plan.light);
        setup.drop_late = true;
        double& best = cell.best_goodput[system];
        for (const double scale : plan.scales) {
          const RunResult result = run_seeds(plan, models, constants, workflow, setup, load, scale);
          if (scale == plan.busy) cell.busy[system] = result;
          cell.goodputs[system].push_back(result.goodput());
          best = std::max(best, result.goodput());
        }
      }
      cells.push_back(std::move(cell));
    }
  }
  return cells;
}

std::map<System, Ratios> ratios_of(const std::vector<Cell>& cells) {
  std::map<System, Ratios> all;
  for (const System system : kSystems) {
    if (system == System::kStreamBox) continue;
    if (cells.empty() || !cells[0].light.contains(system)) continue;
    double memory = 0, throughput = 0, p50 = 0, p99 = 0, mean = 0;
    for (const Cell& cell : cells) {
      const RunResult& theirs = cell.light.at(system);
      const RunResult& ours = cell.light.at(System::kStreamBox);
      memory += std::log(ours.memory_bytes / theirs.memory_bytes);
      throughput +=
          std::log(cell.best_goodput.at(System::kStreamBox) / cell.best_goodput.at(system));
      p50 += std::log(theirs.p50_s / ours.p50_s);
      p99 += std::log(theirs.p99_s / ours.p99_s);
      mean += std::log(theirs.mean_s / ours.mean_s);
    }
    const auto n = static_cast<double>(cells.size());
    all[system] = {.memory_reduction_pct = reduction_pct(std::exp(memory / n), 1),
                   .throughput_ratio = std::exp(throughput / n),
                   .p50_ratio = std::exp(p50 / n),
                   .p99_ratio = std::exp(p99 / n),
                   .mean_ratio = std::exp(mean / n)};
  }
  return all;
}

std::map<System, double> memory_over_stream_only(const std::vector<Cell>& cells) {
  std::map<System, double> all;
  if (cells.empty() || !cells[0].light.contains(System::kStreamOnly)) return all;
  for (const auto& [system, unused] : cells[0].light) {
    double sum = 0;
    for (const Cell& cell : cells) {
      const double base = cell.light.at(System::kStreamOnly).memory_bytes;
      sum += std::log(cell.light.at(system).memory_bytes / base);
    }
    all[system] = std::exp(sum / static_cast<double>(cells.size()));
  }
  return all;
}

std::vector<Variant> pool_ablation(const Plan& plan, const Models& models,
                                   const Constants& constants, const Load& load) {
  const Setup ours = best_setup(System::kStreamBox);
  std::vector<Variant> variants;
  const auto add = [&](const char* name, auto change) {
    Setup setup = ours;
    setup.drop_late = true;
    change(setup);
    variants.push_back(
        {name, run_seeds(plan, models, constants, named("traffic"), setup, load, plan.busy)});
  };
  add("static, every variable", [](Setup& s) {
    s.pool.rule = PoolRule::kStatic;
    s.planned = false;
  });
  add("static, planned", [](Setup& s) { s.pool.rule = PoolRule::kStatic; });
  add("FM", [](Setup& s) { s.pool.rule = PoolRule::kFineGrained; });
  add("FM + RS", [](Setup&) {});
  add("FM + RS, 64 MiB kept", [](Setup& s) { s.pool.least = Bytes::mib(64); });
  return variants;
}

std::vector<Variant> store_ablation(const Plan& plan, const Models& models,
                                    const Constants& constants, const Load& load) {
  // Another task leaves next to nothing beside what the workflow holds on each device, and every
  // other 50 ms a quarter of a GB more.
  double held = constants.runtime_bytes + 40e6;
  for (const Component& component : named("traffic").components) {
    held += models[static_cast<size_t>(component.network)].weight_bytes;
  }
  std::vector<Variant> variants;
  const auto add = [&](const char* name, System system, auto change) {
    Setup setup = best_setup(system);
    setup.drop_late = true;
    setup.keep_weights_s = -1;
    if (!has_processes(system)) {
      setup.other_task_bytes = constants.device_memory - held;
      setup.other_task_least_bytes = setup.other_task_bytes - 250e6;
    }
    change(setup);
    variants.push_back(
        {name, run_seeds(plan, models, constants, named("traffic"), setup, load, plan.busy)});
  };
  add("infless, no other task", System::kInfless, [](Setup&) {});
  add("stream-only", System::kStreamOnly, [](Setup&) {});
  add("without PA, without AM", System::kStreamBox,
      [](Setup& s) { s.store.aware_of_pressure = s.store.adaptive_movement = false; });
  add("without AM", System::kStreamBox, [](Setup& s) { s.store.adaptive_movement = false; });
  add("without PA", System::kStreamBox, [](Setup& s) { s.store.aware_of_pressure = false; });
  add("PA + AM", System::kStreamBox, [](Setup&) {});
  return variants;
}

std::vector<Variant> loading_ablation(const Plan& plan, const Models& models,
                                      const Constants& constants, const Load& load) {
  // Every call finds its weights gone, so that several load at the same time.
  std::vector<Variant> variants;
  const auto add = [&](const char* name, auto change) {
    Setup setup = best_setup(System::kStreamBox);
    setup.keep_weights_s = 0;
    setup.devices = 1;
    setup.drop_late = true;
    change(setup);
    variants.push_back(
        {name, run_seeds(plan, models, constants, named("traffic"), setup, load, plan.light)});
  };
  const auto plain = [](Setup& s) {
    s.host_memory = Setup::HostMemory::kPinnedEachTime;
    s.wait_for_batches = false;
  };
  add("MPS, pinned each time", plain);
  add("MPS, pageable", [&](Setup& s) {
    plain(s);
    s.host_memory = Setup::HostMemory::kPageable;
  });
  add("one after the other, pinned each time", [&](Setup& s) {
    plain(s);
    s.transfers.fair = false;
    s.transfers.batch = 0;
  });
  add("one after the other, pageable", [&](Setup& s) {
    plain(s);
    s.host_memory = Setup::HostMemory::kPageable;
    s.transfers.fair = false;
    s.transfers.batch = 0;
  });
  add("blocks of 16 KiB, alone, pinned each time", [](Setup& s) {
    s.host_memory = Setup::HostMemory::kPinnedEachTime;
    s.transfers.block = Bytes::kib(16);
    s.transfers.batch = 1;
  });
  add("without RZ: blocks of 16 KiB", [](Setup& s) { s.transfers.block = Bytes::kib(16); });
  add("without PB: pinned each time",
      [](Setup& s) { s.host_memory = Setup::HostMemory::kPinnedEachTime; });
  add("without BT: a block at a time", [](Setup& s) { s.transfers.batch = 1; });
  add("first come, first served", [](Setup& s) { s.transfers.fair = false; });
  add("RZ + PB + BT", [](Setup&) {});
  return variants;
}

std::vector<Variant> weights_ablation(const Plan& plan, const Models& models,
                                      const Constants& constants, const Load& load) {
  std::vector<Variant> variants;
  for (const double keep_s : {0.0, 1.0, 10.0, 60.0, 600.0}) {
    Setup setup = best_setup(System::kStreamBox);
    setup.keep_weights_s = keep_s;
    variants.push_back(
        {"weights kept " + text(keep_s) + " s",
         run_seeds(plan, models, constants, named("traffic"), setup, load, plan.light)});
  }
  return variants;
}

std::vector<Variant> share_a_device(const Plan& plan, const Models& models,
                                    const Constants& constants, const Load& load,
                                    unsigned tenants) {
  std::vector<Variant> variants;
  for (const System system : kSystems) {
    Setup setup = best_setup(system);
    setup.devices = 1;
    setup.tenants = tenants;
    setup.drop_late = true;
    // Each tenant brings its own requests.
    variants.push_back({name_of(system), run_seeds(plan, models, constants, named("traffic"), setup,
                                                   load, plan.light * tenants)});
  }
  return variants;
}

}  // namespace lambent::paper_streambox
