#include "decide/scheduling/gap_histogram.h"

#include <bit>

namespace lambent::scheduling {
namespace {

constexpr uint8_t kFull = 255;

}  // namespace

// In whole eighths of a second: the three bits below the first one say where in its octave.
unsigned GapHistogram::bin_of(Duration gap) {
  const auto eighths = static_cast<uint64_t>(gap / (kShortest / kPerOctave));
  const auto octave = static_cast<unsigned>(std::bit_width(eighths)) - 4;
  return octave * kPerOctave + static_cast<unsigned>((eighths >> octave) - kPerOctave);
}

double GapHistogram::start_of(unsigned bin) {
  const auto octave = static_cast<double>(uint64_t{1} << (bin / kPerOctave));
  return octave * (1 + static_cast<double>(bin % kPerOctave) / kPerOctave);
}

void GapHistogram::learn(Duration gap) {
  const bool is_full = shorter_ == 0xffff || beyond_ == 0xffff ||
                       (gap >= kShortest && gap < kLongest && counts_[bin_of(gap)] == kFull);
  if (is_full) {
    samples_ = (shorter_ /= 2) + (beyond_ /= 2);
    for (uint8_t& count : counts_) samples_ += count /= 2;
  }
  ++samples_;
  if (gap < kShortest) {
    ++shorter_;
  } else if (gap >= kLongest) {
    ++beyond_;
  } else {
    ++counts_[bin_of(gap)];
  }
}

GapHistogram::Ends GapHistogram::ends(Duration silence, Duration ahead) const {
  Ends ends{.longer = static_cast<double>(beyond_)};
  const double from = to_seconds(silence);
  const double until = from + to_seconds(ahead);
  if (from < 1) {
    const double share = 1 - std::max(from, 0.0);
    ends.longer += share * shorter_;
    ends.within += shorter_ * std::min(share, std::min(until, 1.0) - std::max(from, 0.0));
  }
  const unsigned first = bin_after(silence);
  double end = first < kBins ? start_of(first) : 0;
  for (unsigned bin = first; bin < kBins; ++bin) {
    const double start = end;
    end = start_of(bin + 1);
    const double count = counts_[bin];
    if (count == 0) continue;
    const double after = count * (end - std::max(start, from)) / (end - start);
    ends.longer += after;
    if (until <= start) continue;
    ends.within +=
        std::min(after, count * (std::min(end, until) - std::max(start, from)) / (end - start));
  }
  return ends;
}

void GapHistogram::archive(StateArchive& archive) {
  archive.field(shorter_);
  archive.field(beyond_);
  uint64_t samples = uint64_t{shorter_} + beyond_;
  for (uint8_t& count : counts_) {
    archive.field(count);
    samples += count;
  }
  samples_ = static_cast<uint32_t>(samples);
}

}  // namespace lambent::scheduling
