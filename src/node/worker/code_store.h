// CodeStore: the folders in which the code of functions lies, one for each digest of a zip. Used by
// the parts of Worker on the loop thread; folder() and unpack() on any.
#pragma once

#include <functional>
#include <set>
#include <string>
#include <vector>

#include "core/domain/code_parts.h"
#include "core/domain/function.h"
#include "core/loop/work_thread.h"

namespace lambent::worker {

class CodeStore {
 public:
  // Code lies in state_folder/code. `files` outlives it.
  // `keeps_packages`: all zips too, for other nodes.
  CodeStore(const std::string& state_folder, loop::WorkThread& files, bool keeps_packages = false)
      : folder_(state_folder + "/code"), files_(files), keeps_packages_(keeps_packages) {}

  // A smaller zip is sent as a whole.
  static constexpr Bytes kLeastInParts = Bytes::kib(64);

  // Makes the folder of all code; blocks.
  Result<void> create();
  std::string folder(const FunctionSpec& spec) const;
  // The zip of the code in `folder`, where zips are kept.
  static std::string package_of(const std::string& folder) { return folder + ".zip"; }
  // Unpacks a zip, perhaps in base64, into its folder, and writes its digest and size into `spec`.
  // Blocks. INVALID_ARGUMENT and RESOURCE_EXHAUSTED as archive::unpack_zip().
  Result<void> unpack(std::string_view zip, FunctionSpec& spec) const;
  Result<void> unpack_base64(std::string zip_base64, FunctionSpec& spec) const;
  // The zip that the delta makes out of the one with the digest `base`, whose own digest is
  // `made`. Blocks. INVALID_ARGUMENT: it is no delta; FAILED_PRECONDITION: it makes none, or the
  // zip that it begins with is not here.
  Result<std::string> assemble(const std::string& base, std::string_view delta,
                               const std::string& made) const;
  // What a zip consists of, read in the background. NOT_FOUND: it is not here.
  void list_parts(const std::string& code_sha256, std::function<void(Result<CodeParts>)> done);
  // Removes, in the background, all folders but these, which are the names of those in use, and all
  // zips but those of `changing`, whose code may be changed piece by piece. Not while a function is
  // being changed: its code may be unpacked already. Sandboxes that still run from one keep their
  // open files and mounts.
  void collect(std::set<std::string> in_use, std::set<std::string> changing);
  // The same of these only, with their zips.
  void remove(std::vector<std::string> names);
  // Of these only the zips, unless other nodes may ask for them.
  void remove_packages(const std::vector<std::string>& names);

 private:
  Result<std::string> read_package(const std::string& code_sha256) const;
  Result<CodeParts> parts_of(const std::string& code_sha256) const;

  const std::string folder_;
  loop::WorkThread& files_;
  const bool keeps_packages_;
};

}  // namespace lambent::worker
