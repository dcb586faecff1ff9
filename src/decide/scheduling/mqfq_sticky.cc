#include "decide/scheduling/mqfq_sticky.h"

namespace lambent::scheduling {

FairQueuing::Rank MqfqStickyPolicy::rank_of(const View& view, FunctionId function,
                                            Duration virtual_time) const {
  const Flow& flow = view.flow(function);
  // Of equals, one that asks for more than its share comes last: its queue is always the longest.
  const uint64_t in_flight = uint64_t{flow.in_flight} << 1 | (flow.sheds ? 1 : 0);
  const uint64_t shortness = ~flow.pending & 0x7fff'ffffU;
  if (options_.order == CandidateOrder::kInFlightFirst) {
    return {in_flight << 32 | shortness, virtual_time};
  }
  const uint64_t duplicate = options_.duplicates_last && flow.in_flight > 0 ? 1 : 0;
  return {duplicate << 63 | shortness << 32 | in_flight, virtual_time};
}

// With memory_first one whose memory is there, or on its way.
bool MqfqStickyPolicy::is_good_enough(const View& view, const Place& place) const {
  if (!options_.memory_first) return true;
  if (place.warm == kNoSandbox) return false;
  const MemoryState memory_state = view.fleet.sandbox(place.warm).memory_state;
  return memory_state == MemoryState::kIn || memory_state == MemoryState::kMovingIn;
}

}  // namespace lambent::scheduling
