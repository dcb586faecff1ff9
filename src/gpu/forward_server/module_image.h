// What a module image says of itself, read before the driver does: the driver is given no length,
// believes the image, and reads in the executor's memory. Pure.
#pragma once

#include <string_view>

#include "core/base/units.h"

namespace lambent::forward_server {

struct ModuleImage {
  // It is of a kind that the driver takes, and names nothing that lies beyond its end.
  bool is_sound = false;
  // What its variables take on the device beyond the bytes of the image, as far as it says so: ELF
  // files do, where they are not packed into a fat binary.
  Bytes zeros;
};

ModuleImage read_module_image(std::string_view image);

}  // namespace lambent::forward_server
