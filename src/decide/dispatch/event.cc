#include "decide/dispatch/event.h"

namespace lambent::dispatch {

std::string_view name_of(MoveDirection direction) {
  return direction == MoveDirection::kIn ? "in" : "out";
}

}  // namespace lambent::dispatch
