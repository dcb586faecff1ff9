// How long a module image is, which the driver's API does not say, told from its own headers. The
// image is the program's own; pure.
#pragma once

#include <cstddef>

namespace lambent::forward_client {

struct Image {
  const void* bytes = nullptr;
  size_t size = 0;
  bool is_gpu_code = false;  // and no shared object for this processor
};

// Follows the wrapper that compilers put around an image. Size 0: it is nothing that we know.
Image find_image(const void* image);

}  // namespace lambent::forward_client
