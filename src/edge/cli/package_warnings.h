// What is told of a folder that is deployed, as it may surprise: a manifest that is not there, a
// handler without its module, a reference that is none. Reads folders; used by make_package.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "edge/cli/manifest.h"

namespace lambent::cli {

// Of a path without a manifest: what it holds instead, and what could be done.
std::string where_manifests_are(const std::string& path);
// Of a file that is neither a manifest nor a model.
Error not_deployable(const std::string& path);

// A reference within a text is none, which is easily overlooked. `place` is what lies above the
// value, or "FILE: " of the whole graph.
void warn_of_inner_references(const nlohmann::ordered_json& value, const std::string& place,
                              std::vector<std::string>& warnings);
// What an invocation would fail for is better told now; but a handler may come from elsewhere, such
// as from Python's own library.
void warn_of_missing_code(const std::string& code, const std::string& file, Manifest& manifest);

}  // namespace lambent::cli
