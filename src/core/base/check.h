// CHECK(condition, "why"): an invariant that cannot fail unless the program is wrong; ends the
// process. Stays on in every build. Not for the preloaded libraries: in them nothing stops the
// user's program.
#pragma once

namespace lambent {

[[noreturn]] void check_failed(const char* condition, const char* why, const char* file, int line);

}  // namespace lambent

#define CHECK(condition, why)                                       \
  do {                                                              \
    if (!(condition)) [[unlikely]]                                  \
      ::lambent::check_failed(#condition, why, __FILE__, __LINE__); \
  } while (false)
