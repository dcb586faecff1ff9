#include "bench/paper_fluidfaas/experiments.h"

#include <algorithm>
#include <cmath>

#include "core/base/check.h"
#include "decide/pipeline/linear_program.h"
#include "decide/pipeline/throughput_bound.h"

namespace lambent::paper_fluidfaas {
namespace {

using Functions = std::vector<std::shared_ptr<const pipeline::PipelineFunction>>;

Functions functions_of(const Setting& setting, pipeline::RankRule rule) {
  const Functions applications =
      paper_fluidfaas::applications(setting.size, setting.constants, rule);
  if (setting.functions == 0) return applications;
  Functions functions;
  for (size_t i = 0; i < setting.functions; ++i) {
    auto copy = std::make_shared<pipeline::PipelineFunction>(*applications[i % 3]);
    copy->id = FunctionId(static_cast<uint32_t>(i) + 1);
    functions.push_back(std::move(copy));
  }
  return functions;
}

Functions functions_for(const System& system, const Setting& setting) {
  Functions functions = functions_of(setting, system.rule);
  if (system.pipelines) return functions;
  for (auto& function : functions) {
    auto changed = std::make_shared<pipeline::PipelineFunction>(*function);
    std::erase_if(changed->ranked,
                  [](const auto& partition) { return partition.stage_processes() > 1; });
    function = std::move(changed);
  }
  return functions;
}

std::unique_ptr<slice_scheduling::SlicePolicy> policy_of(
    const System& system, const slice_scheduling::SlicePolicyOptions& options) {
  auto policy = slice_scheduling::make_slice_policy(system.policy, options);
  CHECK(policy.ok(), "no such policy");
  return std::move(*policy);
}

double quantile(const std::vector<double>& sorted, double share) {
  if (sorted.empty()) return 0;
  const auto rank = static_cast<size_t>(std::ceil(share * static_cast<double>(sorted.size())));
  return sorted[std::clamp<size_t>(rank, 1, sorted.size()) - 1];
}

// A request that was not answered counts with the time that it waited until the run ended.
void latencies(const slice_simulator::RunResult& run, Instant warm, Figures& figures) {
  std::vector<double> all;
  std::vector<double> asked(figures.hit_pct_by_application.size(), 0), hit = asked;
  double hits = 0, answered = 0;
  for (const auto& request : run.requests) {
    if (request.submitted < warm) continue;
    const size_t application = request.function.value - 1;
    ++asked[application];
    if (request.hit()) {
      ++hits;
      ++hit[application];
    }
    const Instant until = request.completed == kNever ? run.ended : request.completed;
    all.push_back(to_seconds(until - request.submitted));
    if (!request.succeeded()) {
      ++figures.unanswered;
      continue;
    }
    ++answered;
    figures.queue_s += to_seconds(request.queue);
    figures.load_s += to_seconds(request.load);
    figures.execution_s += to_seconds(request.execution);
    figures.transfer_s += to_seconds(request.transfer);
  }
  for (double* sum :
       {&figures.queue_s, &figures.load_s, &figures.execution_s, &figures.transfer_s}) {
    *sum /= std::max(1.0, answered);
  }
  for (size_t i = 0; i < asked.size(); ++i) {
    figures.hit_pct_by_application[i] = 100 * hit[i] / std::max(1.0, asked[i]);
  }
  const double count = std::max<double>(1, static_cast<double>(all.size()));
  figures.hit_pct = 100 * hits / count;
  for (const double latency : all) figures.mean_s += latency / count;
  std::ranges::sort(all);
  figures.p50_s = quantile(all, 0.5);
  figures.p95_s = quantile(all, 0.95);
  figures.p99_s = quantile(all, 0.99);
}

}  // namespace

double bound_of(const Setting& setting, const std::vector<double>& mix, bool whole) {
  const Functions functions = functions_of(setting, pipeline::RankRule::kBalance);
  std::vector<pipeline::MixedFunction> mixed;
  for (size_t i = 0; i < functions.size(); ++i) mixed.push_back({functions[i].get(), mix[i]});
  const auto bound =
      pipeline::throughput_bound(mixed, slices_of(*setting.layout, setting.nodes),
                                 whole ? pipeline::BoundKind::kWhole : pipeline::BoundKind::kCut);
  CHECK(bound.ok(), "a bound that cannot be computed");
  return *bound;
}

double placed_bound_of(const Setting& setting, const std::vector<double>& mix, size_t most_slices) {
  const Functions functions = functions_of(setting, pipeline::RankRule::kBalance);
  std::map<std::string, double> there;  // slices of each shape
  for (const Slice& slice : slices_of(*setting.layout, setting.nodes)) ++there[slice.shape.name];
  std::vector<std::string> names;
  for (const auto& [name, count] : there) names.push_back(name);
  // Of a function on so many slices of each shape, the most that one instance gives a second.
  struct Kind {
    size_t function = 0;
    std::vector<double> slices;
    double per_s = 0;
  };
  std::vector<Kind> kinds;
  for (size_t i = 0; i < functions.size(); ++i) {
    std::map<std::vector<double>, double> best;
    for (const pipeline::Partition& partition : functions[i]->ranked) {
      // The slowest stage process's seconds, by how many slices of each shape are used; at last how
      // many.
      std::map<std::pair<std::vector<double>, size_t>, double> open = {
          {{std::vector<double>(names.size(), 0), 0}, 0}};
      size_t left = partition.stage_processes();  // stage processes that have no slice yet
      for (const pipeline::Stage& stage : partition.stages) {
        for (const pipeline::StageProcess& stage_process : stage.stage_processes) {
          --left;
          std::map<std::pair<std::vector<double>, size_t>, double> next;
          const Bytes memory = pipeline::least_memory_of(*functions[i], stage_process);
          for (const auto& [used, slowest] : open) {
            for (size_t shape = 0; shape < names.size(); ++shape) {
              if (shape_of(names[shape]).memory < memory) continue;
              const auto time =
                  pipeline::time_of(*functions[i], stage_process, shape_of(names[shape]));
              auto more = used;
              for (double replicas = 1;; ++replicas) {
                ++more.first[shape];
                ++more.second;
                if (replicas > 1 && more.second + left > most_slices) break;
                const double seconds = std::max(slowest, to_seconds(*time) / replicas);
                const auto [entry, is_new] = next.try_emplace(more, seconds);
                entry->second = std::min(entry->second, seconds);
              }
            }
          }
          open = std::move(next);
        }
      }
      for (const auto& [used, slowest] : open) {
        double& rate = best[used.first];
        rate = std::max(rate, 1 / slowest);
      }
    }
    for (const auto& [used, rate] : best) kinds.push_back({i, used, rate});
  }
  double sum = 0;
  for (const double one : mix) sum += one;
  // First the requests a second of the mix, then how many instances there are of each kind.
  pipeline::LinearProgram program;
  program.gains.assign(1 + kinds.size(), 0);
  program.gains[0] = 1;
  for (const std::string& name : names) {
    program.rows.push_back({std::vector<double>(1 + kinds.size()), there[name]});
  }
  for (size_t i = 0; i < functions.size(); ++i) {
    program.rows.push_back({std::vector<double>(1 + kinds.size()), 0});
    program.rows.back().weights[0] = mix[i] / sum;
  }
  for (size_t k = 0; k < kinds.size(); ++k) {
    for (size_t shape = 0; shape < names.size(); ++shape) {
      program.rows[shape].weights[1 + k] = kinds[k].slices[shape];
    }
    program.rows[names.size() + kinds[k].function].weights[1 + k] = -kinds[k].per_s;
  }
  const auto solution = pipeline::maximise(program);
  CHECK(solution.has_value(), "a bound that cannot be computed");
  return solution->gain;
}

std::vector<double> mix_of(const Load& load, size_t applications) {
  std::vector<double> mix(applications, 0);
  if (load.arrivals.empty()) return mix;
  const double length_s = to_seconds(load.arrivals.back().at.time_since_epoch());
  for (const auto& arrival : load.arrivals) {
    if (arrival.function.value <= applications) mix[arrival.function.value - 1] += 1 / length_s;
  }
  return mix;
}

Figures measure(const System& system, const Setting& setting, const Load& load) {
  slice_simulator::Scene scene;
  scene.slices = slices_of(*setting.layout, setting.nodes);
  scene.functions = functions_for(system, setting);
  scene.arrivals = ramped(load, setting.warm_s, setting.seed).arrivals;
  scene.machine = machine_of(setting.size, setting.constants);
  scene.seed = setting.seed;
  scene.watched_from = Instant(from_seconds(setting.warm_s));
  scene.drain = from_seconds(setting.drain_s);
  slice_scheduling::SlicePolicyOptions options = system.options;
  options.costs = costs_of(setting.size, setting.constants);
  slice_scheduling::SliceDispatcherOptions limits;
  limits.most_queued = 1'000'000;  // nothing is turned away: the paper's queues have no limit
  const slice_simulator::RunResult run =
      slice_simulator::run(scene, policy_of(system, options), limits);

  Figures figures;
  const size_t applications = scene.functions.size();
  figures.hit_pct_by_application.resize(applications);
  const Instant warm(from_seconds(setting.warm_s));
  latencies(run, warm, figures);
  const Instant last = scene.arrivals.empty() ? warm : scene.arrivals.back().at;
  const double length_s = std::max(1e-9, to_seconds(last - warm));
  std::vector<double> answered(applications, 0);
  double count = 0;
  for (const auto& request : run.requests) {
    if (!request.succeeded() || request.completed > last || request.completed < warm) continue;
    ++answered[request.function.value - 1];
    ++count;
  }
  figures.offered_per_s = static_cast<double>(load.arrivals.size()) / length_s;
  figures.throughput_per_s = count / length_s;
  if (count > 0) {
    figures.bound_per_s = bound_of(setting, answered, false);
    figures.placed_per_s = placed_bound_of(setting, answered);
  }
  figures.makespan_s = to_seconds(run.ended - warm);
  for (const auto& [id, use] : run.slices) {
    figures.mig_time_s += to_seconds(use.busy);
    figures.mig_held_s += to_seconds(use.held);
  }
  for (const auto& [id, use] : run.gpus) {
    figures.gpu_time_s += to_seconds(use.busy);
    figures.gpu_held_s += to_seconds(use.held);
  }
  double all = 0, working = 0, coming = 0, held = 0;
  for (const Slice& slice : scene.slices) {
    const double multiprocessors = slice.shape.multiprocessors;
    const slice_simulator::Use& use = run.watched.at(slice.id);
    all += multiprocessors * length_s;
    working += multiprocessors * to_seconds(use.busy);
    coming += multiprocessors * to_seconds(use.coming);
    held += multiprocessors * to_seconds(use.held);
  }
  figures.working_pct = 100 * working / all;
  figures.coming_pct = 100 * coming / all;
  figures.waiting_pct = 100 * (held - working - coming) / all;
  figures.free_pct = 100 * (all - held) / all;
  figures.pipeline_pct = 100 * static_cast<double>(run.pipeline_jobs) /
                         std::max<double>(1, static_cast<double>(run.jobs));
  figures.starts = static_cast<double>(run.starts);
  figures.loads = static_cast<double>(run.loads);
  figures.copied_gb = static_cast<double>(run.copied.count) / 1e9;
  figures.impossible = static_cast<double>(run.impossible.size());
  return figures;
}

Figures mean_of(const std::vector<Figures>& all) {
  Figures mean;
  const double count = static_cast<double>(all.size());
  static constexpr double Figures::*kMembers[] = {
      &Figures::offered_per_s, &Figures::throughput_per_s,
      &Figures::bound_per_s,   &Figures::placed_per_s,
      &Figures::copied_gb,     &Figures::hit_pct,
      &Figures::p50_s,         &Figures::p95_s,
      &Figures::p99_s,         &Figures::mean_s,
      &Figures::queue_s,       &Figures::load_s,
      &Figures::execution_s,   &Figures::transfer_s,
      &Figures::makespan_s,    &Figures::mig_time_s,
      &Figures::gpu_time_s,    &Figures::mig_held_s,
      &Figures::gpu_held_s,    &Figures::pipeline_pct,
      &Figures::working_pct,   &Figures::coming_pct,
      &Figures::waiting_pct,   &Figures::free_pct,
      &Figures::starts,        &Figures::loads,
      &Figures::unanswered,    &Figures::impossible};
  for (const Figures& one : all) {
    for (const auto member : kMembers) mean.*member += one.*member / count;
    mean.hit_pct_by_application.resize(one.hit_pct_by_application.size(), 0);
    for (size_t i = 0; i < one.hit_pct_by_application.size(); ++i) {
      mean.hit_pct_by_application[i] += one.hit_pct_by_application[i] / count;
    }
  }
  return mean;
}

double half_width(const std::vector<double>& values) {
  if (values.size() < 2) return 0;
  static constexpr double kStudent[] = {12.71, 4.303, 3.182, 2.776, 2.571,
                                        2.447, 2.365, 2.306, 2.262};
  const double count = static_cast<double>(values.size());
  double mean = 0, squares = 0;
  for (const double value : values) mean += value / count;
  for (const double value : values) squares += (value - mean) * (value - mean);
  const double t = values.size() - 2 < std::size(kStudent) ? kStudent[values.size() - 2] : 2;
  return t * std::sqrt(squares / (count - 1) / count);
}

}  // namespace lambent::paper_fluidfaas
