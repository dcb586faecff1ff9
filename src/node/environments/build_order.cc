#include "node/environments/build_order.h"

#include <nlohmann/json.hpp>

namespace lambent::environments {
namespace {

using nlohmann::json;

// Reads members and remembers whether one was missing or of another type.
class Reader {
 public:
  explicit Reader(std::string_view text) : object_(json::parse(text, nullptr, false)) {}

  void read(const char* key, std::string& to) {
    const json* value = find(key);
    if (value != nullptr && value->is_string()) {
      to = value->get<std::string>();
    } else {
      good_ = false;
    }
  }
  void read(const char* key, bool& to) {
    const json* value = find(key);
    if (value != nullptr && value->is_boolean()) {
      to = value->get<bool>();
    } else {
      good_ = false;
    }
  }
  void read(const char* key, uint64_t& to) {
    const json* value = find(key);
    if (value != nullptr && value->is_number_unsigned()) {
      to = value->get<uint64_t>();
    } else {
      good_ = false;
    }
  }
  void read(const char* key, std::vector<std::string>& to) {
    const json* value = find(key);
    if (value == nullptr || !value->is_array()) {
      good_ = false;
      return;
    }
    for (const json& one : *value) {
      if (!one.is_string()) {
        good_ = false;
        return;
      }
      to.push_back(one.get<std::string>());
    }
  }
  bool good() const { return good_; }

 private:
  const json* find(const char* key) const {
    if (!object_.is_object()) return nullptr;
    const auto found = object_.find(key);
    return found == object_.end() ? nullptr : &*found;
  }

  const json object_;
  bool good_ = true;
};

std::string text_of(const json& object) {
  return object.dump(-1, ' ', false, json::error_handler_t::replace);
}

}  // namespace

std::string to_json(const BuildOrder& order) {
  return text_of(
      {{"folder", order.folder},
       {"key", order.key},
       {"uv", order.uv},
       {"python", order.python},
       {"index", order.index},
       {"wheels", order.wheels},
       {"offline", order.offline},
       {"locked", order.locked},
       {"requirements", order.requirements},
       {"variables", order.variables},
       {"most_bytes", order.most.count},
       {"timeout_ms",
        static_cast<uint64_t>(std::chrono::duration_cast<milliseconds>(order.timeout).count())}});
}

Result<BuildOrder> parse_build_order(std::string_view text) {
  Reader reader(text);
  BuildOrder order;
  uint64_t timeout_ms = 0;
  reader.read("folder", order.folder);
  reader.read("key", order.key);
  reader.read("uv", order.uv);
  reader.read("python", order.python);
  reader.read("index", order.index);
  reader.read("wheels", order.wheels);
  reader.read("offline", order.offline);
  reader.read("locked", order.locked);
  reader.read("requirements", order.requirements);
  reader.read("variables", order.variables);
  reader.read("most_bytes", order.most.count);
  reader.read("timeout_ms", timeout_ms);
  constexpr uint64_t kMostTimeoutMs = uint64_t{1} << 40;
  if (!reader.good() || timeout_ms > kMostTimeoutMs) {
    return Error{ErrorCode::kInvalidArgument, "this is no order to build an environment"};
  }
  order.timeout = milliseconds(timeout_ms);
  return order;
}

std::string to_json(const BuildReport& report) {
  return text_of({{"bytes", report.size.count},
                  {"cache_bytes", report.cache.count},
                  {"packages", report.packages}});
}

Result<BuildReport> parse_build_report(std::string_view text) {
  Reader reader(text);
  BuildReport report;
  reader.read("bytes", report.size.count);
  reader.read("cache_bytes", report.cache.count);
  reader.read("packages", report.packages);
  if (!reader.good()) {
    return Error{ErrorCode::kInternal, "this is no report of an environment that was built"};
  }
  return report;
}

}  // namespace lambent::environments
