// The executor looks at module images that a sandboxed process sent: whatever lies in one, nothing
// beyond its end is read, and one that is sound and whole is so however it is cut.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "gpu/forward_server/module_image.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace lambent;
  // Of its own, so that a sanitizer sees what is read behind it.
  const std::string image(reinterpret_cast<const char*>(data), size);
  const auto found = forward_server::read_module_image(image);
  if (!found.is_sound && found.zeros != Bytes(0)) abort();
  if (size > 0) {
    const std::string longer = image + std::string(64, '\0');
    if (found.is_sound && !forward_server::read_module_image(longer).is_sound) abort();
  }
  return 0;
}
