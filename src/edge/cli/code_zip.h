// What is sent of a function's code: its folder with what is compiled and packed along, as a zip.
// Blocks; used by make_package, on its thread.
#pragma once

#include <string>

#include "core/base/result.h"
#include "edge/cli/deploy_options.h"
#include "edge/cli/manifest.h"

namespace lambent::cli {

// What the manifest is called in the folder of the code; empty if it is not right there.
std::string own_manifest(const std::string& code, const std::string& file);

// The code that `file`, the manifest, names, without the manifest.
Result<std::string> zip_of(const std::string& file, const Manifest& manifest,
                           const DeployOptions& options);
// What is left of a package whose files are in a volume: which packages its Python has.
Result<std::string> zip_without_weights(const Manifest& manifest, const std::string& folder);

}  // namespace lambent::cli
