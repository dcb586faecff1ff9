#include "bench/paper_mqfq/fairness.h"

#include <algorithm>

#include "sim/workload/quantiles.h"

namespace lambent::paper_mqfq {

double service_gap(std::vector<Span> spans, size_t functions) {
  double end_s = 0;
  for (const Span& span : spans) end_s = std::max(end_s, span.completed_s);
  const auto windows = static_cast<size_t>(end_s / kServiceWindow_s);
  if (windows == 0) return 0;
  std::vector<std::vector<double>> service(windows, std::vector<double>(functions));
  std::vector<std::vector<double>> covered = service;
  std::ranges::sort(spans, {}, &Span::submitted_s);
  const auto spread = [&](std::vector<std::vector<double>>& into, uint32_t function, double from_s,
                          double to_s) {
    for (auto w = static_cast<size_t>(from_s / kServiceWindow_s); w < windows; ++w) {
      const double begin = static_cast<double>(w) * kServiceWindow_s;
      if (begin >= to_s) break;
      into[w][function] += std::min(to_s, begin + kServiceWindow_s) - std::max(from_s, begin);
    }
  };
  std::vector<double> had_work_until(functions);
  for (const Span& span : spans) {
    spread(service, span.function, span.ran_s, span.completed_s);
    double& until = had_work_until[span.function];
    if (span.completed_s > until) {
      spread(covered, span.function, std::max(until, span.submitted_s), span.completed_s);
      until = span.completed_s;
    }
  }
  workload::Mean gaps;
  for (size_t w = 0; w < windows; ++w) {
    double least = 1e300, most = 0;
    unsigned backlogged = 0;
    for (size_t f = 0; f < functions; ++f) {
      if (covered[w][f] < kServiceWindow_s - 1e-6) continue;
      ++backlogged;
      least = std::min(least, service[w][f]);
      most = std::max(most, service[w][f]);
    }
    if (backlogged > 1) gaps.add(most - least);
  }
  return gaps.mean();
}

}  // namespace lambent::paper_mqfq
