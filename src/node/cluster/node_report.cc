#include "node/cluster/node_report.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/base/json_text.h"

namespace lambent::cluster {
namespace {

using nlohmann::json;
using routing::Warmth;

// More would be a mistake, or would make every other node look idle.
constexpr uint64_t kMostSlots = 1U << 20;
constexpr uint64_t kMostUsed = uint64_t{1} << 62;
constexpr uint64_t kMostSilenceMs = 24 * 3600 * 1000;

Error invalid() {
  return {ErrorCode::kInvalidArgument, "what it reports of itself cannot be read"};
}

// What cannot be is not believed: functions would go there because of it.
Result<void> check(const NodeReport& report) {
  Bytes memory;
  Bytes largest;
  for (const GpuFacts& gpu : report.gpus) {
    memory += gpu.memory;
    largest = std::max(largest, gpu.memory);
  }
  if (report.memory_free > memory) {
    return Error{ErrorCode::kInvalidArgument, "it reports " + to_string(report.memory_free) +
                                                  " of free GPU memory, and its GPUs have " +
                                                  to_string(memory)};
  }
  const std::vector<Bytes> for_functions = report.gpus_for_functions();
  if (for_functions.size() > report.gpus.size()) {
    return Error{ErrorCode::kInvalidArgument, "it reports " + std::to_string(for_functions.size()) +
                                                  " GPUs for functions, and has " +
                                                  std::to_string(report.gpus.size())};
  }
  for (const Bytes each : for_functions) {
    if (each <= largest) continue;
    return Error{ErrorCode::kInvalidArgument, "it reports " + to_string(each) +
                                                  " for a function on one of its GPUs, and the "
                                                  "largest has " +
                                                  to_string(largest)};
  }
  return {};
}

bool read_number(const json& object, const char* key, uint64_t most, uint64_t& value) {
  const auto found = object.find(key);
  if (found == object.end() || !found->is_number_unsigned()) return false;
  value = found->get<uint64_t>();
  return value <= most;
}

bool read_gpus(const json& object, NodeReport& report) {
  const auto found = object.find("gpus");
  if (found == object.end() || !found->is_array() || found->size() > kMostGpus) return false;
  for (const json& each : *found) {
    uint64_t memory = 0;
    if (!each.is_object() || !read_number(each, "memory_bytes", UINT64_MAX / 2, memory)) {
      return false;
    }
    const auto name = each.find("name");
    if (name == each.end() || !name->is_string()) return false;
    report.gpus.push_back({name->get<std::string>(), Bytes(memory)});
  }
  return true;
}

// Of each GPU; there is such a list.
bool read_memory(const json& list, std::vector<Bytes>& memory) {
  if (!list.is_array() || list.size() > kMostGpus) return false;
  for (const json& each : list) {
    if (!each.is_number_unsigned() || each.get<uint64_t>() > UINT64_MAX / 2) return false;
    memory.emplace_back(each.get<uint64_t>());
  }
  return true;
}

// Programs before say nothing of either.
bool read_for_functions(const json& object, NodeReport& report) {
  const auto all = object.find("for_functions");
  if (all != object.end() && !read_memory(*all, report.for_functions.emplace())) return false;
  const auto lost = object.find("lost_for_functions");
  return lost == object.end() || read_memory(*lost, report.lost_for_functions);
}

json json_of(const std::vector<Bytes>& memory) {
  json list = json::array();
  for (const Bytes each : memory) list.push_back(each.count);
  return list;
}

// Programs before say nothing of it.
bool read_functions(const json& object, const char* key, std::vector<uint64_t>& functions,
                    size_t most = kMostFetched) {
  const auto found = object.find(key);
  if (found == object.end()) return true;
  if (!found->is_array() || found->size() > most) return false;
  for (const json& each : *found) {
    if (!each.is_number_unsigned()) return false;
    functions.push_back(each.get<uint64_t>());
  }
  std::sort(functions.begin(), functions.end());
  return true;
}

// Likewise.
bool read_slices(const json& object, NodeReport& report) {
  const auto found = object.find("slices");
  if (found == object.end()) return true;
  if (!found->is_array() || found->size() > kMostSlices) return false;
  for (const json& each : *found) {
    uint64_t processors = 0;
    uint64_t memory = 0;
    const bool is_slice = each.is_object() && each.contains("shape") && each["shape"].is_string() &&
                          read_number(each, "multiprocessors", UINT32_MAX, processors) &&
                          read_number(each, "memory_bytes", UINT64_MAX / 2, memory);
    if (!is_slice) return false;
    report.slices.push_back(
        {each["shape"].get<std::string>(), static_cast<unsigned>(processors), Bytes(memory)});
  }
  return true;
}

bool read_pipelines(const json& object, NodeReport& report) {
  if (!object.contains("pipelines")) return true;
  return read_functions(object, "pipelines", report.pipelines.emplace(), kMostPipelines) &&
         read_functions(object, "pipelines_later", report.pipelines_later, kMostPipelines);
}

json json_of(const std::vector<SliceShape>& slices) {
  json list = json::array();
  for (const SliceShape& slice : slices) {
    if (list.size() == kMostSlices) break;
    list.push_back({{"shape", slice.name},
                    {"multiprocessors", slice.multiprocessors},
                    {"memory_bytes", slice.memory.count}});
  }
  return list;
}

json json_of(const std::vector<uint64_t>& functions, size_t most = kMostFetched) {
  json list = json::array();
  for (const uint64_t function : functions) {
    if (list.size() == most) break;
    list.push_back(function);
  }
  return list;
}

bool is_true(const json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_boolean() && found->get<bool>();
}

bool read_revoked(const json& object, NodeReport& report) {
  const auto found = object.find("revoked");
  if (found == object.end()) return true;
  if (!found->is_array() || found->size() > kMostRevoked) return false;
  for (const json& each : *found) {
    if (!each.is_string() || each.get_ref<const std::string&>().size() > kTokenIdLength) {
      return false;
    }
    report.revoked.push_back(each.get<std::string>());
  }
  return true;
}

json json_of(const access::QuotaUse& use) { return {use.used, use.wanted}; }

json json_of(const TenantUse& use) {
  return {{"tenant", use.tenant},
          {"running", json_of(use.running)},
          {"gpu_memory", json_of(use.gpu_memory)},
          {"host_memory", json_of(use.host_memory)},
          {"requests", json_of(use.requests)},
          {"gpu_time_ns", static_cast<uint64_t>(use.gpu_time_in_hour.count())},
          {"objects", use.objects.count}};
}

bool read_use(const json& object, const char* key, access::QuotaUse& use) {
  const auto found = object.find(key);
  const bool is_pair = found != object.end() && found->is_array() && found->size() == 2 &&
                       (*found)[0].is_number_unsigned() && (*found)[1].is_number_unsigned();
  if (!is_pair) return false;
  use = {.used = (*found)[0].get<uint64_t>(), .wanted = (*found)[1].get<uint64_t>()};
  return use.used <= kMostUsed && use.wanted <= kMostUsed;
}

bool read_tenants(const json& object, NodeReport& report) {
  const auto found = object.find("tenants");
  if (found == object.end()) return true;
  if (!found->is_array() || found->size() > kMostTenantsTold) return false;
  for (const json& each : *found) {
    if (!each.is_object()) return false;
    const auto name = each.find("tenant");
    if (name == each.end() || !name->is_string()) return false;
    TenantUse& use = report.tenants.emplace_back();
    use.tenant = name->get<std::string>();
    uint64_t gpu_time = 0;
    uint64_t objects = 0;
    const bool is_use = read_use(each, "running", use.running) &&
                        read_use(each, "gpu_memory", use.gpu_memory) &&
                        read_use(each, "host_memory", use.host_memory) &&
                        read_use(each, "requests", use.requests) &&
                        read_number(each, "gpu_time_ns", kMostUsed, gpu_time) &&
                        read_number(each, "objects", kMostUsed, objects);
    if (!is_use) return false;
    use.gpu_time_in_hour = Duration(static_cast<int64_t>(gpu_time));
    use.objects = Bytes(objects);
  }
  return true;
}

bool read_warm(const json& object, NodeReport& report) {
  const auto found = object.find("warm");
  if (found == object.end() || !found->is_array() || found->size() > kMostWarm) return false;
  for (const json& each : *found) {
    const bool is_pair =
        each.is_array() && each.size() == 2 && each[0].is_number_unsigned() && each[1].is_boolean();
    if (!is_pair) return false;
    report.warm.emplace_back(each[0].get<uint64_t>(),
                             each[1].get<bool>() ? Warmth::kResident : Warmth::kSwappedOut);
  }
  std::sort(report.warm.begin(), report.warm.end());
  return true;
}

}  // namespace

std::vector<Bytes> NodeReport::gpus_for_functions() const {
  if (for_functions) return *for_functions;
  std::vector<Bytes> memory;
  for (const GpuFacts& gpu : gpus) memory.push_back(gpu.memory);
  return memory;
}

std::vector<Bytes> NodeReport::gpus_at_work() const {
  std::vector<Bytes> memory = gpus_for_functions();
  for (const Bytes lost : lost_for_functions) {
    const auto found = std::ranges::find(memory, lost);
    if (found != memory.end()) memory.erase(found);
  }
  return memory;
}

Warmth NodeReport::warmth(uint64_t function) const {
  // Of two entries of one function the better is the last.
  const auto after =
      std::upper_bound(warm.begin(), warm.end(), std::pair(function, Warmth::kResident));
  if (after != warm.begin() && std::prev(after)->first == function) return std::prev(after)->second;
  if (std::binary_search(absent.begin(), absent.end(), function)) return Warmth::kAbsent;
  const bool ran = std::binary_search(fetched.begin(), fetched.end(), function);
  return ran ? Warmth::kFetched : Warmth::kNone;
}

std::string to_json(const NodeReport& report) {
  json warm = json::array();
  for (const auto& [function, warmth] : report.warm) {
    if (warm.size() == kMostWarm) break;
    warm.push_back({function, warmth == Warmth::kResident});
  }
  json revoked = json::array();
  for (const std::string& token : report.revoked) {
    if (revoked.size() == kMostRevoked) break;
    revoked.push_back(token);
  }
  json tenants = json::array();
  for (const TenantUse& use : report.tenants) {
    if (tenants.size() == kMostTenantsTold) break;
    tenants.push_back(json_of(use));
  }
  json gpus = json::array();
  for (const GpuFacts& gpu : report.gpus) {
    gpus.push_back({{"name", gpu.name}, {"memory_bytes", gpu.memory.count}});
  }
  json object{{"node", report.node},
              {"version", report.version},
              {"life", report.life},
              {"takes_work", report.takes_work},
              {"shares_objects", report.shares_objects},
              {"shares_versions", report.shares_versions},
              {"tells_not_begun", report.tells_not_begun},
              {"slots", report.slots},
              {"load", report.load},
              {"memory_free", report.memory_free.count},
              {"gpus", std::move(gpus)},
              {"slices", json_of(report.slices)},
              {"warm", std::move(warm)},
              {"fetched", json_of(report.fetched)},
              {"absent", json_of(report.absent)},
              {"revoked", std::move(revoked)},
              {"tenants", std::move(tenants)}};
  if (report.pipelines) {
    object["pipelines"] = json_of(*report.pipelines, kMostPipelines);
    object["pipelines_later"] = json_of(report.pipelines_later, kMostPipelines);
  }
  if (report.for_functions) object["for_functions"] = json_of(*report.for_functions);
  if (!report.lost_for_functions.empty()) {
    object["lost_for_functions"] = json_of(report.lost_for_functions);
  }
  if (report.silence > Duration::zero()) {
    object["silence_ms"] = static_cast<uint64_t>(report.silence / milliseconds(1));
  }
  return json_text(object);
}

std::string version_in_report(std::string_view text) {
  const json object = json::parse(text, nullptr, false);
  if (!object.is_object()) return "";
  const auto version = object.find("version");
  return version != object.end() && version->is_string() ? version->get<std::string>() : "";
}

Result<NodeReport> parse_report(std::string_view text) {
  const json object = json::parse(text, nullptr, false);
  if (!object.is_object()) return invalid();
  NodeReport report;
  uint64_t slots = 0;
  uint64_t load = 0;
  uint64_t memory = 0;
  const bool has_numbers = read_number(object, "slots", kMostSlots, slots) &&
                           read_number(object, "load", UINT32_MAX, load) &&
                           read_number(object, "memory_free", UINT64_MAX / 2, memory);
  if (!has_numbers || slots == 0) return invalid();
  const auto takes_work = object.find("takes_work");
  const auto node = object.find("node");
  const auto version = object.find("version");
  if (takes_work == object.end() || !takes_work->is_boolean()) return invalid();
  if (node == object.end() || !node->is_string()) return invalid();
  if (version == object.end() || !version->is_string()) return invalid();
  if (!read_warm(object, report)) return invalid();
  if (!read_functions(object, "fetched", report.fetched)) return invalid();
  if (!read_functions(object, "absent", report.absent)) return invalid();
  if (!read_revoked(object, report) || !read_gpus(object, report)) return invalid();
  if (!read_for_functions(object, report) || !read_slices(object, report)) return invalid();
  if (!read_pipelines(object, report)) return invalid();
  if (!read_tenants(object, report)) return invalid();
  report.node = node->get<std::string>();
  report.version = version->get<std::string>();
  if (const auto life = object.find("life"); life != object.end() && life->is_string()) {
    report.life = life->get<std::string>();
  }
  report.takes_work = takes_work->get<bool>();
  uint64_t silence = 0;
  const bool is_silence =
      !object.contains("silence_ms") || read_number(object, "silence_ms", kMostSilenceMs, silence);
  if (!is_silence) return invalid();
  report.silence = milliseconds(static_cast<int64_t>(silence));
  report.shares_objects = is_true(object, "shares_objects");
  report.shares_versions = is_true(object, "shares_versions");
  report.tells_not_begun = is_true(object, "tells_not_begun");
  report.slots = static_cast<uint32_t>(slots);
  report.load = static_cast<uint32_t>(load);
  report.memory_free = Bytes(memory);
  RETURN_IF_ERROR(check(report));
  return report;
}

}  // namespace lambent::cluster
