// pull_image(): fetches one image with skopeo and unpacks it with umoci, behind walls, in a folder
// of its own, and moves it to its place when it is whole. Blocks; used by lambent-environment.
#pragma once

#include <functional>
#include <string_view>

#include "core/base/result.h"
#include "node/environments/confined_program.h"
#include "node/images/pull_order.h"

namespace lambent::images {

// Where things lie in the folder of all images.
inline constexpr char kReadyFolder[] = "ready";  // one folder for each image, by key_of()
inline constexpr char kWorkFolder[] = "work";    // pulls under way
inline constexpr char kReportFile[] = "report.json";
inline constexpr char kLayoutFolder[] =
    "layout";  // in ready/KEY: its blobs, for other nodes and images
inline constexpr char kLayoutTag[] = "image";
inline constexpr char kRootFolder[] = "root";  // in ready/KEY: what sandboxes have as "/"

// `tell` gets what happens, in words. Errors as pull_failure(); DEADLINE_EXCEEDED; INVALID_ARGUMENT
// also where it is too large, or another image than the order's digest says.
Result<PulledImage> pull_image(const environments::Walls& walls, const PullOrder& order,
                               const std::function<void(std::string_view)>& tell);

}  // namespace lambent::images
