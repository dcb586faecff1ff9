// GapHistogram: how long a function was silent between two of its calls, as a histogram, and what
// that says of its next call. A value of 128 bytes; kept by Foresight, on the loop thread.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include "core/base/state_archive.h"
#include "core/base/time.h"

namespace lambent::scheduling {

// Serverless in the Wild (ATC '20) keeps minutes up to four hours. A GPU's cold start takes
// seconds, so the bins here are an eighth of an octave wide, from a second up to four and a half
// hours. What is shorter or longer is counted as that. Counts are halved when one is full, so what
// was seen lately weighs more.
class GapHistogram {
 public:
  static constexpr Duration kShortest = seconds(1);
  static constexpr Duration kLongest = seconds(1 << 14);

  void learn(Duration gap);

  uint32_t samples() const { return samples_; }
  // The rule of that paper: where most gaps are longer than the histogram says, it foretells
  // nothing.
  bool out_of_bounds() const { return 2 * beyond_ > samples_; }

  // Of gaps of which it is known that they are longer than `silence`: how many there were, and how
  // many of them ended within `ahead` of it. Gaps are taken to lie evenly in their bin.
  struct Ends {
    double longer = 0;
    double within = 0;
  };
  Ends ends(Duration silence, Duration ahead) const;

  // The least silence, not below `from`, of which `is_likely(silence)` is true, among those at
  // which one bin more lies within `ahead(silence)`, which does not fall; Duration::max(): none.
  template <typename Ahead, typename IsLikely>
  Duration first_likely(Duration from, Ahead ahead, IsLikely is_likely) const {
    if (is_likely(from)) return from;
    for (unsigned bin = bin_after(from); bin < kBins; ++bin) {
      if (counts_[bin] == 0) continue;
      const Duration end = from_seconds(start_of(bin + 1));
      const Duration sooner = std::max(Duration(0), end - ahead(end));
      const Duration silence = std::max(from, end - ahead(sooner));
      if (is_likely(silence)) return silence;
    }
    return Duration::max();
  }

  void archive(StateArchive& archive);

 private:
  static constexpr unsigned kPerOctave = 8;
  static constexpr unsigned kOctaves = 14;
  static constexpr unsigned kBins = kPerOctave * kOctaves;

  static unsigned bin_of(Duration gap);
  // The first that holds only gaps which are longer, or the one that this gap lies in.
  static unsigned bin_after(Duration gap) {
    return gap < kShortest ? 0 : gap < kLongest ? bin_of(gap) : kBins;
  }
  static double start_of(unsigned bin);  // seconds

  // What each gap counts in comes first: with the bins of up to two minutes it is one line of the
  // processor's cache.
  uint16_t shorter_ = 0;  // than kShortest
  uint16_t beyond_ = 0;
  uint32_t samples_ = 0;  // what all counts add up to
  std::array<uint8_t, kBins> counts_{};
};

}  // namespace lambent::scheduling
