// The limit of what waits for the loop thread.
#pragma once

#include <cstddef>

namespace lambent::limits {

constexpr size_t kMailbox = 65'536;

}  // namespace lambent::limits
