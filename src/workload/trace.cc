#include "workload/trace.h"

#include <algorithm>

namespace lambent::workload {
namespace {

class VectorSource final : public ArrivalSource {
 public:
  explicit VectorSource(std::vector<Arrival> arrivals) : arrivals_(std::move(arrivals)) {}

  std::optional<Arrival> next() override {
    if (next_ == arrivals_.size()) return std::nullopt;
    return arrivals_[next_++];
  }

 private:
  std::vector<Arrival> arrivals_;
  size_t next_ = 0;
};

}  // namespace

std::unique_ptr<ArrivalSource> source_of(std::vector<Arrival> arrivals) {
  std::sort(arrivals.begin(), arrivals.end());
  return std::make_unique<VectorSource>(std::move(arrivals));
}

std::vector<Arrival> drain(ArrivalSource& source) {
  std::vector<Arrival> all;
  while (const auto arrival = source.next()) all.push_back(*arrival);
  return all;
}

}  // namespace lambent::workload
