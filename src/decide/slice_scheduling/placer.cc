#include "decide/slice_scheduling/placer.h"

#include <algorithm>
#include <string>
#include <vector>

#include "decide/pipeline/placing.h"

namespace lambent::slice_scheduling {

WorldPlacer::Known& WorldPlacer::known_of(const SliceWorld& world, const FunctionState& function) {
  if (known_.size() > world.functions.size()) {
    std::erase_if(known_, [&](const auto& each) { return !world.functions.contains(each.first); });
  }
  return known_[function.function->id];
}

std::optional<pipeline::Placement> WorldPlacer::place_rested(
    const SliceWorld& world, const pipeline::PipelineFunction& function) const {
  const std::vector<Slice> free = world.free_slices();
  const std::vector<Slice> rested = world.rested(free);
  auto placement = placer_(function, rested);
  if (!placement && rested.size() < free.size()) placement = placer_(function, free);
  return placement;
}

std::optional<pipeline::Placement> WorldPlacer::place(const SliceWorld& world,
                                                      const FunctionState& function) {
  Known& known = known_of(world, function);
  if (known.does_not_fit.is_for(world, function)) return std::nullopt;
  auto placement = place_rested(world, *function.function);
  if (!placement) known.does_not_fit = {world.slices_version, function.version};
  return placement;
}

const pipeline::PipelineFunction& WorldPlacer::alone(const SliceWorld& world,
                                                     const FunctionState& function) {
  Known& known = known_of(world, function);
  if (known.alone_version != function.version) {
    known.alone = *function.function;
    std::erase_if(known.alone.ranked,
                  [](const auto& partition) { return partition.stage_processes() > 1; });
    known.alone_version = function.version;
  }
  return known.alone;
}

std::optional<pipeline::Placement> WorldPlacer::place_alone(const SliceWorld& world,
                                                            const FunctionState& function) {
  Known& known = known_of(world, function);
  if (known.does_not_fit_alone.is_for(world, function)) return std::nullopt;
  if (known.does_not_fit.is_for(world, function)) return std::nullopt;
  auto placement = place_rested(world, alone(world, function));
  if (!placement) known.does_not_fit_alone = {world.slices_version, function.version};
  return placement;
}

std::optional<pipeline::Placement> WorldPlacer::place_beside(const SliceWorld& world,
                                                             const FunctionState& function,
                                                             const SliceState& slice) {
  if (world.rests(slice.slice.id)) return std::nullopt;
  auto& [asked, placement] = known_of(world, function).beside[slice.slice.id];
  if (!asked.is_for(world, function)) {
    asked = {world.slices_version, function.version};
    placement = find_beside(world, function, slice);
  }
  return placement;
}

std::optional<pipeline::Placement> WorldPlacer::find_beside(const SliceWorld& world,
                                                            const FunctionState& function,
                                                            const SliceState& slice) {
  std::vector<InstanceId> others = slice.sharing;
  if (slice.exclusive) others.push_back(*slice.exclusive);
  if (slice.lost || others.empty()) return std::nullopt;
  Bytes contexts = function.function->profile.context;
  for (const InstanceId id : others) {
    const Instance& instance = world.instances.at(id);
    const FunctionState* other = world.find(instance.function);
    if (other == nullptr || instance.is_pipeline()) return std::nullopt;
    contexts += other->function->profile.context;
  }
  const auto beside = [&](const FunctionState& each) {
    Slice left = slice.slice;
    left.shape.memory -= contexts - each.function->profile.context;
    return placer_(alone(world, each), std::span(&left, 1));
  };
  for (const InstanceId id : others) {
    if (!beside(*world.find(world.instances.at(id).function))) return std::nullopt;
  }
  return beside(function);
}

bool WorldPlacer::fits_empty(const SliceWorld& world, const FunctionState& function) {
  Known& known = known_of(world, function);
  if (known.asked_empty.is_for(world, function)) return known.fits_empty;
  std::vector<Slice> all;
  for (const auto& [id, state] : world.slices) {
    if (state.stays()) all.push_back(state.slice);
  }
  known.fits_empty = placer_(*function.function, all).has_value();
  known.asked_empty = {world.slices_version, function.version};
  return known.fits_empty;
}

Error fits_nowhere(const SliceWorld& world, const pipeline::PipelineFunction& function) {
  std::map<std::string, std::pair<size_t, Bytes>> shapes;
  for (const auto& [id, state] : world.slices) {
    if (!state.stays()) continue;
    auto& [count, memory] = shapes[state.slice.shape.name];
    ++count;
    memory = state.slice.shape.memory;
  }
  std::string there;
  for (const auto& [name, shape] : shapes) {
    there += (there.empty() ? "" : ", ") + std::to_string(shape.first) + " x " + name + " (" +
             to_string(shape.second) + ")";
  }
  std::string needs = pipeline::what_would_fit(function);
  if (needs.empty()) needs = "what no slice has: no way to cut it fits any shape";
  return {ErrorCode::kResourceExhausted,
          "no slices here can hold this function, even if all were free: it needs " + needs +
              "; there are " + (there.empty() ? "none" : there)};
}

}  // namespace lambent::slice_scheduling
