#include "edge/frontend/metrics_formats.h"
#include "edge/frontend/plain_text.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <map>
#include <optional>

#include "core/domain/version.h"

namespace lambent::frontend {
namespace {

constexpr std::string_view kTotal = "_total";

// Cuts off what stands before `separator`, and the separator.
std::string_view cut(std::string_view& text, char separator) {
  const size_t end = std::min(text.find(separator), text.size());
  const std::string_view part = text.substr(0, end);
  text.remove_prefix(std::min(end + 1, text.size()));
  return part;
}

// The q of a media range: 1 unless it is said, 0 if it is none.
double quality_of(std::string_view parameters) {
  while (!parameters.empty()) {
    const std::string_view one = trimmed(cut(parameters, ';'));
    if (!one.starts_with("q=")) continue;
    double value = 0;
    const auto [end, code] = std::from_chars(one.data() + 2, one.data() + one.size(), value);
    return code == std::errc() && std::isfinite(value) ? value : 0;
  }
  return 1;
}

// The value of a label, with its escapes undone; it begins behind its first quote, which `text`
// loses with it.
std::string label_value(std::string_view& text) {
  std::string value;
  while (!text.empty() && text.front() != '"') {
    if (text.front() == '\\' && text.size() > 1) text.remove_prefix(1);
    value += text.front();
    text.remove_prefix(1);
  }
  if (!text.empty()) text.remove_prefix(1);
  return value;
}

struct Sample {
  std::string_view name;
  std::map<std::string, std::string> labels;
  double value = 0;
};

std::optional<Sample> sample_of(std::string_view line) {
  Sample sample;
  const size_t end = line.find_first_of("{ ");
  if (end == std::string_view::npos || line.starts_with('#')) return std::nullopt;
  sample.name = line.substr(0, end);
  line.remove_prefix(end);
  if (line.starts_with('{')) {
    line.remove_prefix(1);
    while (!line.empty() && line.front() != '}') {
      const std::string name(trimmed(cut(line, '=')));
      if (line.empty() || line.front() != '"') return std::nullopt;
      line.remove_prefix(1);
      sample.labels[name] = label_value(line);
      if (line.starts_with(',')) line.remove_prefix(1);
    }
    if (line.empty()) return std::nullopt;
    line.remove_prefix(1);
  }
  line = trimmed(line);
  const auto [stop, code] = std::from_chars(line.data(), line.data() + line.size(), sample.value);
  if (code != std::errc()) return std::nullopt;
  return sample;
}

// In the quotes of a label, or of help.
std::string escaped(std::string_view text) {
  std::string made;
  for (const char c : text) {
    if (c == '"' || c == '\\') made += '\\';
    made += c == '\n' ? std::string("\\n") : std::string(1, c);
  }
  return made;
}

// What is added up of one model.
struct ModelCounts {
  double succeeded = 0, failed = 0, duration_s = 0, queue_s = 0;
};

void count(const Sample& sample, ModelCounts& counts) {
  if (sample.name == "lambent_invocations_total") {
    const auto outcome = sample.labels.find("outcome");
    const bool is_good = outcome != sample.labels.end() && outcome->second == "succeeded";
    (is_good ? counts.succeeded : counts.failed) += sample.value;
  } else if (sample.name == "lambent_invocation_duration_seconds_sum") {
    counts.duration_s += sample.value;
  } else if (sample.name == "lambent_queue_seconds_sum") {
    counts.queue_s += sample.value;
  }
}

struct Alias {
  std::string_view name;
  std::string_view help;
  double (*value)(const ModelCounts&);
};

constexpr double kMicroseconds = 1e6;
constexpr std::array<Alias, 7> kAliases = {{
    {"nv_inference_request_success", "Requests of a model that were answered, as Triton names it.",
     [](const ModelCounts& each) { return each.succeeded; }},
    {"nv_inference_request_failure", "Requests of a model that were not, as Triton names it.",
     [](const ModelCounts& each) { return each.failed; }},
    {"nv_inference_count", "Inferences of a model, one a request, as Triton names it.",
     [](const ModelCounts& each) { return each.succeeded; }},
    {"nv_inference_exec_count", "Executions of a model, one a request, as Triton names it.",
     [](const ModelCounts& each) { return each.succeeded; }},
    {"nv_inference_request_duration_us", "Time of a model's requests, as Triton names it.",
     [](const ModelCounts& each) { return each.duration_s * kMicroseconds; }},
    {"nv_inference_queue_duration_us", "Of that, in the queue, as Triton names it.",
     [](const ModelCounts& each) { return each.queue_s * kMicroseconds; }},
    {"nv_inference_compute_infer_duration_us",
     "Of that, all but the queue, starts included, as Triton names it.",
     [](const ModelCounts& each) {
       return std::max(0.0, each.duration_s - each.queue_s) * kMicroseconds;
     }},
}};

}  // namespace

bool wants_openmetrics(std::string_view accept) {
  double open = 0;
  double plain = 0;
  while (!accept.empty()) {
    std::string_view range = cut(accept, ',');
    const std::string_view type = trimmed(cut(range, ';'));
    const double quality = quality_of(range);
    if (type == "application/openmetrics-text") open = std::max(open, quality);
    if (type == "text/plain" || type == "text/*") plain = std::max(plain, quality);
  }
  return open > 0 && open >= plain;
}

std::string openmetrics_of(std::string_view text) {
  // A counter is known as one by its TYPE, which comes behind its HELP.
  std::string made;
  std::string help;
  while (!text.empty()) {
    std::string_view line = cut(text, '\n');
    if (line.starts_with("# HELP ")) {
      help = line.substr(7);
      continue;
    }
    if (!line.starts_with("# TYPE ")) {
      if (!line.empty() && !line.starts_with('#')) made += std::string(line) + "\n";
      continue;
    }
    line.remove_prefix(7);
    std::string_view name = cut(line, ' ');
    std::string_view type = line;
    if (type == "counter" && !name.ends_with(kTotal)) type = "unknown";
    if (type == "counter") name.remove_suffix(kTotal.size());
    made += "# TYPE " + std::string(name) + " " + std::string(type) + "\n";
    std::string_view what = help;
    cut(what, ' ');
    if (!what.empty()) made += "# HELP " + std::string(name) + " " + escaped(what) + "\n";
    help.clear();
  }
  return made + "# EOF\n";
}

std::string triton_metrics(std::string_view text,
                           const std::function<bool(const FunctionName&)>& is_model) {
  std::map<FunctionName, ModelCounts> models;
  std::map<FunctionName, bool> known;
  while (!text.empty()) {
    const auto sample = sample_of(cut(text, '\n'));
    if (!sample) continue;
    const auto function = sample->labels.find("function");
    const auto tenant = sample->labels.find("tenant");
    if (function == sample->labels.end() || tenant == sample->labels.end()) continue;
    uint32_t id = 0;
    std::from_chars(tenant->second.data(), tenant->second.data() + tenant->second.size(), id);
    const FunctionName name{TenantId{id}, function->second};
    const auto [asked, is_new] = known.try_emplace(name, false);
    if (is_new) asked->second = is_model(name);
    if (asked->second) count(*sample, models[name]);
  }
  std::string made;
  for (const Alias& alias : kAliases) {
    if (models.empty()) break;
    made += "# HELP " + std::string(alias.name) + " " + std::string(alias.help) + "\n# TYPE " +
            std::string(alias.name) + " counter\n";
    for (const auto& [name, counts] : models) {
      char value[48];
      std::snprintf(value, sizeof value, "%.17g", alias.value(counts));
      const QualifiedName parts = split_qualifier(name.name);
      const std::string version = parts.qualifier.empty() ? "1" : parts.qualifier;
      made += std::string(alias.name) + "{model=\"" + escaped(parts.name) + "\",tenant=\"" +
              std::to_string(name.tenant.value) + "\",version=\"" + escaped(version) + "\"} " +
              value + "\n";
    }
  }
  return made;
}

}  // namespace lambent::frontend
