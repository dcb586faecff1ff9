#include "sim/workload/report.h"

#include <algorithm>
#include <set>

#include "core/base/check.h"
#include "sim/workload/page.h"
#include "sim/workload/report_charts.h"
#include "sim/workload/svg.h"

namespace lambent::workload {
namespace {

std::vector<ShownRun> shown(const std::vector<RunFile>& runs) {
  std::vector<ShownRun> all;
  std::multiset<std::string> labels;
  for (size_t i = 0; i < runs.size(); ++i) {
    std::string label = runs[i].header.policy.empty() ? runs[i].name : runs[i].header.policy;
    labels.insert(label);
    // Two runs of one policy: the second is told apart by a number.
    if (labels.count(label) > 1) label += " (" + std::to_string(labels.count(label)) + ")";
    all.push_back({.file = &runs[i],
                   .label = label,
                   .colour = "c" + std::to_string(i % kPageColours),
                   .summary = summarise(runs[i])});
  }
  return all;
}

std::string legend(const std::vector<ShownRun>& runs) {
  std::string html = "<div>";
  for (const ShownRun& run : runs) {
    html += "<span class=\"key\"><i class=\"" + run.colour + "\"></i>" + markup_escape(run.label) +
            "</span>";
  }
  return html + "</div>\n";
}

std::string percent(const std::optional<double>& share) {
  return share ? fixed(*share * 100, 1) + " %" : "–";
}

struct Column {
  const char* title;
  // What is shown, and what the least of is best (nothing: no best).
  std::string (*text)(const ShownRun&);
  std::optional<double> (*rank)(const ShownRun&);
};

const Column kTable[] = {
    {"invocations", [](const ShownRun& r) { return std::to_string(r.summary.count); }, nullptr},
    {"failed", [](const ShownRun& r) { return std::to_string(r.summary.failed); }, nullptr},
    {"mean", [](const ShownRun& r) { return fixed(r.summary.mean_s, 3) + " s"; },
     [](const ShownRun& r) { return std::optional(r.summary.mean_s); }},
    {"p50", [](const ShownRun& r) { return fixed(r.summary.p50_s, 3) + " s"; },
     [](const ShownRun& r) { return std::optional(r.summary.p50_s); }},
    {"p99", [](const ShownRun& r) { return fixed(r.summary.p99_s, 3) + " s"; },
     [](const ShownRun& r) { return std::optional(r.summary.p99_s); }},
    {"variance", [](const ShownRun& r) { return fixed(r.summary.variance_between_functions, 2); },
     [](const ShownRun& r) { return std::optional(r.summary.variance_between_functions); }},
    {"cold", [](const ShownRun& r) { return percent(r.summary.cold_ratio); },
     [](const ShownRun& r) { return std::optional(r.summary.cold_ratio); }},
    {"SLO kept", [](const ShownRun& r) { return percent(r.summary.slo_hit_ratio); }, nullptr},
    {"gpu cold", [](const ShownRun& r) { return percent(r.summary.gpu_cold_ratio); }, nullptr},
    {"normalised",
     [](const ShownRun& r) {
       return r.summary.normalised_latency ? fixed(*r.summary.normalised_latency, 1) + " ×" : "–";
     },
     [](const ShownRun& r) { return r.summary.normalised_latency; }},
    {"utilisation", [](const ShownRun& r) { return percent(mean_utilisation(r.file->readings)); },
     nullptr},
};

bool is_best(const Column& column, const ShownRun& run, const std::vector<ShownRun>& runs) {
  if (column.rank == nullptr || runs.size() < 2 || run.summary.count == 0) return false;
  const auto own = column.rank(run);
  return own && std::all_of(runs.begin(), runs.end(), [&](const ShownRun& other) {
           const auto theirs = column.rank(other);
           return other.summary.count == 0 || !theirs || *own <= *theirs;
         });
}

std::string table(const std::vector<ShownRun>& runs) {
  std::string html = "<div class=\"wide\"><table><thead><tr><th>run</th>";
  for (const Column& column : kTable) html += std::string("<th>") + column.title + "</th>";
  html += "</tr></thead><tbody>\n";
  for (const ShownRun& run : runs) {
    html += "<tr><td><span class=\"key\"><i class=\"" + run.colour + "\"></i>" +
            markup_escape(run.label) + "</span></td>";
    for (const Column& column : kTable) {
      html += is_best(column, run, runs) ? "<td class=\"best\">" : "<td>";
      html += column.text(run) + "</td>";
    }
    html += "</tr>\n";
  }
  return html + "</tbody></table></div>\n";
}

std::string notes(const std::vector<ShownRun>& runs) {
  std::string html;
  const auto any = [&](auto is) {
    return std::any_of(runs.begin(), runs.end(),
                       [&](const ShownRun& run) { return is(run.file->header); });
  };
  const auto simulated = [](const RunHeader& header) { return header.source == "simulation"; };
  if (any(simulated)) {
    html +=
        "<div class=\"note\"><strong>Some of these times are simulated.</strong> Nothing ran: the "
        "scheduler decided for modelled functions on modelled devices.</div>\n";
  }
  if (any([&](const RunHeader& header) { return header.emulated && !simulated(header); })) {
    html +=
        "<div class=\"note\"><strong>These times are emulated.</strong> Kernels, copies and starts "
        "took as long as a model says, not as long as a GPU would have; they compare policies, "
        "and say nothing about a device.</div>\n";
  }
  for (const ShownRun& run : runs) {
    const auto share = overhead_share(run.file->header, run.summary);
    if (share && *share > kMostOverheadShare) {
      html += "<div class=\"note bad\"><strong>Not valid: " + markup_escape(run.label) +
              ".</strong> The machine's own overhead, multiplied by the time scale of " +
              fixed(run.file->header.time_scale, 1) + ", is " + fixed(*share * 100, 1) +
              " % of the mean latency; at most 2 % can be trusted.</div>\n";
    }
    if (!run.file->end) {
      html += "<div class=\"note bad\"><strong>Cut off: " + markup_escape(run.label) +
              ".</strong> The result file has no end.</div>\n";
    }
  }
  return html;
}

std::string facts(const std::vector<ShownRun>& runs) {
  std::set<std::string> traces;
  std::set<std::string> scales;
  for (const ShownRun& run : runs) {
    traces.insert(run.file->header.trace);
    scales.insert(fixed(run.file->header.time_scale, 1));
  }
  std::string html = "<p class=\"facts\">Trace";
  for (const std::string& trace : traces) html += " <strong>" + markup_escape(trace) + "</strong>";
  html += " · time scale";
  for (const std::string& scale : scales) html += " " + scale;
  return html + " · latencies count from the time each invocation was meant to be sent</p>\n";
}

constexpr char kPartsLegend[] =
    "<div><span class=\"key\"><i class=\"queue\"></i>queue</span>"
    "<span class=\"key\"><i class=\"cold\"></i>cold start</span>"
    "<span class=\"key\"><i class=\"memory\"></i>memory on its way</span>"
    "<span class=\"key\"><i class=\"run\"></i>run</span>"
    "<span class=\"key\"><i class=\"rest\"></i>network and sending</span></div>\n";

}  // namespace

std::string report_html(const std::vector<RunFile>& runs, const std::string& title) {
  CHECK(!runs.empty(), "a report shows at least one run");
  const std::vector<ShownRun> all = shown(runs);
  const std::string key = legend(all);
  const auto with_key = [&](const std::string& chart) {
    return chart.empty() ? std::string() : key + chart;
  };
  std::string html = facts(all) + notes(all);
  html += html_section("By run", "Modelled seconds. The least of each column is bold.", table(all));
  html += "<div class=\"pair\">\n";
  html += html_section("Latency", "The share of invocations answered within a time.",
                       with_key(latency_chart(all)));
  const std::string breakdown = breakdown_chart(all);
  html += html_section("Where the time went", "The mean latency, cut into its parts.",
                       breakdown.empty() ? "" : kPartsLegend + breakdown);
  html += html_section("Device utilisation", "Over time, mean of the devices.",
                       with_key(utilisation_chart(all)));
  html += html_section("In flight", "Invocations sent and not yet answered, over time.",
                       with_key(in_flight_chart(all)));
  html += html_section("Cold starts", "Their share by time of arrival.", with_key(cold_chart(all)));
  html += html_section("Virtual-time lag",
                       "How far the flow that is ahead most is ahead of the global virtual time.",
                       with_key(lag_chart(all)));
  html += "</div>\n";
  html +=
      html_section("On the devices",
                   "The beginning: each invocation from its dispatch to its end, the cold start "
                   "in grey, coloured by function; those side by side ran at once.",
                   timeline_chart(all));
  html += html_section("By function", "The most invoked functions, those that run longest first.",
                       with_key(function_chart(all)));
  return html_page(title, html);
}

}  // namespace lambent::workload
