// Function packages: zips taken apart and put together (libarchive), and their digest. Free
// functions that read and write files; called from any thread that may block, never the loop.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "core/base/result.h"
#include "core/base/units.h"
#include "core/domain/limits.h"

namespace lambent::archive {

struct ZipLimits {
  Bytes zipped = limits::kZippedCode;
  Bytes unzipped = limits::kUnzippedCode;
  size_t entries = limits::kZipEntries;
};

struct UnpackedZip {
  size_t entries = 0;
  Bytes size;  // of the files' contents
};

// Unpacks into a temporary folder beside `destination`, syncs it and renames it into place: the
// folder is there whole and durable, or not at all. A destination that exists is left as it is and
// counted as done, so name it by the digest. INVALID_ARGUMENT, naming the entry, for a bad zip, a
// path that leads outside, a name used twice, and anything but files, folders and symbolic links
// that stay inside; STORAGE_FULL for a full disk.
Result<UnpackedZip> unpack_zip(std::string_view zip, const std::string& destination,
                               const ZipLimits& limits = {});
// Reads the whole zip with the same checks and writes nothing.
Result<UnpackedZip> check_zip(std::string_view zip, const ZipLimits& limits = {});
// Removes what unpackings that never ended left beside destinations in `folder`; for start-up.
void remove_partial(const std::string& folder);

// A zip of a folder's files; the same bytes for the same contents. Symbolic links that stay inside
// are kept; anything else that is no file or folder is INVALID_ARGUMENT. The entry `without` is
// left out, unless it is the only one, and so are folders __pycache__, .git, .hg and .svn, and
// virtual environments of Python (folders with a pyvenv.cfg).
Result<std::string> make_zip(const std::string& folder, const ZipLimits& limits = {},
                             const std::string& without = "");
// Whether that folder is one of those that make_zip leaves out.
bool is_left_out(const std::filesystem::directory_entry& folder);

// SHA-256 in base64, as Lambda's CodeSha256.
std::string code_sha256(std::string_view zip);
// That digest in letters that may stand in a folder's name (base64url, unpadded).
std::string code_folder_name(std::string_view code_sha256);

}  // namespace lambent::archive
