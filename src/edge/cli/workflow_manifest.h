// The part of lambent.toml that describes a workflow: its [[component]] tables become the JSON of
// its graph. A pure function; used by parse_manifest.
#pragma once

#define TOML_EXCEPTIONS 0
#include <toml++/toml.h>

#include <map>
#include <string>

#include "core/base/result.h"

namespace lambent::cli {

// What the tables say.
struct WorkflowTables {
  // {"components": [...], "output": ...}; empty: there are no tables. Components with a package may
  // lack their function's name.
  std::string json;
  // Folders with a lambent.toml of their own, relative to the manifest, by component's number.
  std::map<size_t, std::string> packages;
};

// INVALID_ARGUMENT names file and line of what cannot be JSON, or is no table. What the words mean
// is not asked here.
Result<WorkflowTables> read_workflow_tables(const toml::table& root, const std::string& file);

}  // namespace lambent::cli
