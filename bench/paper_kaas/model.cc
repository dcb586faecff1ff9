#include "bench/paper_kaas/model.h"

#include "sim/workload/csv.h"

namespace lambent::paper_kaas {

Result<std::vector<Workload>> open_workloads(const std::string& path) {
  ASSIGN_OR_RETURN(const auto lines, workload::open_lines(path));
  ASSIGN_OR_RETURN(workload::RowReader rows, workload::RowReader::start(*lines, path));
  ASSIGN_OR_RETURN(const size_t name, rows.required_column("name"));
  ASSIGN_OR_RETURN(const size_t constants, rows.required_column("constants_mb"));
  ASSIGN_OR_RETURN(const size_t dynamic, rows.required_column("dynamic_mb"));
  ASSIGN_OR_RETURN(const size_t gpu, rows.required_column("gpu_ms"));
  ASSIGN_OR_RETURN(const size_t host, rows.required_column("host_ms"));
  std::vector<Workload> workloads;
  workload::BadRows bad(path);
  std::vector<std::string_view> fields;
  for (;;) {
    ASSIGN_OR_RETURN(const bool more, rows.next(fields, bad));
    if (!more) break;
    double numbers[4] = {};
    bool good = true;
    size_t next = 0;
    for (const size_t column : {constants, dynamic, gpu, host}) {
      const auto number = workload::number_of(fields[column]);
      good = good && number && *number >= 0;
      if (good) numbers[next++] = *number;
    }
    if (!good || numbers[2] == 0) {
      bad.add(rows.line(), "an amount is not a number, or the GPU time is zero");
      continue;
    }
    const auto megabytes = [](double amount) { return Bytes(static_cast<uint64_t>(amount * 1e6)); };
    workloads.push_back({.name = std::string(fields[name]),
                         .constants = megabytes(numbers[0]),
                         .dynamic = megabytes(numbers[1]),
                         .gpu = from_seconds(numbers[2] / 1e3),
                         .host = from_seconds(numbers[3] / 1e3)});
  }
  RETURN_IF_ERROR(bad.verdict());
  return workloads;
}

}  // namespace lambent::paper_kaas
