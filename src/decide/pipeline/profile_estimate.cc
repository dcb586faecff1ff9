#include "decide/pipeline/profile_estimate.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <utility>

namespace lambent::pipeline {
namespace {

constexpr double kLeastWeight = 0.05;
constexpr double kNews = 0.1;

double mixed(double old, double now, double weight) { return old + weight * (now - old); }

Duration mixed(Duration old, Duration now, double weight) {
  return Duration(static_cast<int64_t>(
      mixed(static_cast<double>(old.count()), static_cast<double>(now.count()), weight)));
}

bool differ(double one, double other) {
  return std::abs(one - other) > kNews * std::max(std::abs(one), std::abs(other));
}

using BatchTimes = std::map<std::string, std::map<unsigned, Duration>>;

bool differ(const BatchTimes& one, const BatchTimes& other) {
  return !std::equal(
      one.begin(), one.end(), other.begin(), other.end(), [](const auto& its, const auto& others) {
        return its.first == others.first &&
               std::equal(its.second.begin(), its.second.end(), others.second.begin(),
                          others.second.end(), [](const auto& a, const auto& b) {
                            return a.first == b.first &&
                                   !differ(to_seconds(a.second), to_seconds(b.second));
                          });
      });
}

bool differ(const ComponentProfile& one, const ComponentProfile& other) {
  const auto bytes = [](Bytes b) { return static_cast<double>(b.count); };
  if (differ(bytes(one.memory), bytes(other.memory)) ||
      differ(bytes(one.output), bytes(other.output)) ||
      differ(bytes(one.weights), bytes(other.weights)) ||
      differ(one.probability, other.probability) ||
      one.time_by_shape.size() != other.time_by_shape.size()) {
    return true;
  }
  for (const auto& [shape, time] : one.time_by_shape) {
    const auto found = other.time_by_shape.find(shape);
    if (found == other.time_by_shape.end()) return true;
    if (differ(to_seconds(time), to_seconds(found->second))) return true;
  }
  return differ(one.batch_times_by_shape, other.batch_times_by_shape);
}

}  // namespace

ProfileEstimate::ProfileEstimate(MeasuredProfile measured, size_t components)
    : measured_(std::move(measured)), chances_(components) {
  measured_.profile.components.resize(components);
  for (size_t i = 0; i < components; ++i) {
    const ComponentProfile& known = measured_.profile.components[i];
    for (const auto& [shape, time] : known.time_by_shape) times_[{i, shape, 1}].runs = kTrusted;
    for (const auto& [shape, sizes] : known.batch_times_by_shape) {
      for (const auto& [requests, time] : sizes) times_[{i, shape, requests}].runs = kTrusted;
    }
    if (!(known == ComponentProfile())) chances_[i].runs = kTrusted;
  }
  if (measured_.profile.start > Duration(0)) starts_.runs = kTrusted;
  told_ = measured_;
}

double ProfileEstimate::Weight::next() {
  return std::max(kLeastWeight, 1.0 / static_cast<double>(++runs));
}

void ProfileEstimate::add(const ComponentRun& run, const SliceShape& shape) {
  if (run.component >= measured_.profile.components.size()) return;
  ComponentProfile& component = measured_.profile.components[run.component];
  if (run.requests > 0) {
    const double chance = static_cast<double>(run.ran) / run.requests;
    component.probability = mixed(component.probability, chance, chances_[run.component].next());
  }
  component.weights = std::max(component.weights, run.weights);
  component.memory = std::max(component.memory, run.memory);
  if (run.ran == 0) return;
  component.output = std::max(component.output, run.output);
  learn_time(run, shape);
  know(shape);
}

// What a batch takes says nothing of one request, but where nothing else does.
void ProfileEstimate::learn_time(const ComponentRun& run, const SliceShape& shape) {
  ComponentProfile& component = measured_.profile.components[run.component];
  const bool is_batch = run.together && run.ran > 1;
  if (!is_batch || !component.time_by_shape.contains(shape.name)) {
    Duration& time = component.time_by_shape[shape.name];
    Weight& weight = times_[{run.component, shape.name, 1}];
    time = mixed(time, run.time / run.ran, weight.next());
    if (is_batch) weight.runs = 0;  // the first request by itself takes its place
    return;
  }
  const unsigned size = std::bit_floor(run.ran);
  Weight& weight = times_[{run.component, shape.name, size}];
  if (weight.runs == 0 && !std::exchange(weight.warm, true)) return;
  Duration& time = component.batch_times_by_shape[shape.name][size];
  time = mixed(time, run.time * size / run.ran, weight.next());
}

void ProfileEstimate::replace(const ComponentRun& run, const SliceShape& shape) {
  if (run.component >= measured_.profile.components.size() || run.requests == 0) return;
  ComponentProfile& component = measured_.profile.components[run.component];
  component.probability = static_cast<double>(run.ran) / run.requests;
  chances_[run.component].runs = kTrusted;
  component.weights = run.weights;
  if (run.ran == 0) {  // its working memory, output and time are as far as they were known
    component.memory = std::max(component.memory, std::max(run.memory, run.weights));
    return;
  }
  component.memory = run.memory;
  component.output = run.output;
  // What batches were found to take was beside what one took then.
  Duration& alone = component.time_by_shape[shape.name];
  const Duration before = std::exchange(alone, run.time / run.ran);
  const auto batches = component.batch_times_by_shape.find(shape.name);
  if (before > Duration(0) && batches != component.batch_times_by_shape.end()) {
    const double ratio = to_seconds(alone) / to_seconds(before);
    for (auto& [size, time] : batches->second) time = from_seconds(to_seconds(time) * ratio);
  }
  times_[{run.component, shape.name, 1}].runs = kTrusted;
  know(shape);
}

void ProfileEstimate::know(const SliceShape& shape) {
  const auto same = [&](const SliceShape& each) { return each.name == shape.name; };
  if (std::any_of(measured_.shapes.begin(), measured_.shapes.end(), same)) return;
  const auto place = std::find_if(measured_.shapes.begin(), measured_.shapes.end(),
                                  [&](const SliceShape& each) { return each.name > shape.name; });
  measured_.shapes.insert(place, shape);
}

void ProfileEstimate::add_start(Duration start) {
  measured_.profile.start = mixed(measured_.profile.start, start, starts_.next());
}

bool ProfileEstimate::is_news() {
  const auto& now = measured_.profile.components;
  const auto& then = told_.profile.components;
  const bool same =
      std::equal(now.begin(), now.end(), then.begin(), then.end(),
                 [](const auto& one, const auto& other) { return !differ(one, other); });
  const bool starts_alike =
      !differ(to_seconds(measured_.profile.start), to_seconds(told_.profile.start));
  if (same && starts_alike) return false;
  told_ = measured_;
  return true;
}

}  // namespace lambent::pipeline
