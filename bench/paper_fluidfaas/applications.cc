#include "bench/paper_fluidfaas/applications.h"

#include <algorithm>

#include "core/base/check.h"

namespace lambent::paper_fluidfaas {
namespace {

constexpr double kMultiprocessors = 108;

struct Network {
  const char* name;
  double Constants::*macs;  // of one picture
  double layers;            // kernels that are launched, about
  double parameters;        // four bytes each
  double memory;            // times what is said below; fitted to the paper's Table 5
  double output_bytes;      // of one picture, as the next network gets it
};

enum NetworkId { kSuperResolution, kSegmentation, kClassification, kDeblur, kDepth, kBackground };

const Network& network(NetworkId id) {
  using C = Constants;
  static constexpr double kFloat = 4;
  static constexpr Network kNetworks[] = {
      {"super_resolution", &C::super_resolution_macs, 90, 1.55e6, 1, 512 * 512 * 3 * kFloat},
      {"segmentation", &C::segmentation_macs, 340, 61.0e6, 1.09, 520 * 520 * 21 * kFloat},
      {"classification", &C::classification_macs, 170, 25.6e6, 0.6, 1000 * kFloat},
      {"deblur", &C::deblur_macs, 80, 11.4e6, 1, 256 * 256 * 3 * kFloat},
      {"depth", &C::depth_macs, 400, 105e6, 1.1, 384 * 384 * kFloat},
      {"background", &C::background_macs, 350, 44.0e6, 1, 320 * 320 * 4 * kFloat},
  };
  return kNetworks[id];
}

// What a network keeps on the device once it was there, weights and buffers, and what it needs
// beside that while it works. Table 5 can hold only if networks keep much: a function of three
// needs a larger slice than each of them, and one of five a still larger one.
double kept_gib(Size size) { return 1.0 + 0.7 * pictures_of(size); }
double working_gib(Size size) { return 1.2 + 0.8 * pictures_of(size); }

Bytes gib(double amount) { return Bytes(static_cast<uint64_t>(amount * 0x1p30)); }

const std::vector<NetworkId>& parts_of(size_t application) {
  static const std::vector<NetworkId> kParts[] = {
      {kSuperResolution, kSegmentation, kClassification},
      {kDeblur, kSuperResolution, kDepth},
      {kSuperResolution, kDeblur, kBackground},
      {kDeblur, kSuperResolution, kBackground, kSegmentation, kClassification},
  };
  return kParts[application];
}

pipeline::ComponentProfile profile_of(const Network& network, Size size,
                                      const Constants& constants) {
  const double pictures = pictures_of(size);
  pipeline::ComponentProfile profile;
  const double scale = network.memory * constants.component_memory;
  profile.weights = gib(kept_gib(size) * scale);
  profile.memory = gib((kept_gib(size) + working_gib(size)) * scale);
  profile.output = Bytes(static_cast<uint64_t>(pictures * network.output_bytes));
  for (const SliceShape& shape : shapes()) {
    const double share = shape.multiprocessors / kMultiprocessors;
    const double operations_per_s = constants.peak_operations_per_s * share * constants.efficiency;
    const double operations = 2 * constants.*network.macs * pictures;
    profile.time_by_shape[shape.name] =
        from_seconds(network.layers * constants.launch_s + operations / operations_per_s);
  }
  return profile;
}

}  // namespace

const char* name_of(Size size) {
  static constexpr const char* kNames[] = {"small", "medium", "large"};
  return kNames[static_cast<size_t>(size)];
}

const char* load_of(Size size) {
  static constexpr const char* kNames[] = {"light", "medium", "heavy"};
  return kNames[static_cast<size_t>(size)];
}

unsigned pictures_of(Size size) {
  static constexpr unsigned kPictures[] = {1, 4, 8};
  return kPictures[static_cast<size_t>(size)];
}

const char* application_name(size_t application) {
  static constexpr const char* kNames[] = {"image classification", "depth recognition",
                                           "background elimination",
                                           "expanded image classification"};
  return kNames[application];
}

const std::vector<SliceShape>& shapes() {
  static const std::vector<SliceShape> kShapes = {
      {"1g.10gb", 14, Bytes::mib(9'728)},  {"2g.20gb", 28, Bytes::mib(19'968)},
      {"3g.40gb", 42, Bytes::mib(40'192)}, {"4g.40gb", 56, Bytes::mib(40'192)},
      {"7g.80gb", 98, Bytes::mib(81'152)},
  };
  return kShapes;
}

SliceShape shape_of(const std::string& name) {
  const auto found = std::ranges::find(shapes(), name, &SliceShape::name);
  CHECK(found != shapes().end(), "no slice of an A100 has this name");
  return *found;
}

// Of what networks keep, the share that is weights: what is copied after a start. Moves out and in
// take buffers too, as the worker does.
double weights_share(Size size, const Constants& constants) {
  double weights = 0, kept = 0;
  for (const NetworkId id :
       {kSuperResolution, kSegmentation, kClassification, kDeblur, kDepth, kBackground}) {
    weights += 4 * network(id).parameters;
    kept += kept_gib(size) * network(id).memory * constants.component_memory * 0x1p30;
  }
  return std::min(1.0, weights / kept);
}

pipeline::TransferCosts costs_of(Size size, const Constants& constants) {
  pipeline::TransferCosts costs;
  costs.copies_gb_per_s = constants.copy_bytes_per_s / 1e9;
  costs.handover = from_seconds(constants.handover_s);
  // Policies reckon with moves, which take all memory; of starts the copy is the least part.
  const double kept = 3 * kept_gib(size);
  costs.load_gb_per_s = constants.copy_bytes_per_s / 1e9 * kept / (kept + working_gib(size));
  return costs;
}

slice_simulator::MachineModel machine_of(Size size, const Constants& constants) {
  slice_simulator::MachineModel machine;
  machine.copy_gb_per_s = constants.copy_bytes_per_s / 1e9;
  machine.gpu_gb_per_s = constants.gpu_bytes_per_s / 1e9;
  machine.node_gb_per_s = constants.node_bytes_per_s / 1e9;
  machine.handover = from_seconds(constants.handover_s);
  machine.edge = from_seconds(constants.edge_s);
  machine.stop = from_seconds(constants.stop_s);
  machine.spread = constants.spread;
  machine.moved_share = weights_share(size, constants);
  machine.moves_take_all = true;
  return machine;
}

pipeline::StageProcess whole(const pipeline::PipelineFunction& function) {
  pipeline::StageProcess stage_process;
  for (size_t i = 0; i < function.dag.components.size(); ++i) stage_process.components.push_back(i);
  return stage_process;
}

Result<std::shared_ptr<pipeline::PipelineFunction>> application(size_t application, Size size,
                                                                const Constants& constants,
                                                                pipeline::RankRule rule) {
  auto function = std::make_shared<pipeline::PipelineFunction>();
  CHECK(application < kApplications, "the paper has four applications");
  function->id = FunctionId(static_cast<uint32_t>(application) + 1);
  function->shapes = shapes();
  function->dag.inputs = {"pictures"};
  const auto& parts = parts_of(application);
  for (size_t i = 0; i < parts.size(); ++i) {
    using Kind = pipeline::Source::Kind;
    const pipeline::Source source{i == 0 ? Kind::kInput : Kind::kComponent, i == 0 ? 0 : i - 1};
    // What App 3 does only with pictures of low resolution.
    const bool optional = application == 3 && parts[i] == kSuperResolution;
    function->dag.components.push_back({network(parts[i]).name, {source}, optional});
    function->profile.components.push_back(profile_of(network(parts[i]), size, constants));
    if (optional) function->profile.components.back().probability = constants.low_resolution_share;
  }
  function->dag.outputs = {parts.size() - 1};
  function->profile.context = gib(constants.context_gib);
  function->profile.start = from_seconds(constants.start_s);

  const pipeline::StageProcess all = whole(*function);
  const Bytes needed = pipeline::memory_of(*function, all);
  const auto least = std::ranges::find_if(shapes(), [&](const SliceShape& shape) {
    return needed <= shape.memory && shape.name[0] < '7';
  });
  if (least == shapes().end()) {
    return Error{ErrorCode::kFailedPrecondition, std::string(application_name(application)) + ", " +
                                                     name_of(size) + ": no slice holds all of it"};
  }
  // Alone: all that it may have to do, not what it does in the mean.
  Duration alone{};
  for (const auto& component : function->profile.components) {
    alone += component.time_by_shape.at(least->name);
  }
  function->slo = from_seconds(constants.slo_scale * (to_seconds(alone) + constants.edge_s));
  pipeline::PlannerOptions options;
  options.rule = rule;
  options.costs = costs_of(size, constants);
  ASSIGN_OR_RETURN(function->ranked, pipeline::rank_partitions(*function, options));
  return function;
}

std::vector<std::shared_ptr<const pipeline::PipelineFunction>> applications(
    Size size, const Constants& constants, pipeline::RankRule rule) {
  std::vector<std::shared_ptr<const pipeline::PipelineFunction>> all;
  for (size_t i = 0; i < kApplications; ++i) {
    auto function = application(i, size, constants, rule);
    if (function.ok()) all.push_back(std::move(*function));
  }
  return all;
}

}  // namespace lambent::paper_fluidfaas
