// What the environment and the user's files say of how models are fetched. Used by the command's
// main; blocks.
#pragma once

#include "core/base/result.h"
#include "edge/cli/model_fetch.h"

namespace lambent::bin {

// AWS_ENDPOINT_URL_S3 or AWS_ENDPOINT_URL, AWS_REGION or AWS_DEFAULT_REGION, AWS_ACCESS_KEY_ID,
// AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN; keys and a region that are not there are those of a
// profile of AWS's files (AWS_PROFILE). No keys: requests are not signed. FAILED_PRECONDITION:
// AWS_PROFILE names one that is not there.
Result<cli::S3Access> default_s3_access();
// As curl reads http_proxy, https_proxy, all_proxy and no_proxy; those but the first in capitals as
// well.
cli::ProxySettings default_proxies();

}  // namespace lambent::bin
