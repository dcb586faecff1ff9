// Files and their digests, piece by piece, so that size is no matter. Used by what copies or checks
// files of any size; blocks, any thread.
#pragma once

#include <string>

#include "core/base/result.h"
#include "core/crypto/crypto.h"

namespace lambent::crypto {

// Of the rest of an open file; its offset is at the end then.
Result<Digest> digest_of_rest(int file);
// Of the whole file; no link is followed.
Result<Digest> digest_of_file(const std::string& path);
// Writes the rest of `from` to the new file `to`, with the mode and the time of change of `from`.
// Returns its digest. Not durable.
Result<Digest> copy_rest(int from, const std::string& to);

}  // namespace lambent::crypto
