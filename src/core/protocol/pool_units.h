// How an executor's pool lays out device memory, as far as the worker counts by it. Values.
#pragma once

#include "core/base/units.h"

namespace lambent::protocol {

// A block of this size or more has memory of its own, in whole units; smaller ones share units.
constexpr Bytes kLeastLarge = Bytes::mib(1);
// What drivers give memory in.
constexpr Bytes kPoolUnit = Bytes::mib(2);

}  // namespace lambent::protocol
