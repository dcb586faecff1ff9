#include "sim/workload/node_profile.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#define TOML_EXCEPTIONS 0
#include <toml++/toml.h>

namespace lambent::workload {
namespace {

constexpr int64_t kFormat = 2;

std::string number_text(double value) {
  char text[40];
  std::snprintf(text, sizeof(text), "%.6g", value);
  // TOML tells floats from integers; both are read.
  return text;
}

// Reads the keys of one table and notes the first thing that is wrong.
class Section {
 public:
  Section(const toml::table& root, std::string name, std::string& wrong)
      : name_(std::move(name)), wrong_(wrong), table_(root[name_].as_table()) {
    if (table_ == nullptr) note("there is no table [" + name_ + "]", {});
  }
  ~Section() {
    if (table_ == nullptr) return;
    for (const auto& [key, node] : *table_) {
      if (std::find(read_.begin(), read_.end(), std::string(key.str())) == read_.end()) {
        note("'" + name_ + "." + std::string(key.str()) + "' is not a key of a profile",
             node.source());
      }
    }
  }
  Section(const Section&) = delete;
  Section& operator=(const Section&) = delete;

  double number(const char* key, double least, double most) {
    const toml::node* node = find(key);
    if (node == nullptr) return least;
    const auto value = node->is_number() ? node->value<double>() : std::nullopt;
    // Written so that NaN fails too.
    if (!value || !(*value >= least && *value <= most)) {
      note("'" + path(key) + "' is not a number from " + number_text(least) + " to " +
               number_text(most),
           node->source());
      return least;
    }
    return *value;
  }
  std::string text(const char* key) {
    const toml::node* node = find(key);
    if (node == nullptr) return "";
    const auto value = node->value_exact<std::string>();
    if (!value) note("'" + path(key) + "' is not text", node->source());
    return value.value_or("");
  }
  bool flag(const char* key) {
    const toml::node* node = find(key);
    if (node == nullptr) return false;
    const auto value = node->value_exact<bool>();
    if (!value) note("'" + path(key) + "' is neither true nor false", node->source());
    return value.value_or(false);
  }
  std::vector<double> factors(const char* key) {
    const toml::node* node = find(key);
    if (node == nullptr) return {};
    std::vector<double> all;
    const toml::array* array = node->as_array();
    for (size_t i = 0; array != nullptr && i < array->size(); ++i) {
      const auto value = (*array)[i].is_number() ? (*array)[i].value<double>() : std::nullopt;
      if (!value || !(*value >= 0.01 && *value <= 1e6)) {
        array = nullptr;
        break;
      }
      all.push_back(*value);
    }
    if (array == nullptr || all.empty() || all.size() > 1024) {
      note("'" + path(key) + "' is not a list of 1 to 1024 numbers above 0.01", node->source());
      return {};
    }
    return all;
  }

 private:
  std::string path(const char* key) const { return name_ + "." + key; }
  const toml::node* find(const char* key) {
    if (table_ == nullptr) return nullptr;
    read_.emplace_back(key);
    const toml::node* node = table_->get(key);
    if (node == nullptr) note("'" + path(key) + "' is missing", table_->source());
    return node;
  }
  void note(const std::string& what, const toml::source_region& where) {
    if (!wrong_.empty()) return;
    wrong_ = (where.begin.line > 0 ? "line " + std::to_string(where.begin.line) + ": " : "") + what;
  }

  std::string name_;
  std::string& wrong_;
  const toml::table* table_;
  std::vector<std::string> read_;
};

bool is_plain(char c) { return c >= 0x20 && c < 0x7f; }

std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += is_plain(c) ? c : ' ';
  }
  return out + "\"";
}

}  // namespace

std::string text_of(const NodeProfile& profile) {
  std::string factors;
  for (const double factor : profile.contention) {
    factors += (factors.empty() ? "" : ", ") + number_text(factor);
  }
  return "# A node as 'lambent calibrate' measured it; for 'lambent simulate --profile'.\n"
         "# Times are modelled: real ones times the time scale.\n"
         "format = " +
         std::to_string(kFormat) +
         "\n\n[node]\n"
         "gpu = " +
         quoted(profile.gpu) +
         "\n"
         "emulated = " +
         (profile.emulated ? "true" : "false") +
         "\n"
         "time_scale = " +
         number_text(profile.time_scale) +
         "\n"
         "devices = " +
         std::to_string(profile.devices) +
         "\n"
         "device_memory_mib = " +
         number_text(static_cast<double>(profile.device_memory.count) / (1 << 20)) +
         "\n"
         "context_memory_mib = " +
         number_text(static_cast<double>(profile.context_memory.count) / (1 << 20)) +
         "\n"
         "\n[start] # of a native function\n"
         "sandbox_ms = " +
         number_text(profile.sandbox_s * 1e3) +
         "\n"
         "init_floor_ms = " +
         number_text(profile.init_floor_s * 1e3) +
         " # to open the device, if the function does nothing else\n"
         "init_overhead_ms = " +
         number_text(profile.init_overhead_s * 1e3) +
         " # beyond what the function does\n"
         "stop_ms = " +
         number_text(profile.stop_s * 1e3) +
         "\n"
         "\n[run] # of a warm invocation, beyond what it does\n"
         "overhead_ms = " +
         number_text(profile.run_overhead_s * 1e3) +
         " # while it holds its place on the device\n"
         "request_overhead_ms = " +
         number_text(profile.request_overhead_s * 1e3) +
         " # between client and worker\n"
         "\n[contention]\n"
         "factors = [" +
         factors +
         "] # times as long with 1, 2, ... at work\n"
         "\n[link] # as memory moves\n"
         "host_to_device_gb_per_s = " +
         number_text(profile.host_to_device_bytes_per_s * 1e-9) +
         "\n"
         "device_to_host_gb_per_s = " +
         number_text(profile.device_to_host_bytes_per_s * 1e-9) +
         "\n"
         "first_out_ms_per_gib = " +
         number_text(profile.first_out_s_per_gib * 1e3) +
         " # so much longer the first move of a sandbox off its device\n";
}

Result<NodeProfile> parse_profile(std::string_view text, const std::string& file) {
  const auto bad = [&](const std::string& why) {
    return Error{ErrorCode::kInvalidArgument,
                 file + ": " + why + "; 'lambent calibrate' writes a new one"};
  };
  // toml++ assumes of some letters beyond ASCII what does not hold; no key or value here has any.
  size_t line = 1;
  for (const char c : text) {
    if (c == '\n') {
      ++line;
    } else if (!is_plain(c) && c != '\t' && c != '\r') {
      return bad("line " + std::to_string(line) + ": a character that is not plain ASCII");
    }
  }
  const toml::parse_result parsed = toml::parse(text);
  if (!parsed) {
    return bad("line " + std::to_string(parsed.error().source().begin.line) + ": " +
               std::string(parsed.error().description()));
  }
  const toml::table& root = parsed.table();
  if (root["format"].value<int64_t>() != kFormat) {
    return bad("not a profile of this version");
  }
  NodeProfile profile;
  std::string wrong;
  {
    constexpr double kLongestMs = 1e9;
    Section node(root, "node", wrong);
    profile.gpu = node.text("gpu");
    profile.emulated = node.flag("emulated");
    profile.time_scale = node.number("time_scale", 1e-6, 1e6);
    profile.devices = static_cast<unsigned>(node.number("devices", 1, 4096));
    const auto bytes = [&](const char* key) {
      return Bytes(static_cast<uint64_t>(std::llround(node.number(key, 0, 1e9) * (1 << 20))));
    };
    profile.device_memory = bytes("device_memory_mib");
    profile.context_memory = bytes("context_memory_mib");
    Section start(root, "start", wrong);
    profile.sandbox_s = start.number("sandbox_ms", 0, kLongestMs) * 1e-3;
    profile.init_floor_s = start.number("init_floor_ms", 0, kLongestMs) * 1e-3;
    profile.init_overhead_s = start.number("init_overhead_ms", 0, kLongestMs) * 1e-3;
    profile.stop_s = start.number("stop_ms", 0, kLongestMs) * 1e-3;
    Section run(root, "run", wrong);
    profile.run_overhead_s = run.number("overhead_ms", 0, kLongestMs) * 1e-3;
    profile.request_overhead_s = run.number("request_overhead_ms", 0, kLongestMs) * 1e-3;
    Section contention(root, "contention", wrong);
    profile.contention = contention.factors("factors");
    Section link(root, "link", wrong);
    profile.host_to_device_bytes_per_s = link.number("host_to_device_gb_per_s", 1e-6, 1e6) * 1e9;
    profile.device_to_host_bytes_per_s = link.number("device_to_host_gb_per_s", 1e-6, 1e6) * 1e9;
    profile.first_out_s_per_gib = link.number("first_out_ms_per_gib", 0, kLongestMs) * 1e-3;
  }
  if (!wrong.empty()) return bad(wrong);
  return profile;
}

}  // namespace lambent::workload
