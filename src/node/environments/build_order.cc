#include "node/environments/build_order.h"

#include <nlohmann/json.hpp>

#include "core/base/json_text.h"
#include "node/environments/order_reader.h"

namespace lambent::environments {
namespace {

using nlohmann::json;

}  // namespace

std::string to_json(const BuildOrder& order) {
  return json_text(json{
      {"folder", order.folder},
      {"key", order.key},
      {"uv", order.uv},
      {"python", order.python},
      {"index", order.index},
      {"files", order.files},
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
  OrderReader reader(text);
  BuildOrder order;
  uint64_t timeout_ms = 0;
  reader.read("folder", order.folder);
  reader.read("key", order.key);
  reader.read("uv", order.uv);
  reader.read("python", order.python);
  reader.read("index", order.index);
  reader.read("files", order.files);
  reader.read("wheels", order.wheels);
  reader.read("offline", order.offline);
  reader.read("locked", order.locked);
  reader.read("requirements", order.requirements);
  reader.read("variables", order.variables);
  reader.read("most_bytes", order.most.count);
  reader.read("timeout_ms", timeout_ms);
  constexpr uint64_t kMostTimeoutMs = uint64_t{1} << 40;
  if (!reader.good() || timeout_ms > kMostTimeoutMs) {
    return Error{ErrorCode::kInvalidArgument, "this is not an order to build an environment"};
  }
  order.timeout = milliseconds(timeout_ms);
  return order;
}

std::string to_json(const BuildReport& report) {
  return json_text(json{{"bytes", report.size.count},
                        {"cache_bytes", report.cache.count},
                        {"packages", report.packages}});
}

Result<BuildReport> parse_build_report(std::string_view text) {
  OrderReader reader(text);
  BuildReport report;
  reader.read("bytes", report.size.count);
  reader.read("cache_bytes", report.cache.count);
  reader.read("packages", report.packages);
  if (!reader.good()) {
    return Error{ErrorCode::kInternal, "this is not a report of an environment that was built"};
  }
  return report;
}

}  // namespace lambent::environments
