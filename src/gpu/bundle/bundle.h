// Bundle: a kernel bundle on disk, opened and verified; says which images to offer to a driver.
// A value after opening; used by native handlers, kernel functions and lambent-bundle.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.h"
#include "gpu/bundle/manifest.h"

namespace lambent::bundle {

// SHA-256 in hexadecimal over the manifest (without its hash) and all files that it names.
Result<std::string> content_hash(const std::string& folder, const Manifest& manifest);

// The content of the file at a path, of at most so many bytes: where a bundle is not a folder of
// the file system.
using ReadFile = std::function<Result<std::string>(const std::string& path, size_t limit)>;

class Bundle {
 public:
  // NOT_FOUND if `folder` is no bundle, DATA_LOSS if its content does not match its hash.
  static Result<Bundle> open(const std::string& folder);
  // The same, with every file below `folder` read by `read`.
  static Result<Bundle> open(const std::string& folder, const ReadFile& read);

  const Manifest& manifest() const { return manifest_; }

  // One image to load, and whether its symbols are the lowered names.
  struct Choice {
    std::string path;
    bool device = false;
  };
  // The images for a device of this compute capability, best first; the last is the host's. A GPU's
  // driver refuses a host image and the emulated one refuses device code, both as an invalid image:
  // load the first that is taken.
  std::vector<Choice> images_for(int compute_major, int compute_minor) const;

  // The symbol of kernel `name` in an image; NOT_FOUND lists the kernels that there are.
  Result<std::string> symbol_of(std::string_view name, const Choice& image) const;

 private:
  Bundle(std::string folder, Manifest manifest)
      : folder_(std::move(folder)), manifest_(std::move(manifest)) {}

  std::string folder_;
  Manifest manifest_;
};

}  // namespace lambent::bundle
