#include "worker/pipeline_measurement.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>
#include <set>

#include "pipeline/lane_cost.h"

namespace lambent::worker {
namespace {

using nlohmann::json;
using slice_scheduling::JobId;

// Jobs of measurements are known to nobody else.
constexpr uint64_t kFirstJob = uint64_t{1} << 62;
constexpr const char* kInUse = "every slice of this shape is in use";

ComponentReading median_of(std::vector<ComponentReading> readings) {
  const auto middle = readings.begin() + static_cast<std::ptrdiff_t>(readings.size() / 2);
  std::nth_element(readings.begin(), middle, readings.end(),
                   [](const auto& one, const auto& other) { return one.time < other.time; });
  ComponentReading median = *middle;
  for (const ComponentReading& each : readings) {
    median.memory = std::max(median.memory, each.memory);
    median.weights = std::max(median.weights, each.weights);
    median.output = std::max(median.output, each.output);
  }
  return median;
}

bool is_free(const slice_scheduling::SliceWorld& world, const Slice& slice) {
  const auto state = world.slices.find(slice.id);
  return state != world.slices.end() && state->second.is_free();
}

}  // namespace

PipelineMeasurement::PipelineMeasurement(PipelineHost& host, FunctionId function, std::string event,
                                         unsigned repeat, Done done)
    : host_(host),
      function_(function),
      event_(std::move(event)),
      repeat_(repeat),
      done_(std::move(done)) {}

PipelineMeasurement::~PipelineMeasurement() {
  host_.loop_.cancel(next_);
  if (instance_ != nullptr) host_.forget_lanes(*instance_);
}

void PipelineMeasurement::begin() {
  std::set<std::string> seen;
  for (const Slice& slice : host_.setting_.slices) {
    if (!is_free(host_.dispatcher_->world(), slice)) continue;
    if (seen.insert(slice.shape.name).second) shapes_.push_back(&slice);
  }
  for (const Slice& slice : host_.setting_.slices) {
    if (seen.insert(slice.shape.name).second) skipped_.emplace_back(slice.shape.name, kInUse);
  }
  next_shape();
}

void PipelineMeasurement::next_shape() {
  while (!shapes_.empty()) {
    slice_ = shapes_.front();
    shapes_.pop_front();
    if (measure_here()) return;
  }
  finish();
}

bool PipelineMeasurement::measure_here() {
  const auto owner = host_.functions_.find(function_);
  if (owner == host_.functions_.end()) return skip("the function was removed"), false;
  if (!is_free(host_.dispatcher_->world(), *slice_)) return skip(kInUse), false;
  const pipeline::PipelineFunction& planned = *owner->second.planned;
  pipeline::Lane whole;
  whole.components.resize(planned.dag.components.size());
  std::iota(whole.components.begin(), whole.components.end(), size_t{0});
  const Bytes needed = pipeline::memory_of(planned, whole);
  if (needed > slice_->shape.memory) {
    skip("the function needs " + to_string(needed) +
         " in one piece; its stages are measured there when they run");
    return false;
  }
  pipeline::Placement placement;
  placement.partition.stages = {{{whole}}};
  placement.slices = {slice_->id};
  PipelineInstance::Events events;
  events.on_ready = [this] { give(); };
  events.on_job = [this](const JobEnd& end) { job_ended(end); };
  events.on_end = [this](const InstanceEnd& end) { instance_ended(end); };
  // Nobody else may have it meanwhile.
  host_.handle(slice_scheduling::SliceLost{slice_->id});
  given_ = 0;
  failure_.clear();
  readings_.clear();
  instance_ = host_.make_instance(owner->second, placement, "measurement", std::move(events));
  instance_->start();
  return true;
}

void PipelineMeasurement::give() {
  ++given_;
  instance_->give(JobId(kFirstJob + given_), {{InvocationId{kFirstJob, given_}, event_}});
}

void PipelineMeasurement::job_ended(const JobEnd& end) {
  if (!end.results.front().succeeded) {
    failure_ = end.results.front().payload;
  } else if (given_ > 1) {  // the first one warms up
    for (const auto& [device, reading] : end.readings) {
      readings_[reading.component].push_back(reading);
    }
  }
  if (failure_.empty() && given_ <= repeat_) return give();
  instance_->stop({ErrorCode::kCancelled, "it was measured"}, "Sandbox.Stopped");
}

void PipelineMeasurement::instance_ended(const InstanceEnd& end) {
  const bool is_done = given_ > repeat_ && end.error_type == "Sandbox.Stopped";
  if (!failure_.empty()) {
    skip("the function failed: " + failure_);
  } else if (is_done) {
    keep_medians();
    measured_.push_back(slice_->shape.name);
  } else {
    skip(to_string(end.error) + (end.payload.empty() ? "" : ": " + end.payload));
  }
  host_.forget_lanes(*instance_);
  // It is the instance itself that calls.
  next_ = host_.loop_.call_after(Duration(0), [this] {
    instance_.reset();
    host_.handle(slice_scheduling::SliceAdded{*slice_});
    next_shape();
  });
}

void PipelineMeasurement::keep_medians() {
  const auto owner = host_.functions_.find(function_);
  if (owner == host_.functions_.end()) return;
  for (const auto& [component, readings] : readings_) {
    const ComponentReading median = median_of(readings);
    owner->second.book.replace({.component = component,
                                .requests = 1,
                                .ran = median.ran,
                                .time = median.time,
                                .memory = median.memory,
                                .weights = median.weights,
                                .output = median.output},
                               slice_->shape);
  }
}

void PipelineMeasurement::finish() {
  json answer = {{"measured", measured_}, {"skipped", json::array()}};
  std::string reasons;
  for (const auto& [shape, why] : skipped_) {
    answer["skipped"].push_back({{"shape", shape}, {"why", why}});
    reasons += (reasons.empty() ? "" : "; ") + shape + ": " + why;
  }
  const auto owner = host_.functions_.find(function_);
  Result<std::string> told =
      Error{ErrorCode::kFailedPrecondition, "nothing was measured: " + reasons};
  if (owner != host_.functions_.end() && !measured_.empty()) {
    PipelineHost::Function& function = owner->second;
    (void)function.book.is_news();  // it is told here
    host_.plan_again(function);
    host_.tell_profile(function);
    answer["profile"] =
        json::parse(pipeline::to_json(function.book.measured(), function.package->definition.dag));
    told = answer.dump(-1, ' ', false, json::error_handler_t::replace);
  }
  const Done done = std::move(done_);
  host_.measurement_.reset();  // and this with it
  done(std::move(told));
}

void PipelineHost::measure(FunctionId function, std::string event, unsigned repeat,
                           std::function<void(Result<std::string>)> done) {
  if (measurement_ != nullptr) {
    return done(Error{ErrorCode::kResourceExhausted, "a function is being measured already"});
  }
  if (!functions_.contains(function)) {
    return done(Error{ErrorCode::kNotFound, "there is no such pipeline function"});
  }
  if (const auto good = check_event(event); !good.ok()) return done(good.error());
  measurement_ = std::make_unique<PipelineMeasurement>(*this, function, std::move(event), repeat,
                                                       std::move(done));
  measurement_->begin();
}

}  // namespace lambent::worker
