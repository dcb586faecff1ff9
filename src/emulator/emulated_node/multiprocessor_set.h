// A set of a device's multiprocessors, by number. A plain value; any thread.
#pragma once

#include <bit>
#include <cstdint>

namespace lambent::emulated_node {

constexpr int kMostMultiprocessors = 256;

struct MultiprocessorSet {
  uint64_t words[kMostMultiprocessors / 64];

  // The first `count` of them.
  static constexpr MultiprocessorSet first(int count) {
    MultiprocessorSet set{};
    for (uint64_t& word : set.words) {
      word = count >= 64 ? ~uint64_t{0} : count > 0 ? (uint64_t{1} << count) - 1 : 0;
      count -= 64;
    }
    return set;
  }
  int count() const {
    int total = 0;
    for (uint64_t word : words) total += std::popcount(word);
    return total;
  }
  bool empty() const {
    uint64_t any = 0;
    for (uint64_t word : words) any |= word;
    return any == 0;
  }
  bool intersects(const MultiprocessorSet& other) const { return !(*this & other).empty(); }
  MultiprocessorSet operator&(const MultiprocessorSet& other) const {
    MultiprocessorSet set = *this;
    for (int i = 0; i < kMostMultiprocessors / 64; i++) set.words[i] &= other.words[i];
    return set;
  }
  MultiprocessorSet operator|(const MultiprocessorSet& other) const {
    MultiprocessorSet set = *this;
    for (int i = 0; i < kMostMultiprocessors / 64; i++) set.words[i] |= other.words[i];
    return set;
  }
  // Without those of the other.
  MultiprocessorSet operator-(const MultiprocessorSet& other) const {
    MultiprocessorSet set = *this;
    for (int i = 0; i < kMostMultiprocessors / 64; i++) set.words[i] &= ~other.words[i];
    return set;
  }
  // Its lowest members, at most `most` of them.
  MultiprocessorSet lowest(int most) const {
    MultiprocessorSet set{};
    for (int i = 0; i < kMostMultiprocessors / 64 && most > 0; i++) {
      uint64_t word = words[i];
      if (std::popcount(word) <= most) {
        set.words[i] = word;
        most -= std::popcount(word);
        continue;
      }
      for (; most > 0; most--, word &= word - 1) set.words[i] |= word & -word;
    }
    return set;
  }
  bool operator==(const MultiprocessorSet&) const = default;
};

}  // namespace lambent::emulated_node
