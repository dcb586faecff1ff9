// Quantiles of a stream of numbers: exact while they are few, within a thousandth when they are
// many, in bounded memory. A value; one thread. Used by statistics.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

namespace lambent::workload {

class Quantiles {
 public:
  // So many numbers are kept as they are; then they go into buckets a thousandth wide.
  static constexpr size_t kExact = 65'536;

  // `value` must not be negative or NaN.
  void add(double value);
  uint64_t count() const { return count_; }
  // The smallest number that at least `share` (0 to 1) of all numbers do not exceed (nearest rank);
  // 0 if there are none.
  double at(double share) const;
  double most() const { return most_; }

 private:
  void fold();

  uint64_t count_ = 0;
  double least_ = 0;
  double most_ = 0;
  mutable std::vector<double> exact_;
  mutable bool sorted_ = true;
  std::map<int, uint64_t> buckets_;  // logarithm to the base 1.002, rounded
  uint64_t zeros_ = 0;
};

// Mean and variance of a stream (Welford). A value.
class Moments {
 public:
  void add(double value);
  uint64_t count() const { return count_; }
  double mean() const { return mean_; }
  // Of the numbers themselves (divided by n); 0 if there are none.
  double variance() const { return count_ == 0 ? 0 : squares_ / static_cast<double>(count_); }

 private:
  uint64_t count_ = 0;
  double mean_ = 0;
  double squares_ = 0;
};

}  // namespace lambent::workload
