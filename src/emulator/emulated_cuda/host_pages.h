// Whether the program may read or write memory of its own that the driver does not know, asked
// before the driver touches it on a thread where a fault would end the program. Any thread.
#pragma once

#include <cstddef>
#include <cstdint>

namespace lambent::emulated_cuda {

// False if some of the pages are not there, or if the first or the last may not be accessed so:
// permissions within the range are taken to be those of its ends. Those two are brought in, which
// the copy that follows would do anyway. Where the system cannot be asked (Linux before 5.14, some
// sandboxes) it is always true.
bool host_pages_accessible(uintptr_t address, size_t bytes, bool write);

}  // namespace lambent::emulated_cuda
