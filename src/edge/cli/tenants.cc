#include "edge/cli/tenants.h"

#include <utility>

#include "core/http/message.h"
#include "edge/cli/api_json.h"
#include "edge/cli/text_table.h"

namespace lambent::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kTenants = "/v1/tenants";

std::string target_of(const std::string& name) {
  return std::string(kTenants) + "/" + http::percent_encode(name);
}

Json quotas_of(const Json& tenant) {
  return tenant.contains("quotas") && tenant["quotas"].is_object() ? tenant["quotas"]
                                                                   : Json::object();
}

std::string weight_of(const Json& tenant) {
  return tenant.contains("weight") ? tenant["weight"].dump() : "-";
}

// All pages as one list.
Result<Json> all_tenants(Transport& transport) {
  Json all = Json::array();
  std::string after;
  while (true) {
    const std::string query = after.empty() ? "" : "?after=" + http::percent_encode(after);
    ASSIGN_OR_RETURN(Json page, ask_json(transport, "GET", kTenants + query));
    if (!page.contains("tenants") || !page["tenants"].is_array()) return not_a_worker(kTenants);
    for (Json& tenant : page["tenants"]) all.push_back(std::move(tenant));
    if (!page.contains("next") || !page["next"].is_string()) return all;
    // Pages are in order of the names, so that one which does not go on would never end.
    std::string next = page["next"].get<std::string>();
    if (next <= after) return not_a_worker(kTenants);
    after = std::move(next);
  }
}

int show(Console& console, const Result<Json>& tenant) {
  if (!tenant.ok()) return fail(console, tenant.error());
  if (console.json) {
    console.out << tenant->dump(2) << "\n";
    return 0;
  }
  TextTable table({"TENANT", tenant->value("name", "-")});
  table.add({"weight", weight_of(*tenant)});
  table.add({"created", date_text(tenant->value("created_at", 0.0))});
  const Json quotas = quotas_of(*tenant);
  for (const QuotaWord& quota : quota_words()) {
    const std::string text = quota_text(quota, quotas.value(quota.key, Json()));
    // As its flag calls it.
    table.add({std::string(quota.flag).substr(2), text == "-" ? "no quota" : text});
  }
  console.out << table.str();
  return 0;
}

}  // namespace

int run_tenants_ls(Transport& transport, Console& console) {
  const auto tenants = all_tenants(transport);
  if (!tenants.ok()) return fail(console, tenants.error());
  if (console.json) {
    console.out << Json{{"tenants", *tenants}}.dump(2) << "\n";
    return 0;
  }
  std::vector<std::string> titles = {"NAME", ">WEIGHT"};
  for (const QuotaWord& quota : quota_words()) titles.push_back(std::string(">") + quota.title);
  TextTable table(std::move(titles));
  for (const Json& tenant : *tenants) {
    const Json quotas = quotas_of(tenant);
    std::vector<std::string> row = {tenant.value("name", "-"), weight_of(tenant)};
    for (const QuotaWord& quota : quota_words()) {
      row.push_back(quota_text(quota, quotas.value(quota.key, Json())));
    }
    table.add(std::move(row));
  }
  console.out << table.str();
  return 0;
}

int run_tenants_show(Transport& transport, Console& console, const std::string& name) {
  return show(console, ask_json(transport, "GET", target_of(name)));
}

int run_tenants_create(Transport& transport, Console& console, const std::string& name,
                       const TenantSettings& settings) {
  auto body = json_of(settings);
  if (!body.ok()) return fail(console, body.error());
  (*body)["name"] = name;
  return show(console, ask_json(transport, "POST", kTenants, &*body));
}

int run_tenants_set(Transport& transport, Console& console, const std::string& name,
                    const TenantSettings& settings) {
  const auto body = json_of(settings);
  if (!body.ok()) return fail(console, body.error());
  if (body->empty()) {
    return fail(console, {ErrorCode::kInvalidArgument,
                          "nothing to set: name a weight or a quota, such as --functions 20"});
  }
  return show(console, ask_json(transport, "PATCH", target_of(name), &*body));
}

int run_tenants_rm(Transport& transport, Console& console, const std::vector<std::string>& names) {
  Json removed = Json::array();
  int exit_code = 0;
  for (const std::string& name : names) {
    const auto answer = ask_json(transport, "DELETE", target_of(name));
    if (answer.ok()) {
      removed.push_back(name);
      if (!console.json) console.out << "removed " << name << "\n";
      continue;
    }
    const int failed = fail(console, answer.error().with_context("removing " + name));
    if (exit_code == 0) exit_code = failed;
  }
  if (console.json) console.out << Json{{"removed", removed}}.dump(2) << "\n";
  return exit_code;
}

}  // namespace lambent::cli
