// Traces from texts, for tests of their readers.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "sim/workload/trace_reader.h"

namespace lambent::workload {

// Lines that come once, as from a pipe.
class OnceOnly final : public LineReader {
 public:
  explicit OnceOnly(std::string_view text) : lines_(lines_of(text)) {}
  Result<std::optional<std::string_view>> next() override { return lines_->next(); }
  bool can_rewind() const override { return false; }
  Result<void> rewind() override { return Error{ErrorCode::kFailedPrecondition, "only once"}; }

 private:
  std::unique_ptr<LineReader> lines_;
};

// Lines that are others when they are read again.
class Unsteady final : public LineReader {
 public:
  Unsteady(std::string_view first, std::string_view again)
      : lines_(lines_of(first)), again_(again) {}
  Result<std::optional<std::string_view>> next() override { return lines_->next(); }
  bool can_rewind() const override { return true; }
  Result<void> rewind() override {
    lines_ = lines_of(again_);
    return {};
  }

 private:
  std::unique_ptr<LineReader> lines_;
  std::string_view again_;
};

// The text as a file "folder/t.csv", which the trace may read again; it outlives the trace.
inline Result<Trace> read(std::string_view text, const TraceOptions& options = {},
                          const char* functions = nullptr) {
  const auto beside = functions == nullptr ? nullptr : lines_of(functions);
  return read_trace(lines_of(text), beside.get(), "folder/t.csv", options);
}

inline std::vector<double> times_of(Trace& trace) {
  std::vector<double> times;
  while (const auto arrival = trace.arrivals->next()) times.push_back(to_seconds(arrival->at));
  return times;
}

// What is wrong with the text; empty if nothing is.
inline std::string wrong_with(std::string_view text, const TraceOptions& options = {}) {
  const auto trace = read(text, options);
  return trace.ok() ? "" : trace.error().message;
}

// The choices of these --column.
inline std::vector<ColumnChoice> columns(std::initializer_list<std::string_view> texts) {
  std::vector<ColumnChoice> choices;
  for (const std::string_view text : texts) choices.push_back(parse_column_choice(text).value());
  return choices;
}

}  // namespace lambent::workload
