// The part of PipelineHost that knows functions: how each is planned, at deployment and again when
// production shows that its components take another time or more memory than was thought.
#include <algorithm>
#include <utility>

#include "node/worker/pipeline_host.h"

namespace lambent::worker {

using pipeline::PipelineFunction;

Result<PipelineHost::Planned> PipelineHost::plan(const PipelineSetting& setting,
                                                 const FunctionSpec& spec,
                                                 const PipelinePackage& package,
                                                 const pipeline::MeasuredProfile& measured) {
  pipeline::MeasuredProfile known = measured;
  known.profile.context = std::max(known.profile.context, setting.context_memory);
  pipeline::PlannerOptions options = setting.planner;
  const auto add_shape = [&](const SliceShape& added) {
    const auto same = [&](const SliceShape& shape) { return shape.name == added.name; };
    if (std::none_of(options.shapes.begin(), options.shapes.end(), same)) {
      options.shapes.push_back(added);
    }
  };
  for (const Slice& slice : setting.slices) add_shape(slice.shape);
  if (package.definition.isolation != pipeline::IsolationRule::kSlices &&
      setting.shared.shape.memory > Bytes(0)) {
    add_shape(setting.shared.shape);
  }
  ASSIGN_OR_RETURN(PipelineFunction function,
                   pipeline::plan_function(spec.id, package.definition, known, spec.gpu.memory,
                                           std::move(options)));
  return {std::make_shared<const PipelineFunction>(std::move(function))};
}

Result<PipelineHost::Planned> PipelineHost::check(const PipelineSetting& setting,
                                                  const FunctionSpec& spec,
                                                  const PipelinePackage& package) {
  const pipeline::IsolationRule rule = package.definition.isolation;
  if (rule == pipeline::IsolationRule::kShared ||
      (rule == pipeline::IsolationRule::kAuto && setting.slices.empty())) {
    RETURN_IF_ERROR(check_shared(setting.shared, spec));
  } else if (setting.slices.empty()) {
    return Error{ErrorCode::kFailedPrecondition,
                 "this worker gives no devices to pipelines; start it with --pipeline-slices"};
  }
  return plan(setting, spec, package, package.profile.value_or(pipeline::MeasuredProfile{}));
}

void PipelineHost::put(const FunctionSpec& spec, std::shared_ptr<const PipelinePackage> package,
                       Planned planned, const std::string& learnt) {
  pipeline::MeasuredProfile measured;
  if (package->profile) measured = *package->profile;
  if (!learnt.empty()) {
    auto profile = pipeline::parse_profile(learnt, package->definition.dag);
    auto made = profile.ok() ? plan(setting_, spec, *package, *profile) : profile.error();
    if (made.ok()) {
      measured = std::move(profile).value();
      planned = std::move(made).value();
    } else {
      log_.warning("profile_not_taken",
                   {{"function", spec.name.name}, {"error", to_string(made.error())}});
    }
  }
  PipelineFunction function;
  if (planned != nullptr) {
    function = *planned;
  } else if (auto made = plan(setting_, spec, *package, measured); made.ok()) {
    function = **made;
  } else {
    // It was deployed before the worker's slices became others: its requests are refused.
    log_.warning("pipeline_not_planned",
                 {{"function", spec.name.name}, {"error", to_string(made.error())}});
    function.dag = package->definition.dag;
  }
  function.id = spec.id;
  const size_t components = package->definition.dag.components.size();
  Counts counts;
  if (const auto old = functions_.find(spec.id); old != functions_.end()) {
    counts = old->second.counts;
  }
  end_measurement(spec.id, {ErrorCode::kAborted, "the function was deployed again"});
  functions_.erase(spec.id);
  functions_.emplace(
      spec.id, Function{.spec = spec,
                        .package = std::move(package),
                        .estimate = {std::move(measured), components},
                        .planned = std::make_shared<const PipelineFunction>(std::move(function)),
                        .last_end = {},
                        .counts = counts});
  handle(slice_scheduling::FunctionPut{functions_.at(spec.id).planned, true});
}

void PipelineHost::plan_again(Function& function) {
  function.is_stale = true;
  if (std::exchange(function.planning, true)) return;
  function.is_stale = false;
  auto made = std::make_shared<Result<Planned>>(Planned());
  // What it needs is its own: this may be gone before it is done.
  const auto work = [made, setting = setting_, spec = function.spec, package = function.package,
                     measured = function.estimate.measured()] {
    *made = plan(setting, spec, *package, measured);
  };
  const auto completion = [this, alive = std::weak_ptr<const bool>(alive_), made,
                           id = function.spec.id, package = function.package] {
    if (!alive.expired()) planned_again(id, package.get(), std::move(*made));
  };
  if (setting_.background && setting_.background(work, completion)) return;
  work();
  completion();
}

void PipelineHost::planned_again(FunctionId id, const PipelinePackage* package,
                                 Result<Planned> made) {
  const auto found = functions_.find(id);
  if (found == functions_.end() || found->second.package.get() != package) return;
  Function& function = found->second;
  function.planning = false;
  if (made.ok()) {
    function.planned = std::move(made).value();
    tell_profile(function);
    handle(slice_scheduling::FunctionPut{function.planned, false});
  } else {
    // It was measured to need more than there is: it goes on as it was planned before.
    log_.warning("pipeline_not_planned",
                 {{"function", function.spec.name.name}, {"error", to_string(made.error())}});
  }
  if (function.is_stale) plan_again(function);
}

void PipelineHost::remove(FunctionId function) {
  if (functions_.erase(function) == 0) return;
  end_measurement(function, {ErrorCode::kNotFound, "the function was removed"});
  handle(slice_scheduling::FunctionRemoved{function});
}

void PipelineHost::learn(Function& function, const PipelinePackage& package, const JobEnd& end) {
  const Instant given = loop_.clock().now() - end.execution;
  for (const JobEnd::StageProcessTime& stage_process : end.stage_processes) {
    busy_[stage_process.slice] += stage_process.busy;
    function.counts.mig_time += stage_process.busy;
    const Instant done = given + stage_process.ended - stage_process.send;
    gpu_busy_[gpu_of(stage_process.slice)].add(done - stage_process.busy, done);
  }
  if (&package != function.package.get()) return;  // of an older revision
  const bool all_succeeded = std::all_of(end.results.begin(), end.results.end(),
                                         [](const RequestAnswer& each) { return each.succeeded; });
  for (const auto& [device, reading] : end.readings) {
    // What failed before an optional component says nothing of how often that runs.
    const bool tells =
        package.definition.dag.components[reading.component].optional && all_succeeded;
    function.estimate.add({.component = reading.component,
                           .requests = tells ? static_cast<unsigned>(end.results.size()) : 0,
                           .ran = reading.ran,
                           .time = reading.time,
                           .memory = reading.memory,
                           .weights = reading.weights,
                           .output = reading.output},
                          slice_of(device)->shape);
  }
  if (!function.estimate.is_news()) return;
  plan_again(function);
}

void PipelineHost::tell_profile(const Function& function) {
  if (!events_.on_profile) return;
  events_.on_profile(function.spec.id, pipeline::to_json(function.estimate.measured(),
                                                         function.package->definition.dag));
}

}  // namespace lambent::worker
