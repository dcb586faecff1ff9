#include "sim/workload/statistics.h"

#include "core/base/check.h"

namespace lambent::workload {
namespace {

double ratio(uint64_t part, uint64_t whole) {
  return whole == 0 ? 0 : static_cast<double>(part) / static_cast<double>(whole);
}

}  // namespace

RunStatistics::RunStatistics(std::vector<std::string> names, std::vector<double> warm_s)
    : names_(std::move(names)), warm_s_(std::move(warm_s)), functions_(names_.size()) {
  warm_s_.resize(names_.size(), 0);
}

void RunStatistics::add(const Sample& sample) {
  CHECK(sample.function < functions_.size(), "a sample is of a known function");
  PerFunction& function = functions_[sample.function];
  if (sample.in_time) {
    for (SloHits* slo : {&slo_, &function.slo}) ++(*sample.in_time ? slo->in_time : slo->late);
  }
  if (!sample.succeeded) {
    ++failed_;
    ++function.failed;
    return;
  }
  for (Mean* latency : {&latency_, &function.latency}) latency->add(sample.latency_s);
  function.latencies.add(sample.latency_s);
  for (Mean* queue : {&queue_, &function.queue}) queue->add(sample.queue_s);
  for (Mean* cold : {&cold_, &function.cold}) cold->add(sample.cold_s);
  for (Mean* run : {&run_, &function.run}) run->add(sample.run_s);
  memory_.add(sample.memory_s);
  const int bucket = Quantiles::bucket_of(sample.latency_s);
  quantiles_.add(sample.latency_s, bucket);
  function.quantiles.add(sample.latency_s, bucket);
  busy_s_ += sample.run_s;
  if (sample.start == StartClass::kCold) {
    ++cold_starts_;
    ++function.cold_starts;
  }
  if (sample.start == StartClass::kGpuCold) ++gpu_cold_starts_;
  if (const double warm = warm_s_[sample.function]; warm > 0) {
    normalised_.add(sample.latency_s / warm);
  }
}

std::optional<double> RunStatistics::SloHits::ratio() const {
  if (in_time + late == 0) return std::nullopt;
  return workload::ratio(in_time, in_time + late);
}

Summary RunStatistics::summary(double elapsed_s, unsigned devices) const {
  Summary summary{.count = latency_.count(),
                  .failed = failed_,
                  .mean_s = latency_.mean(),
                  .p50_s = quantiles_.at(0.5),
                  .p90_s = quantiles_.at(0.9),
                  .p99_s = quantiles_.at(0.99),
                  .max_s = quantiles_.most(),
                  .cold_ratio = ratio(cold_starts_, latency_.count()),
                  .gpu_cold_ratio = ratio(gpu_cold_starts_, latency_.count()),
                  .queue_mean_s = queue_.mean(),
                  .cold_mean_s = cold_.mean(),
                  .run_mean_s = run_.mean(),
                  .memory_mean_s = memory_.mean(),
                  .slo_hit_ratio = slo_.ratio()};
  Moments means;
  Mean within;
  for (size_t i = 0; i < functions_.size(); ++i) {
    const PerFunction& function = functions_[i];
    if (function.latency.count() > 0) {
      means.add(function.latency.mean());
      within.add(function.latencies.variance());
    }
    summary.functions.push_back(
        {.name = names_[i],
         .count = function.latency.count(),
         .failed = function.failed,
         .mean_s = function.latency.mean(),
         .p50_s = function.quantiles.at(0.5),
         .p99_s = function.quantiles.at(0.99),
         .warm_s = warm_s_[i],
         .cold_ratio = ratio(function.cold_starts, function.latency.count()),
         .queue_mean_s = function.queue.mean(),
         .cold_mean_s = function.cold.mean(),
         .run_mean_s = function.run.mean(),
         .variance = function.latencies.variance(),
         .slo_hit_ratio = function.slo.ratio()});
  }
  summary.variance_between_functions = means.variance();
  summary.variance_within_functions = within.mean();
  if (normalised_.count() > 0 && normalised_.count() == latency_.count()) {
    summary.normalised_latency = normalised_.mean();
  }
  if (elapsed_s > 0 && devices > 0) summary.busy_ratio = busy_s_ / (elapsed_s * devices);
  return summary;
}

}  // namespace lambent::workload
