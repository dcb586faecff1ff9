// Copies of all volumes for a backup, and back, while they are used. Used by lambent's verbs backup
// and restore; blocks.
#pragma once

#include <string>

#include "core/base/result.h"

namespace lambent::volumes {

// Brings the volumes in the folder `to` up to those in `from`, both laid out as VolumeStore's. Each
// file is there whole, as it was at one moment of the call; one that goes meanwhile may be there or
// not, and what is in `to` already stays, unless another file came in its place. Each content is
// copied once. Uploads that have not ended are left out.
// DATA_LOSS: a content is not what its digest says.
Result<void> copy_volumes(const std::string& from, const std::string& to);

}  // namespace lambent::volumes
