// What a folder of a store holds: the pages in which S3 lists objects, the file SHA256SUMS of a
// plain web server, and which of the files are versions of models. Reads foreign bytes; fuzzed.
// Pure; any thread.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.h"
#include "core/base/units.h"

namespace lambent::cli {

// Of one folder.
constexpr size_t kMostListed = 200'000;

struct ListedObject {
  std::string key;  // whole
  Bytes size;

  bool operator==(const ListedObject&) const = default;
};
struct ListingPage {
  std::vector<ListedObject> objects;
  std::string next;  // the continuation token of the next page; empty: this is the last
};
// An answer to ListObjectsV2 that asked for encoding-type=url. INVALID_ARGUMENT: it is none.
Result<ListingPage> parse_listing(std::string_view xml);

// Paths to digests, of lines as sha256sum writes them. INVALID_ARGUMENT, with the line's number.
Result<std::map<std::string, std::string>> parse_sums(std::string_view text);

// One model of a store, by paths below the folder.
struct StoredModel {
  std::string folder;  // "scores/"; empty: the folder itself
  bool has_config = false;
  bool has_model = false;                                 // a version has a file of a model
  std::map<uint64_t, std::vector<std::string>> versions;  // to their files, in order
};
// In Triton's layout: the folder is a model (1/model.onnx), or else one of models
// (scores/1/model.onnx), in order of their names; what a model is, find_model_folder says. What
// belongs to no version is left out, and so is a manifest: the writer of a store is not the user
// that deploys.
// NOT_FOUND: there is no version; INVALID_ARGUMENT: a path that is none of a volume.
Result<std::vector<StoredModel>> find_stored_models(const std::vector<std::string>& paths);

}  // namespace lambent::cli
