#include "edge/frontend/model_directory.h"

#include <algorithm>
#include <utility>

#include "core/domain/openai_models.h"
#include "core/domain/version.h"

namespace lambent::frontend {
namespace {

constexpr size_t kPage = 1'000;
constexpr Duration kReadFor = seconds(1);

}  // namespace

std::optional<std::string> ModelDirectory::function_for(TenantId tenant, const std::string& model) {
  const auto known = read_.find(tenant);
  if (known != read_.end() && clock_.now() - known->second.at < kReadFor) {
    const auto found = known->second.functions.find(model);
    if (found != known->second.functions.end() && serves(tenant, found->second, model)) {
      return found->second;
    }
  }
  const Functions& functions = read(tenant);
  const auto found = functions.find(model);
  return found == functions.end() ? std::nullopt : std::optional(found->second);
}

std::vector<ServedModel> ModelDirectory::list(TenantId tenant) const {
  std::map<std::string, ServedModel> served;
  std::string after;
  for (;;) {
    const auto page = service_.list_functions(tenant, after, kPage);
    for (const FunctionSpec& spec : page) {
      if (is_version_record(spec.name)) continue;
      for (std::string& model : openai_models(spec)) {
        ServedModel& last = served[model];
        if (!last.model.empty() && last.since > spec.last_modified) continue;
        last = {std::move(model), spec.name.name, spec.last_modified};
      }
    }
    if (page.size() < kPage) break;
    after = page.back().name.name;
  }
  std::vector<ServedModel> models;
  for (auto& [name, model] : served) models.push_back(std::move(model));
  return models;
}

const ModelDirectory::Functions& ModelDirectory::read(TenantId tenant) {
  Read& read = read_[tenant];
  read.at = clock_.now();
  read.functions.clear();
  for (ServedModel& each : list(tenant)) {
    read.functions.emplace(std::move(each.model), std::move(each.function));
  }
  return read.functions;
}

bool ModelDirectory::serves(TenantId tenant, const std::string& function,
                            const std::string& model) const {
  const auto spec = service_.find_function({tenant, function});
  if (!spec.ok()) return false;
  const auto models = openai_models(*spec);
  return std::find(models.begin(), models.end(), model) != models.end();
}

}  // namespace lambent::frontend
