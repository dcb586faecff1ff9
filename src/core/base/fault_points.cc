#include "core/base/fault_points.h"

#include <unistd.h>

#include <csignal>

namespace lambent {

Result<std::pair<FaultPoint, FaultPoints::Action>> FaultPoints::parse(std::string_view text) {
  const size_t colon = text.find(':');
  const std::string_view action = colon == std::string_view::npos ? "stop" : text.substr(colon + 1);
  std::string names;
  for (const auto& [name, point] : kFaultPoints) {
    names += (names.empty() ? "" : ", ") + std::string(name);
    if (name != text.substr(0, colon)) continue;
    if (action == "stop") return std::pair(point, Action::kStop);
    if (action == "hold") return std::pair(point, Action::kHold);
  }
  return Error{ErrorCode::kInvalidArgument,
               "'" + std::string(text) + "' is no fault point: POINT or POINT:hold, of " + names};
}

void FaultPoints::act() const {
  if (action_ == Action::kStop) {
    (void)std::raise(SIGSTOP);
    return;
  }
  while (true) pause();
}

}  // namespace lambent
