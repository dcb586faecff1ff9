#include "sim/workload/exact_rows.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "core/domain/function.h"

namespace lambent::workload {
namespace {

// Beyond this it is no clock's time either.
constexpr double kMostClock = 1e20;
// No run takes less, so that none takes its function's time instead.
constexpr Duration kLeastRun = std::chrono::microseconds(1);

std::string not_a_time(const TimeColumn& column, std::string_view text, bool is_relative) {
  const std::string is = column.name + " is " + quoted(text);
  if (column.unit == TimeUnit::kDate) {
    if (!column.unit_is_guessed || !number_of(text)) return is + ", not a date and a time";
    return is + ", a number without a unit: name it, such as " + column.name + ":s for seconds";
  }
  const std::string unit(words_of(column.unit));
  const auto number = number_of(text);
  if (is_relative && number && *number > 0 && *number < kMostClock) {
    return is + ", too long after the start: times count from the trace's begin, in " + unit;
  }
  return is + ", not a time in " + unit;
}

bool is_filled(std::string_view text) { return !text.empty() && text != "nan" && text != "NaN"; }

}  // namespace

std::string ExactRows::read_moment(const std::optional<TimeColumn>& column,
                                   std::optional<Duration>& moment) const {
  if (!column) return {};
  const std::string_view text = fields_[column->at];
  moment = time_of(text, column->unit);
  if (moment && layout_.is_relative && to_seconds(*moment) > kMostSeconds) moment.reset();
  return moment ? std::string() : not_a_time(*column, text, layout_.is_relative);
}

std::string ExactRows::check_order(Duration at) {
  if (last_ && at < *last_) {
    in_order_ = false;
    if (layout_.is_relative) {
      const TimeColumn& time = *layout_.time;
      return time.name + " goes back to " + quoted(fields_[time.at]) + "; sort the rows by " +
             time.name;
    }
  }
  if (!first_) first_ = at;
  const double apart_s = std::abs(to_seconds(at) - to_seconds(*first_));
  if (apart_s > kMostSeconds) return "comes more than 1e9 seconds before or after the first row";
  last_ = at;
  return {};
}

std::string ExactRows::read_run_time(Duration arrived, std::optional<Duration> started,
                                     std::optional<Duration> ended, Duration& run) const {
  if (layout_.duration) {
    const std::string_view text = fields_[layout_.duration->at];
    const auto lasted = time_of(text, layout_.duration->unit);
    if (!lasted || to_seconds(*lasted) > kMostSeconds) {
      return layout_.duration->name + " is " + quoted(text) + ", not a time in " +
             std::string(words_of(layout_.duration->unit));
    }
    run = *lasted;
  } else if (ended) {
    run = *ended - started.value_or(arrived);
    if (run < Duration(0)) return "it ends before it begins";
  } else {
    double run_s = 0;
    const auto add = [&](std::optional<size_t> column, double per_second) {
      if (!column) return true;
      const auto tokens = number_of(fields_[*column]);
      if (!tokens || *tokens < 0 || *tokens > 1e12) return false;
      run_s += *tokens / per_second;
      return true;
    };
    for (const auto& [column, rate] : {std::pair(layout_.input_tokens, layout_.rates.input_per_s),
                                       {layout_.output_tokens, layout_.rates.output_per_s}}) {
      if (!add(column, rate)) {
        return rows_.header()[*column] + " is " + quoted(fields_[*column]) +
               ", not a number of tokens";
      }
    }
    run = from_seconds(std::min(run_s, kMostSeconds));
  }
  run = std::max(run, kLeastRun);
  return {};
}

std::string ExactRows::read_times(ExactRow& row) {
  std::optional<Duration> came, started, ended;
  for (const auto& [column, moment] :
       {std::pair(&layout_.time, &came), {&layout_.start, &started}, {&layout_.end, &ended}}) {
    if (std::string wrong = read_moment(*column, *moment); !wrong.empty()) return wrong;
  }
  Duration run{};
  if (layout_.has_run_times()) {
    std::string wrong =
        read_run_time(came.value_or(started.value_or(Duration(0))), started, ended, run);
    if (!wrong.empty()) return wrong;
    row.execution_s = static_cast<float>(to_seconds(run));
  }
  if (came || started) {
    row.at = came ? *came : *started;
  } else {
    // What began before its clock did counts as coming then.
    row.at = std::max(Duration(0), *ended - run);
  }
  return {};
}

std::string_view ExactRows::name_of_row() {
  if (layout_.function.empty()) return file_function_;
  const auto part = [&](const NameColumn& column) {
    const std::string_view text = fields_[column.at];
    return column.without_last_part ? text.substr(0, text.rfind('-')) : text;
  };
  if (layout_.function.size() == 1) return part(layout_.function.front());
  name_.clear();
  for (const NameColumn& column : layout_.function) {
    if (&column != &layout_.function.front()) name_ += layout_.name_joint;
    name_ += part(column);
  }
  return name_;
}

std::string ExactRows::parse(ExactRow& row) {
  row = {};
  if (std::string wrong = read_times(row); !wrong.empty()) return wrong;
  row.function = name_of_row();
  if (row.function.empty()) return "the function has no name";
  if (layout_.gpu_count) {
    const auto count = number_of(fields_[*layout_.gpu_count]);
    if (!count || *count < 1 || *count > kMostGpusOfFunction || *count != std::floor(*count)) {
      return rows_.header()[*layout_.gpu_count] + " is " + quoted(fields_[*layout_.gpu_count]) +
             ", not 1 to " + std::to_string(kMostGpusOfFunction) + " GPUs";
    }
    row.gpu_count = static_cast<unsigned>(*count);
  }
  return check_order(row.at);
}

bool ExactRows::is_left_out() {
  left_out_.resize(layout_.filters.size());
  for (size_t i = 0; i < layout_.filters.size(); ++i) {
    const RowFilter& filter = layout_.filters[i];
    const std::string_view text = fields_[filter.at];
    bool keeps = true;
    switch (filter.keeps) {
      case RowFilter::Keeps::kAboveZero:
        // What is no number is a bad row, not one to leave out.
        keeps = number_of(text).value_or(1) > 0;
        break;
      case RowFilter::Keeps::kFilled:
        keeps = is_filled(text);
        break;
      case RowFilter::Keeps::kOthersThan:
        keeps = std::find(filter.others_than.begin(), filter.others_than.end(), text) ==
                filter.others_than.end();
        break;
    }
    if (keeps) continue;
    ++left_out_[i];
    return true;
  }
  return false;
}

Result<bool> ExactRows::next(ExactRow& row, BadRows& bad) {
  for (;;) {
    ASSIGN_OR_RETURN(const bool more, rows_.next(fields_, bad));
    if (!more) return false;
    if (is_left_out()) continue;
    const std::string wrong = parse(row);
    if (wrong.empty()) return true;
    bad.add(rows_.line(), wrong);
  }
}

std::optional<size_t> function_column(const RowReader& rows) {
  return rows.column("function") ? rows.column("function") : rows.column("func");
}

std::string quoted(std::string_view text) {
  constexpr size_t kMost = 40;
  return "'" + std::string(text.substr(0, kMost)) + (text.size() > kMost ? "...'" : "'");
}

}  // namespace lambent::workload
