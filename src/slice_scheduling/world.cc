#include "slice_scheduling/world.h"

namespace lambent::slice_scheduling {

std::vector<Slice> SliceWorld::free_slices() const {
  std::vector<Slice> free;
  for (const auto& [id, state] : slices) {
    if (state.is_free()) free.push_back(state.slice);
  }
  return free;
}

}  // namespace lambent::slice_scheduling
