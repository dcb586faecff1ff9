#include "sim/slice_simulator/layout_advice.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "decide/pipeline/throughput_bound.h"
#include "decide/slice_scheduling/make_policy.h"

namespace lambent::slice_simulator {
namespace {

using Layouts = std::vector<size_t>;  // by GPU, into AdviceOptions::layouts, ascending

std::vector<Slice> slices_of(const AdviceOptions& options, const Layouts& gpus) {
  std::vector<Slice> slices;
  for (uint32_t gpu = 0; gpu < gpus.size(); ++gpu) {
    for (const SliceShape& shape : options.layouts[gpus[gpu]]) {
      Slice slice;
      slice.id = DeviceId(static_cast<uint32_t>(slices.size()));
      slice.gpu = gpu;
      slice.shape = shape;
      slices.push_back(std::move(slice));
    }
  }
  return slices;
}

std::vector<Arrival> between(const std::vector<Arrival>& arrivals, Instant from, Instant to,
                             size_t most) {
  std::vector<Arrival> part;
  for (const Arrival& arrival : arrivals) {
    if (arrival.at < from || arrival.at > to) continue;
    if (part.size() == most) break;
    part.push_back({Instant(arrival.at - from), arrival.function});
  }
  return part;
}

Result<double> times_of(const AdviceOptions& options, const Layouts& gpus,
                        const std::vector<Arrival>& arrivals) {
  std::map<FunctionId, double> counts;
  for (const Arrival& arrival : arrivals) ++counts[arrival.function];
  std::vector<pipeline::MixedFunction> mix;
  for (const auto& function : options.functions) {
    if (counts.contains(function->id)) mix.push_back({function.get(), counts[function->id]});
  }
  ASSIGN_OR_RETURN(const double bound, pipeline::throughput_bound(mix, slices_of(options, gpus),
                                                                  pipeline::BoundKind::kCut));
  const double length_s = std::max(1e-3, to_seconds(arrivals.back().at - arrivals.front().at));
  return bound * length_s / static_cast<double>(arrivals.size());
}

// All GPUs alike, and from the best of those one GPU after the other for the better.
Result<std::vector<Layouts>> candidates(const AdviceOptions& options,
                                        const std::vector<Arrival>& arrivals) {
  std::vector<std::pair<double, Layouts>> judged;
  for (size_t i = 0; i < options.layouts.size(); ++i) {
    const Layouts alike(options.gpus, i);
    ASSIGN_OR_RETURN(const double times, times_of(options, alike, arrivals));
    judged.emplace_back(times, alike);
  }
  const auto is_better = [](const auto& a, const auto& b) {
    return a.first != b.first ? a.first > b.first : a.second < b.second;
  };
  std::ranges::sort(judged, is_better);
  std::set<Layouts> known;
  for (const auto& [times, layouts] : judged) known.insert(layouts);
  auto best = judged.front();
  for (bool improved = options.gpus > 1; improved;) {
    improved = false;
    const Layouts from = best.second;
    for (size_t gpu = 0; gpu < from.size(); ++gpu) {
      if (gpu > 0 && from[gpu] == from[gpu - 1]) continue;
      for (size_t i = 0; i < options.layouts.size(); ++i) {
        Layouts next = from;
        next[gpu] = i;
        std::ranges::sort(next);
        if (!known.insert(next).second) continue;
        ASSIGN_OR_RETURN(const double times, times_of(options, next, arrivals));
        judged.emplace_back(times, next);
        if (times > best.first * (1 + 1e-9)) {
          best = judged.back();
          improved = true;
        }
      }
    }
  }
  std::ranges::sort(judged, is_better);
  // A bound says nothing of latencies, so that the best of both kinds are tried.
  std::vector<Layouts> chosen;
  const auto choose = [&](bool alike, size_t most) {
    for (const auto& [times, layouts] : judged) {
      if (times <= 0 || chosen.size() >= most) break;
      if ((layouts.front() == layouts.back()) == alike) chosen.push_back(layouts);
    }
  };
  choose(true, options.gpus == 1 ? options.most_simulated : (options.most_simulated + 1) / 2);
  choose(false, options.most_simulated);
  return chosen;
}

Result<JudgedLayout> judge(const AdviceOptions& options, const Layouts& gpus,
                           const std::vector<Arrival>& arrivals) {
  JudgedLayout judged;
  for (const size_t layout : gpus) judged.gpus.push_back(options.layouts[layout]);
  ASSIGN_OR_RETURN(judged.most_times, times_of(options, gpus, arrivals));
  slice_scheduling::SlicePolicyOptions policy_options;
  policy_options.costs = options.costs;
  ASSIGN_OR_RETURN(auto policy,
                   slice_scheduling::make_slice_policy(options.policy, policy_options));
  Scene scene;
  scene.slices = slices_of(options, gpus);
  scene.functions = options.functions;
  scene.arrivals = arrivals;
  scene.machine = options.machine;
  scene.seed = options.seed;
  slice_scheduling::SliceDispatcherOptions limits;
  limits.most_queued = arrivals.size() + 1;
  const RunResult result = run(scene, std::move(policy), limits);
  std::vector<double> latencies;
  double hits = 0, answered = 0;
  for (const RequestOutcome& request : result.requests) {
    hits += request.hit() ? 1 : 0;
    answered += request.succeeded() ? 1 : 0;
    const Instant until = request.succeeded() ? request.completed : result.ended;
    latencies.push_back(to_seconds(until - request.submitted));
  }
  const double count = static_cast<double>(latencies.size());
  judged.hit_share = hits / count;
  judged.answered_share = answered / count;
  for (const double latency : latencies) judged.mean_s += latency / count;
  std::ranges::sort(latencies);
  judged.p95_s = latencies[static_cast<size_t>(std::ceil(0.95 * count)) - 1];
  return judged;
}

Result<AdvisedPart> advise_part(const AdviceOptions& options, Instant from, Instant to) {
  AdvisedPart part{from, to, {}};
  const auto arrivals = between(options.arrivals, from, to, options.most_arrivals);
  ASSIGN_OR_RETURN(const auto chosen, candidates(options, arrivals));
  if (chosen.empty()) {
    return Error{ErrorCode::kResourceExhausted,
                 "no layout of these GPUs can hold all of the functions"};
  }
  for (const Layouts& gpus : chosen) {
    ASSIGN_OR_RETURN(JudgedLayout judged, judge(options, gpus, arrivals));
    part.layouts.push_back(std::move(judged));
  }
  // Shares that differ by less than a thousandth are alike.
  std::ranges::stable_sort(part.layouts, [](const JudgedLayout& a, const JudgedLayout& b) {
    const auto hits = [](const JudgedLayout& one) { return std::llround(1000 * one.hit_share); };
    const auto answered = [](const JudgedLayout& one) {
      return std::llround(1000 * one.answered_share);
    };
    if (hits(a) != hits(b)) return hits(a) > hits(b);
    // Refusals are quick: latencies compare where as much is answered.
    return answered(a) != answered(b) ? answered(a) > answered(b) : a.mean_s < b.mean_s;
  });
  return part;
}

}  // namespace

std::string JudgedLayout::name() const {
  std::string name;
  for (size_t gpu = 0; gpu < gpus.size();) {
    size_t alike = 1;
    while (gpu + alike < gpus.size() && gpus[gpu + alike] == gpus[gpu]) ++alike;
    if (!name.empty()) name += "; ";
    if (gpus.size() > 1) name += std::to_string(alike) + " x ";
    std::string slices;
    for (const SliceShape& shape : gpus[gpu]) slices += (slices.empty() ? "" : ",") + shape.name;
    name += slices;
    gpu += alike;
  }
  return name;
}

Result<Advice> advise(const AdviceOptions& options) {
  const char* lacking = options.layouts.empty() || options.gpus == 0 ? "layouts of GPUs"
                        : options.functions.empty()                  ? "functions"
                        : options.arrivals.empty()                   ? "arrivals"
                                                                     : nullptr;
  if (lacking != nullptr) {
    return Error{ErrorCode::kInvalidArgument, std::string("there are no ") + lacking};
  }
  Advice advice;
  const Instant first = options.arrivals.front().at, last = options.arrivals.back().at;
  ASSIGN_OR_RETURN(advice.whole, advise_part(options, first, last));
  std::vector<std::pair<Instant, Instant>> parts = {{first, last}};
  for (size_t i = 1; i < options.arrivals.size(); ++i) {
    const Instant before = options.arrivals[i - 1].at, after = options.arrivals[i].at;
    if (after - before < options.change_takes) continue;
    advice.idle.push_back({before, after});
    parts.back().second = before;
    parts.emplace_back(after, last);
  }
  if (advice.idle.empty()) return advice;
  for (const auto& [from, to] : parts) {
    ASSIGN_OR_RETURN(AdvisedPart part, advise_part(options, from, to));
    advice.parts.push_back(std::move(part));
  }
  return advice;
}

}  // namespace lambent::slice_simulator
