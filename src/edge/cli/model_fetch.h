// Fetches models by URL: one that was cut off goes on where it was, also in the next run. A file
// and those that it keeps its tensors in. Blocks; used by deploy, on its thread.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "core/base/result.h"
#include "core/base/time.h"
#include "core/base/units.h"
#include "edge/cli/console.h"
#include "edge/cli/curl.h"
#include "edge/cli/fetch_cache.h"

namespace lambent::cli {

// Of a store that speaks S3.
struct S3Access {
  std::string endpoint = {};  // "http://127.0.0.1:9000"; empty: Amazon's own
  std::string region = "us-east-1";
  std::string key_id = {};  // empty: requests are not signed
  std::string secret = {};
  std::string session_token = {};
};

struct FetchOptions {
  // Outlives what is fetched.
  FetchCache& cache;
  Bytes most = Bytes::gib(1024);  // of all files together
  Duration stall = seconds(30);
  S3Access s3 = {};
  bool allows_private = false;  // as run_curl_hops has it
  ProxySettings proxies = {};
};

struct ModelSource {
  std::string url;
  std::string sha256 = {};  // of the model's own file; empty: unknown
};

struct FetchedModel {
  std::string folder;  // holds it, and the files that it names
  std::string file;    // its name in there
  // Of the cache, and locked: what may be removed once it is deployed.
  std::shared_ptr<const CacheEntry> entry;
};

constexpr std::string_view kS3 = "s3://";
// INVALID_ARGUMENT.
inline Error bad_url(const std::string& what) { return {ErrorCode::kInvalidArgument, what}; }

// "http://", "https://" or "s3://".
bool is_model_url(std::string_view text);
// The file that an URL names: "model.onnx". INVALID_ARGUMENT: it names none.
Result<std::string> file_of_url(const std::string& url);
// What is asked for: an s3:// URL becomes one of the store's. INVALID_ARGUMENT.
Result<CurlRequest> request_for(const std::string& url, const S3Access& s3);

struct S3Place {
  std::string bucket;
  std::string key;
};
// "s3://bucket/some/key"; either may be empty.
S3Place place_in_s3(const std::string& url);
// A page of what lies below s3://BUCKET/FOLDER/; `token`: of the page before, or empty.
// INVALID_ARGUMENT.
Result<CurlRequest> listing_request(const std::string& url, const std::string& token,
                                    const S3Access& s3);
// How it is fetched, as far as options say it.
void prepare(CurlRequest& request, const FetchOptions& options);
// Of URLs with passwords or signatures, what may be shown.
std::string shown_url(const std::string& url);

// NOT_FOUND, PERMISSION_DENIED: as the server says; DATA_LOSS: another checksum;
// RESOURCE_EXHAUSTED: more than `options.most`; INVALID_ARGUMENT: it is no model; ABORTED: another
// process fetches it. What came of a file that was cut off stays in the cache, for a week.
Result<FetchedModel> fetch_model(Console& console, const ModelSource& source,
                                 const FetchOptions& options);

using FetchModel = std::function<Result<FetchedModel>(const ModelSource&)>;

}  // namespace lambent::cli
