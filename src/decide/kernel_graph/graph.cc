#include "decide/kernel_graph/graph.h"

#include <algorithm>

namespace lambent::kernel_graph {

// Not defaulted: clang 14 crashes on it, since Step is not complete where Repeat is.
bool Repeat::operator==(const Repeat& other) const {
  return times == other.times && until == other.until && steps == other.steps &&
         batch == other.batch;
}

std::string_view name_of(BufferRole role) {
  switch (role) {
    case BufferRole::kInput:
      return "input";
    case BufferRole::kConstant:
      return "constant";
    case BufferRole::kTemporary:
      return "temporary";
    case BufferRole::kOutput:
      return "output";
    case BufferRole::kInOut:
      return "in_out";
  }
  return "unknown";
}

std::string_view name_of(Access access) {
  switch (access) {
    case Access::kRead:
      return "read";
    case Access::kWrite:
      return "write";
    case Access::kReadWrite:
      return "read_write";
  }
  return "unknown";
}

Access default_access(BufferRole role) {
  switch (role) {
    case BufferRole::kInput:
    case BufferRole::kConstant:
      return Access::kRead;
    case BufferRole::kOutput:
      return Access::kWrite;
    case BufferRole::kTemporary:
    case BufferRole::kInOut:
      break;
  }
  return Access::kReadWrite;
}

std::vector<uint64_t> variants_of(const KernelGraph& graph) {
  std::vector<uint64_t> sizes;
  for (const Step& step : graph.steps) {
    const Repeat* repeat = std::get_if<Repeat>(&step);
    if (repeat != nullptr && repeat->batch > 0) sizes.push_back(repeat->batch);
  }
  return sizes;
}

bool has_flags(const std::vector<Step>& steps) {
  return std::any_of(steps.begin(), steps.end(), [](const Step& step) {
    const Repeat* repeat = std::get_if<Repeat>(&step);
    return repeat != nullptr && (repeat->until != kNoFlag || has_flags(repeat->steps));
  });
}

bool stays_in_package(std::string_view path) {
  for (;;) {
    const size_t end = std::min(path.find('/'), path.size());
    const std::string_view part = path.substr(0, end);
    if (part.empty() || part == "." || part == "..") return false;
    if (end == path.size()) return true;
    path.remove_prefix(end + 1);
  }
}

bool names_bundle(std::string_view bundle) {
  constexpr std::string_view kBuiltIn = "lambent:";
  if (!bundle.starts_with(kBuiltIn)) return stays_in_package(bundle);
  const std::string_view name = bundle.substr(kBuiltIn.size());
  return name.find('/') == std::string_view::npos && stays_in_package(name);
}

}  // namespace lambent::kernel_graph
