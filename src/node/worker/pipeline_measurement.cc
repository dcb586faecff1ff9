#include "node/worker/pipeline_measurement.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>
#include <set>

#include "core/base/json_text.h"
#include "decide/pipeline/stage_process_cost.h"

namespace lambent::worker {
namespace {

using nlohmann::json;
using slice_scheduling::JobId;

// Jobs of measurements are known only here.
constexpr uint64_t kFirstJob = uint64_t{1} << 62;
constexpr const char* kInUse = "every slice of this shape is at work";
// How often it is asked whether a slice's instances are gone.
constexpr Duration kFreeCheck = milliseconds(10);
// No measurement may keep slices from others for longer.
constexpr Duration kMostTime = std::chrono::minutes(10);

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

// Whether no instance has it, or only instances that have nothing to do.
enum class Status { kFree, kIdle, kBusy };
Status status_of(const slice_scheduling::SliceWorld& world, const Slice& slice) {
  const auto state = world.slices.find(slice.id);
  if (state == world.slices.end() || state->second.lost) return Status::kBusy;
  if (state->second.is_free()) return Status::kFree;
  const bool busy =
      std::any_of(world.instances.begin(), world.instances.end(), [&](const auto& each) {
        const auto& slices = each.second.placement.slices;
        return each.second.jobs > 0 &&
               std::find(slices.begin(), slices.end(), slice.id) != slices.end();
      });
  return busy ? Status::kBusy : Status::kIdle;
}

}  // namespace

PipelineMeasurement::PipelineMeasurement(Dependencies dependencies, FunctionId function,
                                         std::shared_ptr<const PipelinePackage> package,
                                         std::string event, unsigned repeat, Done done)
    : uses_(std::move(dependencies)),
      function_(function),
      package_(std::move(package)),
      event_(std::move(event)),
      repeat_(repeat),
      done_(std::move(done)) {
  limit_ = uses_.loop.call_after(kMostTime, [this] {
    cancel({ErrorCode::kDeadlineExceeded, "it took more than " +
                                              std::to_string(kMostTime / seconds(60)) +
                                              " minutes; try fewer repeats"});
  });
}

PipelineMeasurement::~PipelineMeasurement() {
  uses_.loop.cancel(next_);
  uses_.loop.cancel(limit_);
  if (instance_ != nullptr) uses_.instances.forget(*instance_);
  if (done_) done_(Error{ErrorCode::kUnavailable, "the worker is stopping; try again elsewhere"});
}

void PipelineMeasurement::cancel(Error error) {
  if (cancelled_) return;
  cancelled_ = std::move(error);
  shapes_.clear();
  if (instance_ != nullptr) instance_->stop(*cancelled_, "Sandbox.Stopped");
}

void PipelineMeasurement::begin() {
  std::set<std::string> seen;
  for (const Status wanted : {Status::kFree, Status::kIdle}) {
    for (const Slice& slice : uses_.setting.slices) {
      if (status_of(uses_.dispatcher.world(), slice) != wanted) continue;
      if (seen.insert(slice.shape.name).second) shapes_.push_back(&slice);
    }
  }
  for (const Slice& slice : uses_.setting.slices) {
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
  const PipelineFunctions::Function* owner = uses_.functions.find(function_);
  if (owner == nullptr) return false;  // and then this was cancelled
  const Status status = status_of(uses_.dispatcher.world(), *slice_);
  if (status == Status::kBusy) return skip(kInUse), false;
  const pipeline::PipelineFunction& planned = *owner->planned;
  pipeline::StageProcess whole;
  whole.components.resize(planned.dag.components.size());
  std::iota(whole.components.begin(), whole.components.end(), size_t{0});
  const Bytes needed = pipeline::memory_of(planned, whole);
  if (needed > slice_->shape.memory) {
    skip("the function needs " + to_string(needed) +
         " in one piece; its stages are measured there when they run");
    return false;
  }
  placement_ = {};
  placement_.partition.stages = {{{whole}}};
  placement_.slices = {slice_->id};
  given_ = 0;
  failure_.clear();
  readings_.clear();
  // No other may have it meanwhile; one that was idle on it starts again when there is work.
  uses_.take_slice(slice_->id, {ErrorCode::kCancelled, "its slice is used for a measurement"});
  start_when_free();
  return true;
}

void PipelineMeasurement::start_when_free() {
  if (uses_.instances.any_on(slice_->id)) {
    next_ = uses_.loop.call_after(kFreeCheck, [this] { start_when_free(); });
    return;
  }
  if (cancelled_) {
    leave_slice();
    return finish();
  }
  PipelineInstance::Events events;
  events.on_ready = [this] { give(); };
  events.on_job = [this](const JobEnd& end) { job_ended(end); };
  events.on_end = [this](const InstanceEnd& end) { instance_ended(end); };
  events.on_ending = [] {};
  const PipelineFunctions::Function& function = *uses_.functions.find(function_);
  instance_ = uses_.instances.make(function.spec, function.package, placement_, "measurement",
                                   std::move(events));
  instance_->start();
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
  const bool is_done = given_ > repeat_ && end.error_type == "Sandbox.Stopped" && !cancelled_;
  if (cancelled_) {
    skip(cancelled_->message);
  } else if (!failure_.empty()) {
    skip("the function failed: " + failure_);
  } else if (is_done) {
    keep_medians();
    measured_.push_back(slice_->shape.name);
  } else {
    skip(to_string(end.error) + (end.payload.empty() ? "" : ": " + end.payload));
  }
  uses_.instances.forget(*instance_);
  // It is the instance itself that calls.
  next_ = uses_.loop.call_after(Duration(0), [this] {
    instance_.reset();
    leave_slice();
    next_shape();
  });
}

void PipelineMeasurement::leave_slice() {
  const DeviceId slice = slice_->id;
  slice_ = nullptr;
  uses_.offer_slice(slice);
}

void PipelineMeasurement::keep_medians() {
  PipelineFunctions::Function* owner = uses_.functions.find(function_);
  if (owner == nullptr || owner->package != package_) return;
  for (const auto& [component, readings] : readings_) {
    const ComponentReading median = median_of(readings);
    owner->estimate.replace({.component = component,
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
  PipelineFunctions::Function* owner = uses_.functions.find(function_);
  Result<std::string> told =
      Error{ErrorCode::kFailedPrecondition, "nothing was measured: " + reasons};
  if (cancelled_) told = *cancelled_;
  if (owner != nullptr && !measured_.empty() && !cancelled_) {
    (void)owner->estimate.is_news();  // it is told here
    uses_.functions.plan_again(*owner);
    answer["profile"] =
        json::parse(pipeline::to_json(owner->estimate.measured(), owner->package->definition.dag));
    told = json_text(answer);
  }
  const Done done = std::exchange(done_, nullptr);
  const auto on_finished = uses_.on_finished;  // a copy: the original goes with this
  on_finished();
  done(std::move(told));
}

}  // namespace lambent::worker
