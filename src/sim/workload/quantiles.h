// Quantiles of a stream of numbers: exact while they are few, within a thousandth when they are
// many, in bounded memory. A value; one thread. Used by statistics.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace lambent::workload {

class Quantiles {
 public:
  // So many numbers are kept as they are; then they go into buckets two thousandths wide.
  static constexpr size_t kExact = 65'536;

  explicit Quantiles(size_t exact = kExact) : most_exact_(exact) {}

  // `value` must not be negative or NaN.
  void add(double value) { add(value, bucket_of(value)); }
  // The same for who adds one number to several and looks for its bucket once.
  void add(double value, int bucket);
  static int bucket_of(double value);
  uint64_t count() const { return count_; }
  // The smallest number that at least `share` (0 to 1) of all numbers do not exceed (nearest rank);
  // 0 if there are none.
  double at(double share) const;
  double most() const { return most_; }

 private:
  void fold();
  void count_in(int bucket);

  size_t most_exact_;
  uint64_t count_ = 0;
  double least_ = 0;
  double most_ = 0;
  mutable std::vector<double> exact_;
  mutable bool sorted_ = true;
  // By the logarithm to the base 1.002, rounded: the buckets from first_bucket_ on.
  std::vector<uint64_t> buckets_;
  int first_bucket_ = 0;
  uint64_t zeros_ = 0;
};

// The middle number; of an even count the upper one of the two. There must be one.
double median_of(std::vector<double> values);

// Mean of a stream: a sum and a count. A value.
class Mean {
 public:
  void add(double value) {
    sum_ += value;
    ++count_;
  }
  uint64_t count() const { return count_; }
  // 0 if there are none.
  double mean() const { return count_ == 0 ? 0 : sum_ / static_cast<double>(count_); }

 private:
  double sum_ = 0;
  uint64_t count_ = 0;
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
