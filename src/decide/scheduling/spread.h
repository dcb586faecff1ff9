// Spread: which functions tell less of how runs slow each other down (contention.h), because their
// runs vary by themselves. A value; chosen by policies.
#pragma once

#include <cstdint>

namespace lambent::scheduling {

enum class Spread : uint8_t {
  kIgnored,    // none
  kOfEach,     // those whose runs are off what was expected
  kOfSeveral,  // those whose runs are off together, of some that follow each other
};

}  // namespace lambent::scheduling
