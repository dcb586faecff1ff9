// Chance that depends on what it is for and not on the order in which it is asked: the same request
// meets the same luck under every policy. Pure.
#pragma once

#include <cstdint>
#include <initializer_list>

namespace lambent::slice_simulator {

// Uniform in [0, 1) (splitmix64 of the three; Steele, Lea and Flood, 2014).
inline double chance(uint64_t seed, uint64_t who, uint64_t what) {
  uint64_t word = seed;
  for (const uint64_t part : {who, what, uint64_t{0}}) {
    word += 0x9e3779b97f4a7c15ULL + part;
    word = (word ^ (word >> 30)) * 0xbf58476d1ce4e5b9ULL;
    word = (word ^ (word >> 27)) * 0x94d049bb133111ebULL;
    word ^= word >> 31;
  }
  return static_cast<double>(word >> 11) * 0x1p-53;
}

}  // namespace lambent::slice_simulator
