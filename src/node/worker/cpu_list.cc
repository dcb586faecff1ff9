#include "node/worker/cpu_list.h"

#include <charconv>
#include <optional>
#include <set>
#include <string>

#include "node/sandbox/plan.h"

namespace lambent::worker {
namespace {

std::optional<uint32_t> processor_in(std::string_view text) {
  uint32_t number = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), number);
  const bool is_good =
      code == std::errc() && end == text.data() + text.size() && number < sandbox::kMostProcessors;
  return is_good ? std::optional(number) : std::nullopt;
}

}  // namespace

Result<std::vector<uint32_t>> parse_cpu_list(std::string_view text) {
  std::set<uint32_t> processors;
  while (!text.empty()) {
    const std::string_view range = text.substr(0, text.find(','));
    const size_t dash = std::min(range.find('-'), range.size());
    const auto first = processor_in(range.substr(0, dash));
    const auto last = dash == range.size() ? first : processor_in(range.substr(dash + 1));
    const bool ends_with_comma = range.size() + 1 == text.size();
    if (!first || !last || *last < *first || ends_with_comma) {
      return Error{ErrorCode::kInvalidArgument,
                   "'" + std::string(range.substr(0, 64)) + "' is not a range of processors"};
    }
    for (uint32_t processor = *first; processor <= *last; ++processor) processors.insert(processor);
    text.remove_prefix(std::min(range.size() + 1, text.size()));
  }
  return std::vector<uint32_t>(processors.begin(), processors.end());
}

}  // namespace lambent::worker
