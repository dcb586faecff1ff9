#include "core/metrics/registry.h"

#include <array>
#include <charconv>
#include <cmath>
#include <numeric>
#include <utility>

namespace lambent::metrics {
namespace {

// The shortest text that reads back as the same number.
std::string number_text(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "+Inf" : "-Inf";
  constexpr double kMostWhole = 9007199254740992;  // above, not every whole number is a double
  std::array<char, 32> text{};
  const auto end = std::abs(value) <= kMostWhole && value == std::trunc(value)
                       ? std::to_chars(text.begin(), text.end(), static_cast<int64_t>(value)).ptr
                       : std::to_chars(text.begin(), text.end(), value).ptr;
  return {text.data(), end};
}

std::string escaped(std::string_view value, bool quotes) {
  std::string text;
  for (const char each : value) {
    if (each == '\n') {
      text += "\\n";
    } else {
      if (each == '\\' || (quotes && each == '"')) text += '\\';
      text += each;
    }
  }
  return text;
}

void write_sample(std::string_view name, const Labels& labels, std::string_view value,
                  std::string& text, std::string_view bound = {}) {
  text += name;
  std::string inside;
  for (const auto& [label, content] : labels) {
    inside += (inside.empty() ? "" : ",") + label + "=\"" + escaped(content, true) + "\"";
  }
  if (!bound.empty()) {
    inside += inside.empty() ? "le=\"" : ",le=\"";
    inside += bound;
    inside += '"';
  }
  if (!inside.empty()) text += "{" + inside + "}";
  text += ' ';
  text += value;
  text += '\n';
}

}  // namespace

void Counter::write(std::string_view name, const Labels& labels, std::string& text) const {
  write_sample(name, labels, number_text(value_), text);
}

void Gauge::write(std::string_view name, const Labels& labels, std::string& text) const {
  write_sample(name, labels, number_text(value_), text);
}

void Histogram::observe(double value) {
  // A bucket's bound belongs to it.
  const auto bucket = std::lower_bound(bounds_.begin(), bounds_.end(), value) - bounds_.begin();
  ++counts_[static_cast<size_t>(bucket)];
  sum_ += value;
}

uint64_t Histogram::count() const {
  return std::accumulate(counts_.begin(), counts_.end(), uint64_t{0});
}

void Histogram::write(std::string_view name, const Labels& labels, std::string& text) const {
  const std::string prefix(name);
  write_sample(prefix + "_count", labels, std::to_string(count()), text);
  write_sample(prefix + "_sum", labels, number_text(sum_), text);
  uint64_t up_to = 0;
  for (size_t i = 0; i < counts_.size(); ++i) {
    up_to += counts_[i];
    const std::string bound = i < bounds_.size() ? number_text(bounds_[i]) : "+Inf";
    write_sample(prefix + "_bucket", labels, std::to_string(up_to), text, bound);
  }
}

template <typename Metric>
void Family<Metric>::write(std::string& text, const Label* only) const {
  bool is_begun = false;
  for (const auto& [labels, metric] : metrics_) {
    if (only != nullptr) {
      const auto found = labels.find(only->first);
      if (found == labels.end() || found->second != only->second) continue;
    }
    if (!std::exchange(is_begun, true)) {
      text += "# HELP " + name_ + " " + escaped(help_, false) + "\n";
      text += "# TYPE " + name_ + " " + std::string(Metric::kType) + "\n";
    }
    metric->write(name_, labels, text);
  }
}

template class Family<Counter>;
template class Family<Gauge>;
template class Family<Histogram>;

std::string Registry::text(const Label* only) const {
  std::string text;
  for (const auto& family : families_) family->write(text, only);
  return text;
}

}  // namespace lambent::metrics
