#include "bench/paper_mqfq/other_orders.h"

#include <algorithm>
#include <vector>

#include "decide/scheduling/first_that_fits.h"

namespace lambent::paper_mqfq {
namespace {

using scheduling::Decision;
using scheduling::Flow;
using scheduling::FlowState;
using scheduling::FlowStatus;
using scheduling::IndexedHeap;
using scheduling::View;
using scheduling::WaitReason;

// Flows that may start one more lie in a heap, by a key that changes with events of theirs.
class OtherOrder : public scheduling::Policy {
 public:
  void flow_changed(const View& view, FunctionId function, Instant) override {
    const Flow& flow = view.flow(function);
    if (flow.pending > 0 && flow.in_flight < flow.max_concurrency) {
      order_.put(function.value, key_of(view, function));
    } else {
      order_.erase(function.value);
    }
  }
  void enqueued(const View& view, FunctionId function, Instant now) override {
    flow_changed(view, function, now);
  }
  void dispatched(const View& view, FunctionId function, Instant now) override {
    flow_changed(view, function, now);
  }
  void finished(const View& view, FunctionId function, Instant now) override {
    flow_changed(view, function, now);
  }
  void places_changed(const View& view, FunctionId function, Instant now) override {
    flow_changed(view, function, now);
  }
  Decision decide(const View& view, Instant) override {
    if (order_.empty()) return Decision::nothing(WaitReason::kConcurrencyLimit);
    WaitReason reason = WaitReason::kNone;
    auto left = scheduling::DevicesLeft::kAll;
    const auto decision = first_that_fits(view, order_, left, reason);
    return decision ? *decision : Decision::nothing(reason);
  }
  void look_ahead(const View&, size_t most, std::vector<FunctionId>& out) override {
    take_first(order_, most, out);
  }
  WaitReason why_waiting(const View& view, FunctionId function) const override {
    const auto found = view.fleet.places().find(function, view.flow(function), false);
    return found.place ? WaitReason::kBehindOthers : found.reason;
  }
  FlowStatus status(const View& view, FunctionId function, Instant) const override {
    return {view.flow(function).has_work() ? FlowState::kActive : FlowState::kInactive, {}};
  }
  void archive(StateArchive& archive) override { archive.expect(false); }  // never saved

 protected:
  // What is less goes first.
  virtual uint64_t key_of(const View& view, FunctionId function) const = 0;

  IndexedHeap<uint64_t> order_;
};

class ShortestFirst final : public OtherOrder {
 public:
  explicit ShortestFirst(bool with_set_up) : with_set_up_(with_set_up) {}
  std::string_view name() const override { return with_set_up_ ? "sjf-set-up" : "sjf"; }

 private:
  uint64_t key_of(const View& view, FunctionId function) const override {
    const Flow& flow = view.flow(function);
    Duration cost = flow.execution.mean_or(Duration(0));
    const bool is_cold = view.fleet.idle().newest_of(function) == scheduling::kNoSandbox;
    if (with_set_up_ && is_cold) cost += flow.cold_start.mean_or(seconds(1));
    return static_cast<uint64_t>(cost.count());
  }

  bool with_set_up_;
};

class EligibleDeadlines final : public OtherOrder {
 public:
  std::string_view name() const override { return "eevdf"; }

  void flow_changed(const View& view, FunctionId function, Instant now) override {
    if (function.value >= virtual_.size()) {
      virtual_.resize(function.value + 1);
      works_.resize(function.value + 1);
    }
    count(view, function);
    OtherOrder::flow_changed(view, function, now);
  }
  void enqueued(const View& view, FunctionId function, Instant now) override {
    const bool was_idle = works_[function.value] == 0;
    if (was_idle && working_ > 0)
      charge(function, std::max(Duration(0), mean() - virtual_[function.value]));
    flow_changed(view, function, now);
  }
  void dispatched(const View& view, FunctionId function, Instant now) override {
    charge(function, view.flow(function).execution.mean_or(kFirst));
    flow_changed(view, function, now);
  }
  // Who is eligible changes with the mean.
  Decision decide(const View& view, Instant now) override {
    if (working_ > 0 && mean() != ordered_at_) {
      ordered_at_ = mean();
      for (uint32_t i = 0; i < virtual_.size(); ++i) {
        if (order_.contains(i)) order_.put(i, key_of(view, FunctionId{i}));
      }
    }
    return OtherOrder::decide(view, now);
  }

 private:
  static constexpr Duration kFirst = seconds(1);

  Duration mean() const { return Duration(sum_.count() / working_); }
  void charge(FunctionId function, Duration cost) {
    virtual_[function.value] += cost;
    if (works_[function.value] != 0) sum_ += cost;
  }
  void count(const View& view, FunctionId function) {
    const bool works = view.flow(function).has_work();
    if (works == (works_[function.value] != 0)) return;
    works_[function.value] = works ? 1 : 0;
    working_ += works ? 1 : -1;
    sum_ += works ? virtual_[function.value] : -virtual_[function.value];
  }
  uint64_t key_of(const View& view, FunctionId function) const override {
    const Duration own = virtual_[function.value];
    const bool is_eligible = own <= mean();
    const Duration deadline = own + view.flow(function).execution.mean_or(kFirst);
    return (is_eligible ? 0 : uint64_t{1} << 62) + static_cast<uint64_t>(deadline.count());
  }

  std::vector<Duration> virtual_;  // by FunctionId
  std::vector<uint8_t> works_;     // likewise
  int64_t working_ = 0;            // how many do, and the sum of their virtual times
  Duration sum_{};
  Duration ordered_at_{};  // the mean, then
};

}  // namespace

std::unique_ptr<scheduling::Policy> make_other_order(const std::string& name) {
  if (name == "sjf") return std::make_unique<ShortestFirst>(false);
  if (name == "sjf-set-up") return std::make_unique<ShortestFirst>(true);
  if (name == "eevdf") return std::make_unique<EligibleDeadlines>();
  return nullptr;
}

}  // namespace lambent::paper_mqfq
