// SHA256SUMS of a backup: the digests of its files, as sha256sum writes and checks them. Used by
// back_up_state() and restore_state(); blocks.
#pragma once

#include <string>

#include "core/base/result.h"

namespace lambent::bin {

// Writes the digests of all regular files below `backup`, but of the node's key: who keeps that
// elsewhere takes it out. Contents of volumes are named by their digests, and are not read.
Result<void> write_digests(const std::string& backup);

// DATA_LOSS: a file is missing, or is not what it was; contents of volumes are looked for only, as
// copying them reads them. A backup without digests, of an earlier version, passes.
Result<void> check_digests(const std::string& backup);

}  // namespace lambent::bin
