#include "bin/trace_flags.h"

#include <string>
#include <vector>

#include "bin/flag_checks.h"

namespace lambent::bin {

void add_trace_flags(CLI::App& app, workload::TraceOptions& read) {
  app.add_option("--rate-scale", read.rate_scale, "the trace runs this many times as fast")
      ->check(within(1e-6, 1e9))
      ->capture_default_str();
  app.add_option_function<std::string>(
         "--spread",
         [&read](const std::string& name) {
           read.spreading = *workload::spreading_from_name(name);
         },
         "where arrivals lie in the interval of a count")
      ->check(CLI::IsMember({"uniform", "equidistant", "poisson"}))
      ->default_str(std::string(name_of(read.spreading)));
  app.add_option("--busiest", read.busiest, "only the N busiest functions")->check(whole_number());
  app.add_option("--only", read.only, "only these functions")
      ->delimiter(',')
      ->allow_extra_args(false);
  app.add_flag("--skip-bad-rows", read.skip_bad_rows,
               "leave bad rows out instead of refusing the trace");
  app.add_option_function<std::vector<std::string>>(
         "--column",
         [&read](const std::vector<std::string>& texts) {
           read.columns.clear();
           for (const std::string& text : texts) {
             auto choice = workload::parse_column_choice(text);
             if (!choice.ok()) throw CLI::ValidationError("--column", choice.error().message);
             read.columns.push_back(std::move(*choice));
           }
         },
         "WHAT=COLUMN[:UNIT] of a table with a row per call, such as time=submitted:ms; WHAT and "
         "UNIT are in docs/reference/traces.md")
      ->allow_extra_args(false);
  app.add_option("--header", read.header,
                 "NAME,NAME,...: the columns of a trace that has no header line")
      ->delimiter(',')
      ->allow_extra_args(false);
  app.add_option_function<std::string>(
         "--token-rates",
         [&read](const std::string& text) {
           auto rates = workload::parse_token_rates(text);
           if (!rates.ok()) throw CLI::ValidationError("--token-rates", rates.error().message);
           read.token_rates = *rates;
         },
         "IN,OUT: tokens a second that a call reads and writes, where a trace counts them")
      ->default_str("10000,50");
}

}  // namespace lambent::bin
