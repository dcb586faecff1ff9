#include "emulator/emulated_node/machine.h"

#include "emulator/emulated_node/mig.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <set>
#include <sstream>
#include <string_view>
#include <utility>
#include <vector>

#define TOML_EXCEPTIONS 0
#include <toml++/toml.h>

namespace lambent::emulated_node {

// Generated at build time from presets/*.toml.
struct Preset {
  const char* name;
  const char* text;
};
extern const Preset kPresets[];
extern const int kPresetCount;

namespace {

// Takes required, positive numbers out of one table and notes the first mistake.
class Fields {
 public:
  Fields(const toml::table* table, std::string section, std::string* error)
      : table_(table), section_(std::move(section)), error_(error) {}

  double number(const char* key, bool zero_allowed = false) {
    known_.insert(key);
    auto value = table_ ? (*table_)[key].value<double>() : std::nullopt;
    if (!value || *value < 0 || (*value == 0 && !zero_allowed)) {
      fail(std::string(key) + (value ? " must be positive" : " is missing or not a number"));
      return 1;
    }
    return *value;
  }
  int32_t integer(const char* key, bool zero_allowed = false) {
    double value = number(key, zero_allowed);
    if (value > 2147483647.0) fail(std::string(key) + " is too large");
    return static_cast<int32_t>(value);
  }
  int32_t integer_or(const char* key, int32_t otherwise) {
    return table_ && table_->contains(key) ? integer(key) : otherwise;
  }
  bool flag(const char* key) {
    known_.insert(key);
    if (!table_ || !table_->contains(key)) return false;
    auto value = (*table_)[key].value_exact<bool>();
    if (!value) fail(std::string(key) + " must be true or false");
    return value.value_or(false);
  }
  // The strings of a list; a key that is absent is an empty one.
  std::vector<std::string> texts(const char* key) {
    known_.insert(key);
    std::vector<std::string> found;
    if (!table_ || !table_->contains(key)) return found;
    const toml::array* list = (*table_)[key].as_array();
    for (size_t i = 0; list && i < list->size(); i++) {
      if (auto value = (*list)[i].value<std::string>()) found.push_back(*value);
    }
    if (!list || found.size() != list->size()) {
      fail(std::string(key) + " must be a list of strings");
    }
    return found;
  }
  int64_t microseconds(const char* key) { return static_cast<int64_t>(number(key, true) * 1e3); }
  int64_t microseconds_or(const char* key, int64_t absent_ns) {
    return table_ && table_->contains(key) ? microseconds(key) : (known_.insert(key), absent_ns);
  }
  uint64_t mebibytes(const char* key) { return static_cast<uint64_t>(number(key, true) * 1048576); }
  std::string text(const char* key) {
    known_.insert(key);
    auto value = table_ ? (*table_)[key].value<std::string>() : std::nullopt;
    if (!value) fail(std::string(key) + " is missing");
    return value.value_or("");
  }
  // Pairs of numbers below `bound`.
  std::vector<std::pair<int, int>> pairs(const char* key, int bound) {
    known_.insert(key);
    std::vector<std::pair<int, int>> found;
    const toml::array* list = table_ ? (*table_)[key].as_array() : nullptr;
    if (!list) fail(std::string(key) + " is neither \"all\" nor a list of pairs");
    for (size_t i = 0; list && i < list->size(); i++) {
      const toml::array* pair = (*list)[i].as_array();
      int64_t a = pair && pair->size() == 2 ? (*pair)[0].value_or(int64_t{-1}) : -1;
      int64_t b = pair && pair->size() == 2 ? (*pair)[1].value_or(int64_t{-1}) : -1;
      bool good = a >= 0 && b >= 0 && a < bound && b < bound && a != b;
      if (!good) fail(std::string(key) + " has a pair that is not two devices");
      if (good) found.push_back({static_cast<int>(a), static_cast<int>(b)});
    }
    return found;
  }
  bool is(const char* key, const char* text) const {
    return table_ && (*table_)[key].value<std::string>() == text;
  }
  bool has(const char* key) const { return table_ && table_->contains(key); }
  void refuse_unknown() {
    if (!table_) return;
    for (const auto& [key, value] : *table_) {
      if (!known_.count(std::string(key.str()))) fail("unknown key " + std::string(key.str()));
    }
  }

  void fail(const std::string& what) {
    if (error_->empty()) *error_ = "[" + section_ + "] " + what;
  }

 private:
  const toml::table* table_;
  std::string section_;
  std::string* error_;
  std::set<std::string> known_;
};

void read_node(Fields node, NodeSpec* spec) {
  spec->device_count = node.integer("devices");
  spec->time_scale = node.number("time_scale");
  spec->memory_scale = node.number("memory_scale");
  spec->utilization_window_ns = node.microseconds("utilization_window_us");
  spec->mps = node.flag("mps");
  node.refuse_unknown();
}

void read_device(Fields device, DeviceSpec* spec) {
  std::string name = device.text("name");
  std::snprintf(spec->name, sizeof spec->name, "%s", name.c_str());
  spec->memory_bytes = device.mebibytes("memory_mib");
  spec->compute_major = device.integer("compute_major");
  spec->compute_minor = device.integer("compute_minor", true);
  spec->multiprocessors = device.integer("multiprocessors");
  spec->clock_khz = device.integer("clock_khz");
  spec->memory_clock_khz = device.integer("memory_clock_khz");
  spec->memory_bus_bits = device.integer("memory_bus_bits");
  spec->l2_bytes = static_cast<int32_t>(device.mebibytes("l2_mib"));
  spec->threads_per_multiprocessor = device.integer("threads_per_multiprocessor");
  spec->blocks_per_multiprocessor = device.integer("blocks_per_multiprocessor");
  spec->shared_bytes_per_multiprocessor = device.integer("shared_bytes_per_multiprocessor");
  spec->shared_bytes_per_block = device.integer("shared_bytes_per_block");
  spec->shared_bytes_per_block_optin = device.integer("shared_bytes_per_block_optin");
  spec->registers_per_multiprocessor = device.integer("registers_per_multiprocessor");
  spec->memory_bytes_per_s = device.number("memory_gb_per_s") * 1e9;
  spec->copy_engines = device.integer_or("copy_engines", 2);
  spec->integrated = device.flag("integrated");
  device.refuse_unknown();
}

// The whole section may be absent: the device has no MIG.
void read_mig(Fields fields, MigSpec* spec) {
  std::string name = fields.text("family");
  const MigFamily* family = find_mig_family(name);
  if (!family) return fields.fail("family '" + name + "' is not known");
  std::snprintf(spec->family, sizeof spec->family, "%s", family->name);
  spec->enabled = fields.flag("enabled");
  MigState trial{};
  trial.enabled = 1;
  for (const std::string& text : fields.texts("layout")) {
    Placement placement;
    int slot = 0;
    if (!parse_placement(*family, text, &placement)) {
      return fields.fail("layout: there is no instance '" + text + "'");
    }
    if (create_gpu_instance(*family, trial, placement.profile->id, placement.start, &slot) !=
        MigResult::kDone) {
      return fields.fail("layout: there is no room for '" + text + "'");
    }
    spec->instances[spec->instance_count++] = {placement.profile->id, placement.start};
  }
  if (spec->instance_count > 0 && !spec->enabled) fields.fail("a layout needs enabled = true");
  fields.refuse_unknown();
}

void read_link(Fields link, DeviceSpec* spec) {
  spec->host_to_device_bytes_per_s = link.number("host_to_device_gb_per_s") * 1e9;
  spec->device_to_host_bytes_per_s = link.number("device_to_host_gb_per_s") * 1e9;
  spec->pageable_factor = link.number("pageable_factor");
  spec->link_latency_ns = link.microseconds("latency_us");
  link.refuse_unknown();
}

void read_managed(Fields managed, DeviceSpec* spec) {
  spec->fault_ns = managed.microseconds("fault_us");
  spec->fault_bytes_per_s = managed.number("fault_gb_per_s") * 1e9;
  managed.refuse_unknown();
}

void read_costs(Fields cost, DeviceSpec* spec) {
  spec->init_ns = cost.microseconds("init_us");
  spec->context_ns = cost.microseconds("context_us");
  spec->module_load_ns = cost.microseconds("module_load_us");
  spec->allocation_ns = cost.microseconds("allocation_us");
  spec->launch_ns = cost.microseconds("launch_us");
  spec->graph_launch_ns = cost.microseconds_or("graph_launch_us", spec->launch_ns);
  spec->graph_node_ns = cost.microseconds_or("graph_node_us", spec->launch_ns / 20);
  spec->context_bytes = cost.mebibytes("context_mib");
  spec->allocation_granularity = static_cast<uint64_t>(cost.number("allocation_granularity_bytes"));
  spec->wave_ns = cost.microseconds("wave_us");
  spec->context_penalty = cost.number("context_penalty", true);
  cost.refuse_unknown();
}

// "0-3,8" as bits; 0 for what is no such list.
uint64_t processor_bits(const std::string& text) {
  uint64_t bits = 0;
  std::istringstream ranges(text);
  for (std::string range; std::getline(ranges, range, ',');) {
    unsigned first = 0, last = 0;
    char rest = 0;
    int read = std::sscanf(range.c_str(), "%2u-%2u%c", &first, &last, &rest);
    if (read == 1 && range.find_first_not_of("0123456789") == range.npos) last = first, read = 2;
    if (read != 2 || first > last || last > 63) return 0;
    for (unsigned processor = first; processor <= last; processor++) bits |= 1ull << processor;
  }
  return bits;
}

void read_topology(Fields fields, NodeSpec* spec) {
  Topology& topology = spec->topology;
  std::vector<std::string> processors = fields.texts("processors");
  bool one_each =
      processors.empty() || processors.size() == static_cast<size_t>(spec->device_count);
  if (!one_each) fields.fail("processors needs one list for each device");
  for (size_t i = 0; one_each && i < processors.size(); i++) {
    topology.processors[i] = processor_bits(processors[i]);
    if (!topology.processors[i]) {
      fields.fail("processors has '" + processors[i] + "', which is no list such as 0-3,8");
    }
  }
  topology.pcie_peers = fields.flag("pcie_peers");
  if (fields.has("nvlink")) {
    topology.nvlink_bytes_per_s = fields.number("nvlink_gb_per_s") * 1e9;
    topology.nvlink_latency_ns = fields.microseconds("nvlink_latency_us");
    std::vector<std::pair<int, int>> pairs;
    if (fields.is("nvlink", "all")) {
      fields.text("nvlink");
      for (int a = 0; a < spec->device_count; a++) {
        for (int b = 0; b < a; b++) pairs.push_back({a, b});
      }
    } else {
      pairs = fields.pairs("nvlink", spec->device_count);
    }
    for (auto [a, b] : pairs) {
      topology.nvlink_peers[a] |= uint64_t{1} << b;
      topology.nvlink_peers[b] |= uint64_t{1} << a;
    }
  }
  fields.refuse_unknown();
}

// The section may be absent.
void read_checkpoint(const toml::table& root, NodeSpec* spec, std::string* error) {
  spec->checkpoint_ns = 150'000'000;
  spec->checkpoint_bytes_per_s = 5e9;
  if (!root.contains("checkpoint")) return;
  Fields fields(root["checkpoint"].as_table(), "checkpoint", error);
  spec->checkpoint_ns = fields.microseconds("base_us");
  spec->checkpoint_bytes_per_s = fields.number("gb_per_s") * 1e9;
  fields.refuse_unknown();
}

bool check(const NodeSpec& spec, std::string* error) {
  if (spec.device_count > kMaxDevices) {
    *error = "[node] devices is over " + std::to_string(kMaxDevices);
  }
  uint64_t granularity = spec.device.allocation_granularity;
  if (granularity & (granularity - 1)) {
    *error = "[cost] allocation_granularity_bytes must be a power of two";
  }
  if (spec.device.context_bytes >= spec.device.memory_bytes) {
    *error = "[cost] context_mib leaves no device memory";
  }
  return error->empty();
}

const Preset* find_preset(const std::string& name) {
  const Preset* end = kPresets + kPresetCount;
  const Preset* found =
      std::find_if(kPresets, end, [&](const Preset& preset) { return name == preset.name; });
  return found == end ? nullptr : found;
}

// "PRESET-xN": N devices of a preset that has one.
bool read_several(const std::string& name, NodeSpec* spec, std::string* error) {
  const size_t mark = name.rfind("-x");
  const std::string count = mark == name.npos ? "" : name.substr(mark + 2);
  const Preset* preset = mark == name.npos ? nullptr : find_preset(name.substr(0, mark));
  const bool is_count = !count.empty() && count.size() <= 4 &&
                        count.find_first_not_of("0123456789") == count.npos && count[0] != '0';
  if (!preset || !is_count) {
    *error = "no preset is called '" + name + "'; there are " + preset_names();
    return false;
  }
  if (!parse_node_spec(preset->text, spec, error)) return false;
  if (spec->device_count != 1) {
    *error = "'" + name + "': " + preset->name + " has several devices already";
  } else if (std::stoi(count) > kMaxDevices) {
    *error = "'" + name + "': a node has at most " + std::to_string(kMaxDevices) + " devices";
  }
  spec->device_count = std::stoi(count);
  return error->empty();
}

}  // namespace

bool parse_node_spec(const std::string& text, NodeSpec* spec, std::string* error) {
  auto result = toml::parse(std::string_view(text));
  error->clear();
  if (!result) {
    std::ostringstream message;
    message << "line " << result.error().source().begin.line << ": "
            << result.error().description();
    *error = message.str();
    return false;
  }
  std::memset(static_cast<void*>(spec), 0, sizeof *spec);
  const toml::table& root = result.table();
  read_node(Fields(root["node"].as_table(), "node", error), spec);
  read_device(Fields(root["device"].as_table(), "device", error), &spec->device);
  read_link(Fields(root["link"].as_table(), "link", error), &spec->device);
  if (root.contains("topology") && spec->device_count <= kMaxDevices) {
    read_topology(Fields(root["topology"].as_table(), "topology", error), spec);
  }
  if (root.contains("managed")) {
    read_managed(Fields(root["managed"].as_table(), "managed", error), &spec->device);
  } else {  // half of what the link can do, and a latency as of its own
    spec->device.fault_ns = 4 * spec->device.link_latency_ns;
    spec->device.fault_bytes_per_s = spec->device.host_to_device_bytes_per_s / 2;
  }
  read_costs(Fields(root["cost"].as_table(), "cost", error), &spec->device);
  read_checkpoint(root, spec, error);
  if (root.contains("mig")) read_mig(Fields(root["mig"].as_table(), "mig", error), &spec->mig);
  return error->empty() && check(*spec, error);
}

std::string preset_names() {
  std::string names;
  for (int i = 0; i < kPresetCount; i++) names += kPresets[i].name + std::string(", ");
  return names + "and PRESET-xN for N devices of one, up to " + std::to_string(kMaxDevices);
}

bool read_node_spec(const std::string& name, NodeSpec* spec, std::string* error) {
  bool is_file = name.find('/') != std::string::npos || name.ends_with(".toml");
  if (!is_file) {
    if (const Preset* preset = find_preset(name)) return parse_node_spec(preset->text, spec, error);
    return read_several(name, spec, error);
  }
  std::ifstream file(name);
  std::stringstream text;
  text << file.rdbuf();
  if (!file) {
    *error = "cannot read " + name;
    return false;
  }
  if (parse_node_spec(text.str(), spec, error)) return true;
  *error = name + ": " + *error;
  return false;
}

}  // namespace lambent::emulated_node
