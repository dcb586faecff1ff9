#include "sim/workload/exact_source.h"

#include <algorithm>
#include <functional>

#include "sim/workload/trace_reader.h"

namespace lambent::workload {
namespace {

class ExactSource final : public ArrivalSource {
 public:
  ExactSource(std::unique_ptr<LineReader> lines, ExactRows rows, ExactSourcePlan plan)
      : lines_(std::move(lines)),
        rows_(std::move(rows)),
        plan_(std::move(plan)),
        bad_(plan_.file),
        waiting_(plan_.new_index.size()) {
    ahead_ = read();
  }

  std::optional<Arrival> next() override {
    if (plan_.layout.has_run_times()) return next_with_run_time();
    if (functions_.empty() && !gather()) return std::nullopt;
    const uint32_t function = functions_.back();
    if (--waiting_[function] == 0) functions_.pop_back();
    return Arrival{.at = at_, .function = function};
  }
  std::optional<Error> failure() const override { return failure_; }

 private:
  // Each is another, so all of an instant have to be held.
  std::optional<Arrival> next_with_run_time() {
    if (together_.empty()) {
      if (!ahead_) return std::nullopt;
      const Duration at = ahead_->at;
      for (; ahead_ && ahead_->at == at; ahead_ = read()) {
        if (together_.size() == plan_.most_held) return fail_crowded();
        together_.push_back(*ahead_);
      }
      std::sort(together_.begin(), together_.end(), std::greater<>());
    }
    const Arrival arrival = together_.back();
    together_.pop_back();
    return arrival;
  }

  std::optional<Arrival> fail_crowded() {
    failure_ = Error{ErrorCode::kResourceExhausted,
                     plan_.file + " has more than " + std::to_string(plan_.most_held) +
                         " rows of one instant, which have to be held in memory; choose fewer "
                         "functions with --only or --busiest, or a lower --rate-scale"};
    together_.clear();
    ahead_.reset();
    return std::nullopt;
  }

  // All arrivals of the next instant, which a counter for each function can hold however many they
  // are. False at the end.
  bool gather() {
    if (!ahead_) return false;
    at_ = ahead_->at;
    for (; ahead_ && ahead_->at == at_; ahead_ = read()) {
      if (waiting_[ahead_->function]++ == 0) functions_.push_back(ahead_->function);
    }
    if (functions_.size() > 1) std::sort(functions_.begin(), functions_.end(), std::greater<>());
    return true;
  }

  // The next arrival of the file that is wanted; nothing at the end and after a failure.
  std::optional<Arrival> read() {
    ExactRow row;
    while (!failure_ && !at_end_) {
      const auto more = rows_.next(row, bad_);
      if (!more.ok()) {
        failure_ = more.error();
      } else if (bad_.count() > 0 && !plan_.skip_bad_rows) {
        failure_ = changed();
      } else if (!*more || row.at - plan_.origin >= plan_.end) {
        at_end_ = true;
      } else if (row.at < plan_.origin) {
        failure_ = changed();
      } else if (row.at - plan_.origin >= plan_.start) {
        const auto function = plan_.table.find(row.function);
        if (!function) {
          failure_ = changed();
        } else if (const uint32_t index = plan_.new_index[*function]; index != kNotChosen) {
          ++read_;
          const double at_s = to_seconds(row.at - plan_.origin - plan_.start) / plan_.rate_scale;
          return Arrival{
              .at = from_seconds(at_s), .function = index, .execution_s = row.execution_s};
        }
      }
    }
    if (!failure_ && read_ != plan_.arrivals) failure_ = changed();
    return std::nullopt;
  }

  Error changed() const { return changed_since(plan_.file); }

  std::unique_ptr<LineReader> lines_;
  ExactRows rows_;
  ExactSourcePlan plan_;
  BadRows bad_;
  std::optional<Arrival> ahead_;  // read already, of a later instant than `at_`
  uint64_t read_ = 0;
  bool at_end_ = false;
  std::optional<Error> failure_;
  // Of the instant `at_`: how many arrivals each function still has, and those that have any, the
  // next one last.
  Duration at_{};
  std::vector<uint64_t> waiting_;
  std::vector<uint32_t> functions_;
  std::vector<Arrival> together_;  // of one instant, the next one last, where they have run times
};

}  // namespace

Result<std::unique_ptr<ArrivalSource>> source_of(std::unique_ptr<LineReader> lines,
                                                 ExactSourcePlan plan) {
  if (auto rewound = lines->rewind(); !rewound.ok()) return rewound.error().with_context(plan.file);
  ASSIGN_OR_RETURN(RowReader rows, RowReader::start(*lines, plan.file, plan.header));
  if (rows.header() != plan.columns) return changed_since(plan.file);
  ExactRows checked(std::move(rows), plan.layout, trace_name_of(plan.file));
  return std::unique_ptr<ArrivalSource>(
      std::make_unique<ExactSource>(std::move(lines), std::move(checked), std::move(plan)));
}

}  // namespace lambent::workload
