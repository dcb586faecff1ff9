#include "gpu/monitor/xid.h"

#include <algorithm>
#include <iterator>

namespace lambent::monitor {
namespace {

using enum protocol::FaultGravity;

constexpr Xid kXids[] = {
#define XID(number, gravity, what) {number, gravity, what},
#include "gpu/monitor/xid_table.inc"
#undef XID
};

static_assert(std::is_sorted(std::begin(kXids), std::end(kXids),
                             [](const Xid& one, const Xid& other) {
                               return one.number < other.number;
                             }));

}  // namespace

Xid xid_of(uint64_t number) {
  const Xid* found =
      std::lower_bound(std::begin(kXids), std::end(kXids), number,
                       [](const Xid& each, uint64_t wanted) { return each.number < wanted; });
  if (found != std::end(kXids) && found->number == number) return *found;
  return {static_cast<uint32_t>(std::min<uint64_t>(number, UINT32_MAX)), kNotice, "unknown"};
}

}  // namespace lambent::monitor
