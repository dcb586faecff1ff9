// What a store says of a folder: a page of S3's listing, or the lines of SHA256SUMS. What is taken
// for the path of a file is one.
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "core/base/check.h"
#include "core/domain/volume.h"
#include "edge/cli/store_listing.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace lambent;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  std::vector<std::string> paths;
  if (const auto page = cli::parse_listing(text); page.ok()) {
    for (const auto& object : page->objects) paths.push_back(object.key);
  }
  if (const auto sums = cli::parse_sums(text); sums.ok()) {
    for (const auto& [path, digest] : *sums) {
      CHECK(validate_volume_path(path).ok(), "it lies below the folder");
      CHECK(validate_sha256(digest).ok(), "it has a digest");
      paths.push_back(path);
    }
  }
  const auto models = cli::find_stored_models(paths);
  if (!models.ok()) return 0;
  for (const auto& model : *models) {
    CHECK(!model.versions.empty(), "a model has versions");
    for (const auto& [version, files] : model.versions) {
      for (const std::string& file : files) {
        CHECK(validate_volume_path(file).ok(), "it lies below the folder");
        CHECK(file.starts_with(model.folder), "it is one of the model's");
      }
    }
  }
  return 0;
}
