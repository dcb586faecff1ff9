#include "core/domain/cluster.h"

namespace lambent {

std::string_view name_of(MemberState state) {
  switch (state) {
    case MemberState::kUnknown:
      return "unknown";
    case MemberState::kUp:
      return "up";
    case MemberState::kDraining:
      return "draining";
    case MemberState::kLost:
      return "lost";
  }
  return "unknown";
}

}  // namespace lambent
