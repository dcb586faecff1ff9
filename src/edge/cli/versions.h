// lambent publish, versions, alias, revisions and rollback: what a function was, and which of it
// serves.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "edge/cli/console.h"
#include "edge/cli/transport.h"

namespace lambent::cli {

struct PublishOptions {
  std::string function;
  std::optional<std::string> description;  // none: the function's
  std::optional<uint64_t> version;         // its number; none: the next one
};
int run_publish(Transport& transport, Console& console, const PublishOptions& options);
int run_versions_ls(Transport& transport, Console& console, const std::string& function);
// Goes on after a failure; the exit code is the first one's.
int run_versions_rm(Transport& transport, Console& console, const std::string& function,
                    const std::vector<std::string>& versions);

struct SetAliasOptions {
  std::string function;
  std::string alias;
  std::string version;
  std::string second;  // "4=0.1": version 4 gets a tenth; empty: none does
  std::string description;
};
int run_alias_set(Transport& transport, Console& console, const SetAliasOptions& options);
int run_alias_ls(Transport& transport, Console& console, const std::string& function);
int run_alias_rm(Transport& transport, Console& console, const std::string& function,
                 const std::string& alias);

int run_revisions(Transport& transport, Console& console, const std::string& function);
// `revision`: none: the one before the present one.
int run_rollback(Transport& transport, Console& console, const std::string& function,
                 std::optional<uint64_t> revision);

}  // namespace lambent::cli
