#include "core/domain/tenant.h"

#include <algorithm>
#include <cmath>

#include "core/domain/function_limits.h"
#include "core/domain/limits.h"

namespace lambent {
namespace {

Error invalid(const std::string& what) { return Error{ErrorCode::kInvalidArgument, what}; }

bool is_name_character(char c) {
  return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-';
}

Result<void> validate_name(const std::string& name) {
  if (name.empty() || name.size() > limits::kTenantNameLength) {
    return invalid("the tenant name must have 1 to " + std::to_string(limits::kTenantNameLength) +
                   " characters");
  }
  if (!std::all_of(name.begin(), name.end(), is_name_character) || name.front() == '-') {
    return invalid(
        "the tenant name may have only lower-case letters, digits and '-', and does not begin "
        "with '-'");
  }
  return {};
}

}  // namespace

Result<void> validate(const Tenant& tenant) {
  RETURN_IF_ERROR(validate_name(tenant.name));
  // Not in this interval either: what is not a number.
  if (!(tenant.weight >= limits::kLeastWeight && tenant.weight <= limits::kMostWeight)) {
    return invalid("the weight must be 0.01 to 1000");
  }
  const TenantQuotas& quotas = tenant.quotas;
  if (quotas.gpu_time_per_hour && *quotas.gpu_time_per_hour < Duration(0)) {
    return invalid("gpu_time_per_hour must not be negative");
  }
  if (quotas.requests_per_second &&
      !(*quotas.requests_per_second > 0 && *quotas.requests_per_second <= 1e6)) {
    return invalid("requests_per_second must be above 0 and at most 1000000");
  }
  return {};
}

}  // namespace lambent
