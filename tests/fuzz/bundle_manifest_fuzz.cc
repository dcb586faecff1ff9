// Manifests come in packages that anyone may upload: whatever is accepted must survive a round trip
// and name no file outside of its folder.
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "gpu/bundle/manifest.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace lambent::bundle;
  const auto manifest = parse_manifest({reinterpret_cast<const char*>(data), size});
  if (!manifest.ok()) return 0;
  for (const auto& image : manifest->images) {
    if (image.file.starts_with("/") || image.file.find("..") == 0) abort();
  }
  const auto again = parse_manifest(to_json(*manifest));
  if (!again.ok() || *again != *manifest) abort();
  return 0;
}
