#include "gpu/executor/reservation.h"

#include <utility>

namespace lambent::executor {
namespace {

// No instance has written to a block that is only reserved.
constexpr uint64_t kNoUser = 0;

}  // namespace

void Reservation::add(Bytes size) {
  const auto block = pool_.take(size, kNoUser);
  if (block.ok()) blocks_.push_back(block->address);
}

void Reservation::release() {
  for (const CUdeviceptr address : std::exchange(blocks_, {})) pool_.give_back(address);
}

}  // namespace lambent::executor
