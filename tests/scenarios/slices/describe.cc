// Stage, the words: actions and states as the scenario language has them.
#include <algorithm>

#include "tests/scenarios/slices/stage.h"

namespace lambent::slice_scenario {

using scenario::in_words;
using slice_scheduling::Action;
using slice_scheduling::CompleteRequest;
using slice_scheduling::InstanceId;
using slice_scheduling::StartInstance;

namespace {

// "1 and 2"
template <typename List, typename WordsOf>
std::string listed(const List& list, const WordsOf& words_of) {
  std::string text;
  for (const auto& each : list) text += (text.empty() ? "" : " and ") + words_of(each);
  return text;
}

std::string number_of(InstanceId id) { return std::to_string(id.value); }

std::string in_words(slice_scheduling::LoadState state) {
  using enum slice_scheduling::LoadState;
  switch (state) {
    case kStarting:
      return "starting";
    case kLoaded:
      return "loaded";
    case kUnloading:
      return "unloading";
    case kUnloaded:
      return "unloaded";
    case kLoading:
      return "loading";
    case kStopping:
      return "stopping";
  }
  return "?";
}

}  // namespace

std::string Stage::describe(const Action& action, Instant now) {
  if (const auto* start = std::get_if<StartInstance>(&action)) return describe(*start);
  if (const auto* complete = std::get_if<CompleteRequest>(&action)) return describe(*complete, now);
  if (const auto* stop = std::get_if<slice_scheduling::StopInstance>(&action)) {
    return "stop instance " + number_of(stop->instance);
  }
  if (const auto* unload = std::get_if<slice_scheduling::UnloadInstance>(&action)) {
    return "unload instance " + number_of(unload->instance);
  }
  if (const auto* load = std::get_if<slice_scheduling::LoadInstance>(&action)) {
    return "load instance " + number_of(load->instance);
  }
  if (const auto* given = std::get_if<slice_scheduling::GiveJob>(&action)) {
    const auto name = [&](InvocationId id) { return requests_.at(id).name; };
    return "run " + listed(given->requests, name) + " on instance " + number_of(given->instance) +
           (given->alone ? " alone" : "");
  }
  return "wake";
}

// "start instance 1 of blur with first and second on slice 1, third on slices 2 and 3"
std::string Stage::describe(const StartInstance& start) const {
  std::string text =
      "start instance " + number_of(start.instance) + " of " + name_of(start.function) + " with";
  const pipeline::Dag& dag = function(start.function).dag;
  size_t number = 0;
  auto slice = start.placement.slices.begin();
  for (const pipeline::Stage& stage : start.placement.partition.stages) {
    for (const pipeline::StageProcess& process : stage.stage_processes) {
      const size_t replicas = start.placement.replicas_of(number);
      const std::span<const DeviceId> slices(&*slice, replicas);
      text += (number == 0 ? " " : ", ") +
              listed(process.components, [&](size_t at) { return dag.components[at].name; }) +
              (replicas == 1 ? " on slice " : " on slices ") +
              listed(slices, [](DeviceId id) { return std::to_string(id.value); });
      slice += static_cast<std::ptrdiff_t>(replicas);
      ++number;
    }
  }
  return text;
}

std::string Stage::describe(const CompleteRequest& complete, Instant now) {
  const auto found = requests_.find(complete.request);
  if (found == requests_.end()) throw Failure("a request that is unknown was completed");
  Request& request = found->second;
  if (request.completed) throw Failure("request " + request.name + " was completed twice");
  request.completed = true;
  const Duration took = now - request.submitted;
  const std::string after = " after " + in_words(took);
  if (complete.error) {
    return request.name + " failed " + std::string(lambent::name_of(complete.error->code)) + after +
           " saying " + complete.error->message;
  }
  const Duration slo = function(request.function).slo;
  const std::string promise = slo == Duration{} ? "" : took <= slo ? " in time" : " late";
  return request.name + " succeeded" + promise + after;
}

std::string Stage::state_of_slice(DeviceId id) const {
  const auto found = dispatcher_.world().slices.find(id);
  if (found == dispatcher_.world().slices.end() || found->second.lost) return "lost";
  const slice_scheduling::SliceState& state = found->second;
  if (state.exclusive) return "of instance " + number_of(*state.exclusive);
  if (!state.sharing.empty()) return "shared by " + listed(state.sharing, number_of);
  return "free";
}

std::string Stage::state_of_instance(InstanceId id) const {
  const slice_scheduling::Instance* instance = dispatcher_.world().find(id);
  if (instance == nullptr) return "gone";
  const bool exclusive = instance->allocation_mode == slice_scheduling::AllocationMode::kExclusive;
  return in_words(instance->load_state) + (exclusive ? " exclusive" : " time-sharing") +
         (instance->retiring ? " retiring" : "");
}

const pipeline::PipelineFunction& Stage::function(FunctionId id) const {
  return **std::ranges::find_if(scene_.functions,
                                [&](const auto& function) { return function->id == id; });
}

FunctionId Stage::function(const std::string& name) const {
  const auto found = functions_.find(name);
  if (found == functions_.end()) throw Failure("there is no function '" + name + "'");
  return found->second;
}

std::string Stage::name_of(FunctionId id) const {
  for (const auto& [name, function] : functions_) {
    if (function == id) return name;
  }
  return "?";
}

DeviceId Stage::slice(Words& words) const {
  const DeviceId id(static_cast<uint32_t>(words.count()));
  if (std::ranges::find(scene_.slices, id, &Slice::id) == scene_.slices.end()) {
    throw Failure("there is no slice " + std::to_string(id.value));
  }
  return id;
}

}  // namespace lambent::slice_scenario
