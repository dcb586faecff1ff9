#include "core/base/random.h"

#include <sys/random.h>

#include <utility>

#include "core/base/check.h"

namespace lambent {
namespace {

uint64_t rotate_left(uint64_t x, int bits) { return x << bits | x >> (64 - bits); }

uint64_t splitmix(uint64_t& state) {
  uint64_t z = state += 0x9e3779b97f4a7c15ULL;
  z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ULL;
  z = (z ^ z >> 27) * 0x94d049bb133111ebULL;
  return z ^ z >> 31;
}

}  // namespace

SeededRandom::SeededRandom(uint64_t seed) {
  for (uint64_t& word : state_) word = splitmix(seed);
}

uint64_t SeededRandom::next() {
  const uint64_t result = rotate_left(state_[1] * 5, 7) * 9;
  const uint64_t shifted = state_[1] << 17;
  state_[2] ^= state_[0];
  state_[3] ^= state_[1];
  state_[1] ^= state_[2];
  state_[0] ^= state_[3];
  state_[2] ^= shifted;
  state_[3] = rotate_left(state_[3], 45);
  return result;
}

uint64_t SystemRandom::next() {
  if (left_ == 0) {
    const ssize_t got = getrandom(words_, sizeof(words_), 0);
    CHECK(got == sizeof(words_), "getrandom gives up to 256 bytes at once");
    left_ = sizeof(words_) / sizeof(words_[0]);
  }
  // What was given out is not kept.
  return std::exchange(words_[--left_], 0);
}

InvocationId new_invocation_id(Random& random) {
  const uint64_t high = (random.next() & ~0xf000ULL) | 0x4000ULL;
  const uint64_t low = (random.next() & 0x3fff'ffff'ffff'ffffULL) | 0x8000'0000'0000'0000ULL;
  return InvocationId{high, low};
}

}  // namespace lambent
