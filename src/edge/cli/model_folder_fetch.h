// Fetches models with versions by URL: a folder of a store that speaks S3, or one of a web server
// that has a SHA256SUMS. Only the versions that are served come. Blocks; used by deploy.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.h"
#include "edge/cli/console.h"
#include "edge/cli/fetch_cache.h"
#include "edge/cli/model_fetch.h"
#include "edge/cli/model_folder.h"

namespace lambent::cli {

// "https://example.com/models/" or "s3://bucket/models": of s3:// all that is no .onnx.
bool is_folder_url(std::string_view url);

// What is wanted of a folder, asked before files of it come.
struct FolderChoice {
  // Whether it may be what it is: one model, or several.
  std::function<Result<void>(bool is_repository)> check;
  // Which of the versions of a model are fetched, whose config.pbtxt lies in `folder` already.
  std::function<Result<std::vector<uint64_t>>(const std::string& folder,
                                              const std::set<uint64_t>& there)>
      versions;
};

struct FetchedFolder {
  std::vector<ModelFolder> models;  // of this machine; at least one
  bool is_repository = false;       // the models are those in the folder, and not the folder itself
  // Of the cache, and locked: what may be removed once it is deployed.
  std::shared_ptr<const CacheEntry> entry;
};

// Errors as fetch_model's, and those of `choice`; NOT_FOUND also: no version of a model lies there;
// RESOURCE_EXHAUSTED: more files than kMostListed, or together larger than `options.most`;
// DATA_LOSS: a file is not the one of SHA256SUMS.
Result<FetchedFolder> fetch_model_folder(Console& console, const std::string& url,
                                         const FetchOptions& options, const FolderChoice& choice);

using FetchModelFolder =
    std::function<Result<FetchedFolder>(const std::string& url, const FolderChoice& choice)>;

}  // namespace lambent::cli
