#include "workload/report.h"

#include <algorithm>
#include <set>

#include "base/check.h"
#include "workload/report_charts.h"
#include "workload/svg.h"

namespace lambent::workload {
namespace {

constexpr size_t kColours = 8;

constexpr char kStyle[] = R"(
:root{color-scheme:light dark;--paper:#f6f7f9;--card:#fff;--ink:#1b2430;--soft:#5b6675;--rule:#dfe3e8;
--c0:#0b62c4;--c1:#d9480f;--c2:#0d8a5f;--c3:#9b3fb5;--c4:#a37600;--c5:#0891a8;--c6:#c2255c;--c7:#4b5563;
--queue:#f0a13a;--cold:#3d8bd4;--run:#3a9d6e;--rest:#9aa4b2}
@media(prefers-color-scheme:dark){:root{--paper:#10151c;--card:#181f29;--ink:#e7ecf2;--soft:#98a4b3;--rule:#2b3542;
--c0:#5aa9ff;--c1:#ff8a4c;--c2:#3fcf97;--c3:#d08bea;--c4:#e3b341;--c5:#41c7dd;--c6:#ff7aa8;--c7:#a3adba;
--queue:#e0963a;--cold:#4f9be0;--run:#46b580;--rest:#6d7887}}
*{box-sizing:border-box}
body{margin:0;background:var(--paper);color:var(--ink);font:15px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,sans-serif}
main{max-width:1240px;margin:0 auto;padding:32px 20px 48px}
h1{font-size:26px;margin:0 0 4px;letter-spacing:-.01em}
h2{font-size:16px;margin:0 0 2px}
p{margin:0 0 10px;color:var(--soft)}
.facts{margin-bottom:18px}
.note{border-left:4px solid var(--c4);background:var(--card);padding:10px 14px;border-radius:0 8px 8px 0;color:var(--ink);margin-bottom:18px}
.bad{border-left-color:var(--c6)}
section{background:var(--card);border:1px solid var(--rule);border-radius:12px;padding:18px 20px;margin-bottom:18px;min-width:0}
.pair{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(480px,100%),1fr));gap:18px}
.pair section{margin-bottom:0}
.pair{margin-bottom:18px}
.wide{overflow-x:auto}
table{border-collapse:collapse;width:100%;font-variant-numeric:tabular-nums}
th,td{padding:7px 12px;text-align:right;border-bottom:1px solid var(--rule);white-space:nowrap}
th{font-weight:600;color:var(--soft);font-size:13px}
th:first-child,td:first-child{text-align:left;padding-left:0}
tr:last-child td{border-bottom:0}
td.best{font-weight:700}
.key{display:inline-flex;align-items:center;gap:6px;margin-right:16px;color:var(--ink);font-size:13px}
.key i{width:12px;height:12px;border-radius:3px;display:inline-block}
svg{display:block;width:100%;max-width:860px;height:auto;margin-top:6px}
svg text{font:12px system-ui,-apple-system,"Segoe UI",Roboto,sans-serif;fill:var(--soft)}
svg text.value{fill:var(--ink);font-weight:600}
.grid{stroke:var(--rule);stroke-width:1}.axis{stroke:var(--soft);stroke-width:1}
.mark{stroke:var(--ink);stroke-width:1.5}
.curve{fill:none;stroke-width:2.2;stroke-linejoin:round}
.queue{fill:var(--queue);background:var(--queue)}.cold{fill:var(--cold);background:var(--cold)}
.run{fill:var(--run);background:var(--run)}.rest{fill:var(--rest);background:var(--rest)}
)";

std::string colour_rules() {
  std::string css;
  for (size_t i = 0; i < kColours; ++i) {
    const std::string c = "c" + std::to_string(i);
    css += ".curve." + c + "{stroke:var(--" + c + ")}.bar." + c + "{fill:var(--" + c + ")}i." + c +
           "{background:var(--" + c + ")}\n";
  }
  return css;
}

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
                   .colour = "c" + std::to_string(i % kColours),
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

std::string section(const char* title, const char* what, const std::string& content) {
  if (content.empty()) return "";
  return std::string("<section><h2>") + title + "</h2><p>" + what + "</p>\n" + content +
         "</section>\n";
}

constexpr char kPartsLegend[] =
    "<div><span class=\"key\"><i class=\"queue\"></i>queue</span>"
    "<span class=\"key\"><i class=\"cold\"></i>cold start</span>"
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
  std::string html =
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n<title>" +
      markup_escape(title) + "</title>\n<style>" + kStyle + colour_rules() +
      "</style>\n</head>\n<body>\n<main>\n<h1>" + markup_escape(title) + "</h1>\n" + facts(all) +
      notes(all);
  html += section("By run", "Modelled seconds. The least of each column is bold.", table(all));
  html += "<div class=\"pair\">\n";
  html += section("Latency", "The share of invocations answered within a time.",
                  with_key(latency_chart(all)));
  const std::string breakdown = breakdown_chart(all);
  html += section("Where the time went", "The mean latency, cut into its parts.",
                  breakdown.empty() ? "" : kPartsLegend + breakdown);
  html += section("Device utilisation", "Over time, mean of the devices.",
                  with_key(utilisation_chart(all)));
  html += section("In flight", "Invocations sent and not yet answered, over time.",
                  with_key(in_flight_chart(all)));
  html += "</div>\n";
  html += section("By function", "The most invoked functions, those that run longest first.",
                  with_key(function_chart(all)));
  return html + "</main>\n</body>\n</html>\n";
}

}  // namespace lambent::workload
