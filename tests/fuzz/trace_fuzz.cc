// Traces, what users say of their columns, catalogues and result files are foreign bytes: whatever
// they hold, reading them ends in a value or an error; and a trace is the same whether it is
// streamed or held.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>

#include "core/base/check.h"
#include "sim/workload/catalogue.h"
#include "sim/workload/result_file.h"
#include "sim/workload/trace_reader.h"

namespace {

using namespace lambent::workload;

// Lines that come once, as from a pipe.
class OnceOnly final : public LineReader {
 public:
  explicit OnceOnly(std::string_view text) : lines_(lines_of(text)) {}
  lambent::Result<std::optional<std::string_view>> next() override { return lines_->next(); }
  bool can_rewind() const override { return false; }
  lambent::Result<void> rewind() override {
    return lambent::Error{lambent::ErrorCode::kFailedPrecondition, "only once"};
  }

 private:
  std::unique_ptr<LineReader> lines_;
};

// A trace that is read twice and one that is held are the same.
void check_trace(std::string_view text, const TraceOptions& options) {
  const auto beside = lines_of(text);
  const auto again = lines_of(text);
  auto streamed = read_trace(lines_of(text), beside.get(), "t.csv", options);
  auto held = read_trace(std::make_unique<OnceOnly>(text), again.get(), "t.csv", options);
  CHECK(streamed.ok() == held.ok(), "both ways read the same");
  if (!streamed.ok()) return;
  CHECK(streamed->length == held->length, "both ways last as long");
  // Counts may promise billions of arrivals; some are enough.
  for (int i = 0; i < 1000; ++i) {
    const auto arrival = streamed->arrivals->next();
    CHECK(arrival == held->arrivals->next(), "both ways give the same arrivals");
    if (arrival) continue;
    CHECK(!streamed->arrivals->failure(), "nobody wrote to it");
    break;
  }
}

// The first line may be what a user says of columns, or names them; the rest is the table.
void check_columns(std::string_view text) {
  const size_t end = std::min(text.find('\n'), text.size());
  const std::string_view first = text.substr(0, end);
  (void)parse_token_rates(first).ok();
  TraceOptions options{.skip_bad_rows = true};
  for (size_t begin = 0; begin < first.size() && options.columns.size() < 8;) {
    const size_t comma = std::min(first.find(',', begin), first.size());
    auto choice = parse_column_choice(first.substr(begin, comma - begin));
    if (choice.ok()) options.columns.push_back(std::move(*choice));
    begin = comma + 1;
  }
  if (!options.columns.empty()) check_trace(text.substr(std::min(end + 1, text.size())), options);
  TraceOptions named{
      .columns = {{.role = ColumnRole::kTime, .column = "a", .unit = TimeUnit::kDate},
                  {.role = ColumnRole::kFunction, .column = "a+b", .unit = {}},
                  {.role = ColumnRole::kOutputTokens, .column = "b", .unit = {}}},
      .header = {"a", "b"}};
  check_trace(text, named);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  check_trace(text, {});
  check_trace(text, {.rate_scale = 7, .busiest = 2, .skip_bad_rows = true});
  check_columns(text);
  (void)read_catalogue(*lines_of(text), "c.csv").ok();
  if (const auto run = read_run(*lines_of(text), "r.jsonl"); run.ok()) (void)summarise(*run);
  return 0;
}
