#include "edge/frontend/function_tags.h"

#include <charconv>

namespace lambent::frontend {
namespace {

constexpr std::string_view kPrefix = "lambent:";

Error bad_value(std::string_view key, std::string_view value, std::string_view wanted) {
  return Error{
      ErrorCode::kInvalidArgument,
      "tag '" + std::string(key) + "' is '" + std::string(value) + "', not " + std::string(wanted)};
}

template <typename Number>
bool parse_number(std::string_view text, Number& number) {
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), number);
  return code == std::errc() && end == text.data() + text.size();
}

// What tags say of a CPU variant; whether there is one is a tag of its own.
struct CpuTags {
  bool has_variant = false;
  CpuVariant variant;
};

Result<void> apply_tag(FunctionSpec& spec, CpuTags& cpu, std::string_view key,
                       const std::string& value) {
  const std::string_view setting = key.substr(kPrefix.size());
  if (setting == "kind") {
    const auto kind = function_kind_from(value);
    if (!kind) return bad_value(key, value, "handler, kernel, workflow or pipeline");
    spec.kind = *kind;
  } else if (setting == "gpu-memory") {
    const auto memory = parse_bytes(value);
    if (!memory.ok()) return bad_value(key, value, "an amount of memory such as 512MiB or 2G");
    spec.gpu.memory = *memory;
  } else if (setting == "launch-mode") {
    if (value != "compute" && value != "model") return bad_value(key, value, "compute or model");
    spec.gpu.launch_mode =
        value == "model" ? GpuNeeds::LaunchMode::kModel : GpuNeeds::LaunchMode::kCompute;
  } else if (setting == "memory-mode") {
    const auto mode = memory_mode_from(value);
    if (!mode) return bad_value(key, value, "vmm, uvm or off");
    spec.gpu.memory_mode = *mode;
  } else if (setting == "working-set") {
    const auto set = working_set_from(value);
    if (!set) return bad_value(key, value, "worker, whole or touched");
    spec.gpu.working_set = *set;
  } else if (setting == "checkpoint") {
    if (value != "true" && value != "false") return bad_value(key, value, "true or false");
    spec.gpu.checkpoint = value == "true";
  } else if (setting == "gpu-runtime") {
    const auto runtime = gpu_runtime_from(value);
    if (!runtime) return bad_value(key, value, "own or shared");
    spec.gpu.runtime = *runtime;
  } else if (setting == "gpu-domain") {
    spec.gpu.domain = value;
  } else if (setting == "gpu-share") {
    const bool read = parse_number(value, spec.gpu.share);
    if (!read || spec.gpu.share == 0 || spec.gpu.share > 100) {
      return bad_value(key, value, "a whole number of 1 to 100");
    }
  } else if (setting == "cpu-variant") {
    if (value != "true" && value != "false") return bad_value(key, value, "true or false");
    cpu.has_variant = value == "true";
  } else if (setting == "cpu-handler") {
    cpu.variant.handler = value;
  } else if (setting == "gpu-speedup") {
    if (!parse_number(value, cpu.variant.gpu_speedup) || !(cpu.variant.gpu_speedup >= 0)) {
      return bad_value(key, value, "a number such as 7.5, or 0");
    }
  } else if (setting == "weight") {
    const bool read = parse_number(value, spec.weight);
    if (!read || !(spec.weight >= limits::kLeastWeight && spec.weight <= limits::kMostWeight)) {
      return bad_value(key, value, "a number of 0.01 to 1000");
    }
  } else if (setting == "max-concurrency") {
    const bool read = parse_number(value, spec.max_concurrency);
    if (!read || spec.max_concurrency == 0 || spec.max_concurrency > limits::kMostConcurrency) {
      return bad_value(key, value, "a whole number of 1 to 10000");
    }
  } else {
    return Error{
        ErrorCode::kInvalidArgument,
        "there is no setting '" + std::string(key) +
            "'; tags that begin with lambent: are kind, gpu-memory, launch-mode, memory-mode, "
            "working-set, checkpoint, gpu-runtime, gpu-domain, gpu-share, cpu-variant, "
            "cpu-handler, gpu-speedup, weight and max-concurrency"};
  }
  return {};
}

}  // namespace

Result<void> apply_tags(FunctionSpec& spec) {
  const FunctionSpec defaults;
  spec.kind = defaults.kind;
  spec.gpu = defaults.gpu;
  spec.cpu_variant.reset();
  spec.weight = defaults.weight;
  spec.max_concurrency = defaults.max_concurrency;
  if (spec.tags.size() > limits::kTags) {
    return Error{ErrorCode::kInvalidArgument,
                 "a function has at most " + std::to_string(limits::kTags) + " tags"};
  }
  CpuTags cpu;
  for (const auto& [key, value] : spec.tags) {
    if (key.empty() || key.size() > limits::kTagKeyLength ||
        value.size() > limits::kTagValueLength) {
      return Error{ErrorCode::kInvalidArgument,
                   "a tag's key has 1 to 128 bytes and its value at most 256"};
    }
    if (key.starts_with(kPrefix)) RETURN_IF_ERROR(apply_tag(spec, cpu, key, value));
  }
  if (cpu.has_variant) {
    spec.cpu_variant = std::move(cpu.variant);
  } else if (cpu.variant != CpuVariant{}) {
    return Error{ErrorCode::kInvalidArgument,
                 "the tags lambent:cpu-handler and lambent:gpu-speedup are of a CPU variant: they "
                 "need lambent:cpu-variant = true"};
  }
  return {};
}

}  // namespace lambent::frontend
