// Random: the interface to chance, so that decisions and tests can be repeated from a seed.
// Not thread-safe; each owner has its own.
#pragma once

#include <cstdint>

#include "core/base/ids.h"

namespace lambent {

class Random {
 public:
  virtual ~Random() = default;
  virtual uint64_t next() = 0;

  // Uniform in [0, 1).
  double uniform() { return static_cast<double>(next() >> 11) * 0x1p-53; }
  // Uniform in [0, bound); bound > 0.
  uint64_t below(uint64_t bound) {
    return static_cast<uint64_t>((static_cast<unsigned __int128>(next()) * bound) >> 64);
  }
};

// xoshiro256** seeded by splitmix64 (Blackman and Vigna, 2018); same numbers on every machine.
class SeededRandom final : public Random {
 public:
  explicit SeededRandom(uint64_t seed);
  uint64_t next() override;

 private:
  uint64_t state_[4];
};

// The kernel's random numbers, for ids that must not be guessed.
class SystemRandom final : public Random {
 public:
  uint64_t next() override;

 private:
  // Fetched together: a system call for every id would be felt.
  uint64_t words_[32];
  unsigned left_ = 0;
};

// A version 4 UUID.
InvocationId new_invocation_id(Random& random);

}  // namespace lambent
