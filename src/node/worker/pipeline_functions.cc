#include "node/worker/pipeline_functions.h"

#include <algorithm>
#include <utility>

#include "decide/slice_scheduling/placer.h"

namespace lambent::worker {

using pipeline::PipelineFunction;

Result<PipelineFunctions::Planned> PipelineFunctions::plan(
    const PipelineSetting& setting, const FunctionSpec& spec, const PipelinePackage& package,
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

Result<void> PipelineFunctions::check_package(const FunctionSpec& spec,
                                              const PipelinePackage& package) {
  if (package.definition.isolation != pipeline::IsolationRule::kShared) return {};
  return check_memory_is_named(spec);
}

Result<PipelineFunctions::Planned> PipelineFunctions::check(const PipelineSetting& setting,
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

bool PipelineFunctions::could_serve(const PipelineSetting& setting, const FunctionSpec& spec,
                                    const PipelinePackage& package,
                                    const PipelineFunction& planned) {
  const pipeline::IsolationRule rule = package.definition.isolation;
  const auto place = slice_scheduling::planner_placer(setting.planner.costs);
  const bool may_have_slices = rule != pipeline::IsolationRule::kShared;
  if (may_have_slices && place(planned, setting.slices)) return true;
  return rule != pipeline::IsolationRule::kSlices && check_shared(setting.shared, spec).ok();
}

Result<PipelineFunctions::Planned> PipelineFunctions::kept_for_others(
    const PipelineSetting& setting, const FunctionSpec& spec, const PipelinePackage& package) {
  auto planned =
      plan(setting, spec, package, package.profile.value_or(pipeline::MeasuredProfile{}));
  const bool fits_none = !planned.ok() && planned.error().code == ErrorCode::kResourceExhausted;
  if (fits_none) return unplanned(spec.id, package);
  return planned;
}

PipelineFunctions::Planned PipelineFunctions::unplanned(FunctionId id,
                                                        const PipelinePackage& package) {
  return std::make_shared<const PipelineFunction>(
      PipelineFunction{.id = id, .dag = package.definition.dag});
}

void PipelineFunctions::put(const FunctionSpec& spec,
                            std::shared_ptr<const PipelinePackage> package, Planned planned,
                            const std::string& learnt) {
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
    function = *unplanned(spec.id, *package);
  }
  function.id = spec.id;
  const size_t components = package->definition.dag.components.size();
  Counts counts;
  if (const Function* old = find(spec.id)) counts = old->counts;
  functions_.erase(spec.id);
  functions_.emplace(
      spec.id, Function{.spec = spec,
                        .package = std::move(package),
                        .estimate = {std::move(measured), components},
                        .planned = std::make_shared<const PipelineFunction>(std::move(function)),
                        .last_end = {},
                        .counts = counts});
  judge(functions_.at(spec.id));
  events_.on_planned(functions_.at(spec.id).planned, true);
}

PipelineFunctions::Function* PipelineFunctions::find(FunctionId function) {
  const auto found = functions_.find(function);
  return found != functions_.end() ? &found->second : nullptr;
}

const PipelineFunctions::Function* PipelineFunctions::find(FunctionId function) const {
  const auto found = functions_.find(function);
  return found != functions_.end() ? &found->second : nullptr;
}

std::string PipelineFunctions::name_for(TenantId tenant, FunctionId function) const {
  const Function* found = find(function);
  return found != nullptr && found->spec.name.tenant == tenant ? found->spec.name.name : "";
}

std::optional<bool> PipelineFunctions::count(Function& function, Outcome outcome, Duration took) {
  if (outcome != Outcome::kRejected) ++function.counts.completed;
  const Duration slo = function.planned->slo;
  if (slo <= Duration(0)) return std::nullopt;
  const bool in_time = outcome == Outcome::kSucceeded && took <= slo;
  ++(in_time ? function.counts.in_time : function.counts.late);
  return in_time;
}

void PipelineFunctions::learn(Function& function, const PipelinePackage& package,
                              const JobEnd& end) {
  if (&package != function.package.get()) return;  // of an older revision
  const bool all_succeeded = std::all_of(end.results.begin(), end.results.end(),
                                         [](const RequestAnswer& each) { return each.succeeded; });
  for (const auto& [device, reading] : end.readings) {
    // What failed before an optional component does not show how often that runs.
    const bool shows =
        package.definition.dag.components[reading.component].optional && all_succeeded;
    function.estimate.add({.component = reading.component,
                           .requests = shows ? static_cast<unsigned>(end.results.size()) : 0,
                           .ran = reading.ran,
                           .time = reading.time,
                           .together = reading.together,
                           .memory = reading.memory,
                           .weights = reading.weights,
                           .output = reading.output},
                          setting_.slice(device)->shape);
  }
  if (function.estimate.is_news()) plan_again(function);
}

void PipelineFunctions::plan_again(Function& function) {
  function.is_stale = true;
  if (std::exchange(function.planning, true)) return;
  function.is_stale = false;
  auto made = std::make_shared<Result<Planned>>(Planned());
  // The work has copies of all that it needs: this may be gone before it is done.
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

void PipelineFunctions::planned_again(FunctionId id, const PipelinePackage* package,
                                      Result<Planned> made) {
  Function* function = find(id);
  if (function == nullptr || function->package.get() != package) return;
  function->planning = false;
  if (made.ok()) {
    function->planned = std::move(made).value();
    judge(*function);
    if (events_.on_profile) {
      events_.on_profile(
          id, pipeline::to_json(function->estimate.measured(), function->package->definition.dag));
    }
    events_.on_planned(function->planned, false);
  } else {
    // It was measured to need more than there is: it goes on as it was planned before.
    log_.warning("pipeline_not_planned",
                 {{"function", function->spec.name.name}, {"error", to_string(made.error())}});
  }
  if (function->is_stale) plan_again(*function);
}

void PipelineFunctions::judge(Function& function) const {
  const auto serves = [&](const PipelineSetting& setting) {
    return could_serve(setting, function.spec, *function.package, *function.planned);
  };
  function.is_served_with_lost = serves(setting_);
  function.is_served = function.is_served_with_lost;
  if (lost_.empty() || !function.is_served) return;
  PipelineSetting there = setting_;
  std::erase_if(there.slices, [this](const Slice& slice) { return lost_.contains(slice.id); });
  function.is_served = serves(there);
}

void PipelineFunctions::note_slice(DeviceId slice, bool lost) {
  if (lost) {
    lost_.insert(slice);
  } else {
    lost_.erase(slice);
  }
  for (auto& [id, function] : functions_) {
    function.status.reset();
    judge(function);
  }
}

}  // namespace lambent::worker
