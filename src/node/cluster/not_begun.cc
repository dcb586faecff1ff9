#include "node/cluster/not_begun.h"

#include <string_view>

#include "core/http/forward_service.h"
#include "core/http/forward_words.h"

namespace lambent::cluster {
namespace {

// In each answer that a function made; of any program.
constexpr std::string_view kInvocation = "X-Lambent-Invocation-Id";

}  // namespace

NotBegun not_begun_by(const http::Headers& answer, bool tells) {
  if (tells && answer.contains(http::kNotBegun)) return NotBegun::kStops;
  const bool is_of_function = !tells && answer.contains(kInvocation);
  const bool is_not_here = answer.contains(http::kNotHere) && !is_of_function;
  return is_not_here ? NotBegun::kNotHere : NotBegun::kNo;
}

}  // namespace lambent::cluster
