// Whether tests that have a short and a whole form run the whole one: ./dev test --all asks for it.
// Included by tests only.
#pragma once

#include <cstdlib>

namespace lambent {

inline bool whole_tests() { return std::getenv("LAMBENT_WHOLE_TESTS") != nullptr; }

}  // namespace lambent
