#include "sim/simulator/simulated_tenants.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <optional>

#include "core/domain/function_limits.h"

namespace lambent::simulator {
namespace {

Error invalid(const std::string& what) { return Error{ErrorCode::kInvalidArgument, what}; }

std::vector<std::string> split(std::string_view text, char at) {
  std::vector<std::string> parts;
  for (;;) {
    const size_t end = text.find(at);
    parts.emplace_back(text.substr(0, end));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + 1);
  }
}

// A number that is `least` to `most`.
std::optional<double> number_in(std::string_view text, double least, double most) {
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number >= least && number <= most ? std::optional(number) : std::nullopt;
}

Result<void> set_amount(std::string_view key, const std::string& value,
                        dispatch::TenantChanged& tenant) {
  constexpr double kMostSeconds = 1e9;
  if (key == "gpu-memory" || key == "host-memory") {
    ASSIGN_OR_RETURN(const Bytes amount, parse_bytes(value));
    (key == "gpu-memory" ? tenant.gpu_memory : tenant.host_memory) = amount;
    return {};
  }
  const bool is_weight = key == "weight";
  const auto number = is_weight ? number_in(value, limits::kLeastWeight, limits::kMostWeight)
                                : number_in(value, 0, kMostSeconds);
  if (!number) return invalid("'" + value + "' is no " + std::string(key));
  if (is_weight) {
    tenant.weight = *number;
  } else if (key == "gpu-time") {
    tenant.gpu_time_per_hour = from_seconds(*number);
  } else {
    if (*number != static_cast<double>(static_cast<uint64_t>(*number))) {
      return invalid("'" + value + "' is no whole number (concurrency)");
    }
    tenant.concurrency = static_cast<uint64_t>(*number);
  }
  return {};
}

}  // namespace

Result<SimulatedTenant> parse_tenant(std::string_view text) {
  const std::vector<std::string> parts = split(text, ',');
  SimulatedTenant tenant{.name = parts[0], .changed = {}, .functions = {}};
  const std::string where = "tenant '" + tenant.name + "'";
  if (tenant.name.empty() || tenant.name.find('=') != std::string::npos) {
    return invalid("a tenant begins with its name: 'red,weight=3'");
  }
  for (size_t i = 1; i < parts.size(); ++i) {
    const size_t sign = parts[i].find('=');
    const std::string key = parts[i].substr(0, sign);
    const std::string value = sign == std::string::npos ? "" : parts[i].substr(sign + 1);
    constexpr std::string_view kAmounts[] = {"weight", "concurrency", "gpu-memory", "host-memory",
                                             "gpu-time"};
    if (key == "functions") {
      tenant.functions = split(value, '+');
    } else if (std::find(std::begin(kAmounts), std::end(kAmounts), key) != std::end(kAmounts)) {
      if (const auto set = set_amount(key, value, tenant.changed); !set.ok()) {
        return set.error().with_context(where);
      }
    } else {
      return invalid(where + ": '" + key +
                     "' is none of weight, concurrency, gpu-memory, host-memory, gpu-time and "
                     "functions");
    }
  }
  return tenant;
}

Result<std::vector<size_t>> tenants_of(const std::vector<std::string>& functions,
                                       const std::vector<SimulatedTenant>& tenants) {
  std::map<std::string, size_t> named;
  std::vector<size_t> others;
  for (size_t i = 0; i < tenants.size(); ++i) {
    if (tenants[i].functions.empty()) others.push_back(i);
    for (const std::string& function : tenants[i].functions) {
      if (std::find(functions.begin(), functions.end(), function) == functions.end()) {
        return invalid("tenant '" + tenants[i].name + "': the workload has no function '" +
                       function + "'");
      }
      if (!named.emplace(function, i).second) {
        return invalid("the function '" + function + "' is given to two tenants");
      }
    }
  }
  std::vector<size_t> tenant_of;
  size_t turn = 0;
  for (const std::string& function : functions) {
    if (const auto found = named.find(function); found != named.end()) {
      tenant_of.push_back(found->second);
      continue;
    }
    if (others.empty()) {
      return invalid("no tenant has the function '" + function +
                     "'; add one without functions=, which gets all that no tenant names");
    }
    tenant_of.push_back(others[turn++ % others.size()]);
  }
  return tenant_of;
}

}  // namespace lambent::simulator
