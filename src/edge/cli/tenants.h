// lambent tenants: the teams that share a node, their weights and quotas. For the node's operator.
#pragma once

#include <string>
#include <vector>

#include "edge/cli/console.h"
#include "edge/cli/quota_words.h"
#include "edge/cli/transport.h"

namespace lambent::cli {

int run_tenants_ls(Transport& transport, Console& console);
int run_tenants_show(Transport& transport, Console& console, const std::string& name);
int run_tenants_create(Transport& transport, Console& console, const std::string& name,
                       const TenantSettings& settings);
// Changes what `settings` names, and nothing else.
int run_tenants_set(Transport& transport, Console& console, const std::string& name,
                    const TenantSettings& settings);
// Goes on after a failure; the exit code is the first one's.
int run_tenants_rm(Transport& transport, Console& console, const std::vector<std::string>& names);

}  // namespace lambent::cli
