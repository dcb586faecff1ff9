// The words of a function's enums, as the catalog, the manifest, the tags and the messages about
// them have them. They never change. Pure; any thread.
#pragma once

#include <iterator>
#include <optional>
#include <string>
#include <string_view>

#include "core/domain/function.h"

namespace lambent {

constexpr std::string_view name_of(Runtime runtime) {
  return runtime == Runtime::kPython ? "python" : "provided";
}
constexpr std::string_view name_of(GpuNeeds::LaunchMode mode) {
  return mode == GpuNeeds::LaunchMode::kModel ? "model" : "compute";
}

// What an enum is called, and its values in the order in which messages list them. name_of() has
// the word of each.
template <typename Enum>
struct Words;
template <>
struct Words<FunctionKind> {
  static constexpr std::string_view kNoun = "kind";
  static constexpr FunctionKind kValues[] = {FunctionKind::kHandler, FunctionKind::kKernel,
                                             FunctionKind::kWorkflow, FunctionKind::kPipeline,
                                             FunctionKind::kHttp};
};
template <>
struct Words<Runtime> {
  static constexpr std::string_view kNoun = "runtime";
  static constexpr Runtime kValues[] = {Runtime::kProvided, Runtime::kPython};
};
template <>
struct Words<GpuNeeds::LaunchMode> {
  static constexpr std::string_view kNoun = "launch mode";
  static constexpr GpuNeeds::LaunchMode kValues[] = {GpuNeeds::LaunchMode::kCompute,
                                                     GpuNeeds::LaunchMode::kModel};
};
template <>
struct Words<MemoryMode> {
  static constexpr std::string_view kNoun = "memory mode";
  static constexpr MemoryMode kValues[] = {MemoryMode::kVmm, MemoryMode::kUvm, MemoryMode::kOff};
};
template <>
struct Words<WorkingSet> {
  static constexpr std::string_view kNoun = "working set";
  static constexpr WorkingSet kValues[] = {WorkingSet::kWorker, WorkingSet::kWhole,
                                           WorkingSet::kTouched};
};
template <>
struct Words<GpuRuntime> {
  static constexpr std::string_view kNoun = "GPU runtime";
  static constexpr GpuRuntime kValues[] = {GpuRuntime::kOwn, GpuRuntime::kShared};
};
template <>
struct Words<UrlAuth> {
  static constexpr std::string_view kNoun = "URL authorization";
  static constexpr UrlAuth kValues[] = {UrlAuth::kToken, UrlAuth::kNone};
};
template <>
struct Words<InvokeMode> {
  static constexpr std::string_view kNoun = "invoke mode";
  static constexpr InvokeMode kValues[] = {InvokeMode::kBuffered, InvokeMode::kStream};
};

template <typename Enum>
concept HasWords = requires {
  Words<Enum>::kNoun;
};

template <HasWords Enum>
std::optional<Enum> value_named(std::string_view word) {
  for (const Enum value : Words<Enum>::kValues) {
    if (name_of(value) == word) return value;
  }
  return std::nullopt;
}

// "vmm, uvm or off", each between two `quote`.
template <HasWords Enum>
std::string list_of_words(std::string_view quote = "") {
  std::string list;
  size_t left = std::size(Words<Enum>::kValues);
  for (const Enum value : Words<Enum>::kValues) {
    list += std::string(quote) + std::string(name_of(value)) + std::string(quote);
    --left;
    if (left > 0) list += left == 1 ? " or " : ", ";
  }
  return list;
}

}  // namespace lambent
