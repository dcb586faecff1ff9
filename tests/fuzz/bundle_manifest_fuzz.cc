// Manifests come in packages that anyone may upload: whatever is accepted must survive a round trip
// and name no file outside of its folder.
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "gpu/bundle/manifest.h"
#include "tests/fuzz/accepted.h"

namespace {
[[maybe_unused]] const bool kTold = lambent::fuzz::tells_what_it_accepts();
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace lambent::bundle;
  const auto manifest = parse_manifest({reinterpret_cast<const char*>(data), size});
  if (!manifest.ok()) return 0;
  lambent::fuzz::accepted.last = true;
  for (const auto& image : manifest->images) {
    if (image.file.starts_with("/") || image.file.find("..") == 0) abort();
  }
  const auto again = parse_manifest(to_json(*manifest));
  if (!again.ok() || *again != *manifest) abort();
  return 0;
}
