// Counters, gauges and histograms by name and labels, and their text in Prometheus' format 0.0.4.
// Used by WorkerMetrics; one thread at a time.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace lambent::metrics {

using Labels = std::map<std::string, std::string>;

class Counter {
 public:
  static constexpr std::string_view kType = "counter";
  // `by` is not negative; what is negative, or no number, is left out.
  void increment(double by = 1) {
    if (by > 0) value_ += by;
  }
  double value() const { return value_; }
  void write(std::string_view name, const Labels& labels, std::string& text) const;

 private:
  double value_ = 0;
};

class Gauge {
 public:
  static constexpr std::string_view kType = "gauge";
  void set(double value) { value_ = value; }
  double value() const { return value_; }
  void write(std::string_view name, const Labels& labels, std::string& text) const;

 private:
  double value_ = 0;
};

class Histogram {
 public:
  static constexpr std::string_view kType = "histogram";
  // Upper bounds of the buckets, each above the one before; one more holds what is above them all.
  explicit Histogram(std::span<const double> bounds)
      : bounds_(bounds.begin(), bounds.end()), counts_(bounds.size() + 1) {}
  void observe(double value);
  uint64_t count() const;
  double sum() const { return sum_; }
  void write(std::string_view name, const Labels& labels, std::string& text) const;

 private:
  std::vector<double> bounds_;
  std::vector<uint64_t> counts_;
  double sum_ = 0;
};

using Label = Labels::value_type;

class AnyFamily {
 public:
  virtual ~AnyFamily() = default;
  // `only`: of the metrics that have this label; null: of all.
  virtual void write(std::string& text, const Label* only) const = 0;
};

// The metrics of one name, which differ in their labels.
template <typename Metric>
class Family final : public AnyFamily {
 public:
  Family(std::string name, std::string help) : name_(std::move(name)), help_(std::move(help)) {}

  // The metric with these labels; made of `arguments` if there is none yet. It stays where it is
  // until it is removed.
  template <typename... Arguments>
  Metric& add(const Labels& labels, Arguments&&... arguments) {
    std::unique_ptr<Metric>& metric = metrics_[labels];
    if (!metric) metric = std::make_unique<Metric>(std::forward<Arguments>(arguments)...);
    return *metric;
  }

  // The metric with these labels, if there is one.
  void remove(const Labels& labels) { metrics_.erase(labels); }

  void write(std::string& text, const Label* only) const override;

 private:
  std::string name_;
  std::string help_;
  std::map<Labels, std::unique_ptr<Metric>> metrics_;
};

class Registry {
 public:
  // A new family; the text has them in the order in which they were made. The name is not checked.
  template <typename Metric>
  Family<Metric>& family(std::string name, std::string help) {
    auto made = std::make_unique<Family<Metric>>(std::move(name), std::move(help));
    Family<Metric>& family = *made;
    families_.push_back(std::move(made));
    return family;
  }

  // Families without a metric are left out. `only`: as if there were no metrics without this label.
  std::string text(const Label* only = nullptr) const;

 private:
  std::vector<std::unique_ptr<AnyFamily>> families_;
};

}  // namespace lambent::metrics
