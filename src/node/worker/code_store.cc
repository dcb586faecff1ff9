#include "node/worker/code_store.h"

#include <filesystem>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "core/archive/zip.h"
#include "core/base/base64.h"
#include "core/base/fd.h"

namespace lambent::worker {

Result<void> CodeStore::create() {
  std::error_code error;
  std::filesystem::create_directories(folder_, error);
  // Its owner's only: other users of the machine are no tenants.
  if (!error) std::filesystem::permissions(folder_, std::filesystem::perms::owner_all, error);
  if (!error) return {};
  return Error{ErrorCode::kFailedPrecondition,
               "the folder of code " + folder_ + " cannot be made: " + error.message()};
}

std::string CodeStore::folder(const FunctionSpec& spec) const {
  return folder_ + "/" + archive::code_folder_name(spec.code_sha256);
}

Result<void> CodeStore::unpack_base64(std::string zip_base64, FunctionSpec& spec) const {
  const auto zip = base64_decode(std::move(zip_base64));
  if (!zip) return Error{ErrorCode::kInvalidArgument, "ZipFile is no valid base64"};
  return unpack(*zip, spec);
}

Result<void> CodeStore::unpack(std::string_view zip, FunctionSpec& spec) const {
  spec.code_sha256 = archive::code_sha256(zip);
  spec.code_size = Bytes(zip.size());
  const auto unpacked = archive::unpack_zip(zip, folder(spec));
  if (!unpacked.ok()) return unpacked.error();
  if (!keeps_packages_) return {};
  return write_file_atomically(package_of(folder(spec)), zip, false);
}

void CodeStore::collect(std::set<std::string> in_use) {
  auto used = std::make_shared<std::set<std::string>>(std::move(in_use));
  files_.run(
      [folder = folder_, used] {
        std::error_code error;
        for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
          std::string name = entry.path().filename();
          if (name.ends_with(".zip")) name.resize(name.size() - 4);
          if (used->contains(name)) continue;
          std::error_code ignored;
          std::filesystem::remove_all(entry.path(), ignored);
        }
      },
      [] {});
}

void CodeStore::remove(std::vector<std::string> names) {
  std::vector<std::string> folders;
  for (const std::string& name : names) folders.push_back(folder_ + "/" + name);
  files_.run(
      [folders = std::move(folders)] {
        std::error_code ignored;
        for (const std::string& folder : folders) {
          std::filesystem::remove_all(folder, ignored);
          std::filesystem::remove(package_of(folder), ignored);
        }
      },
      [] {});
}

}  // namespace lambent::worker
