#include "node/worker/code_store.h"

#include <filesystem>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "core/archive/code_delta.h"
#include "core/archive/zip.h"
#include "core/base/base64.h"
#include "core/base/fd.h"
#include "core/domain/limits.h"

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
  if (!keeps_packages_ && spec.code_size <= kLeastInParts) return {};
  return write_file_atomically(package_of(folder(spec)), zip, false);
}

Result<std::string> CodeStore::read_package(const std::string& code_sha256) const {
  return read_file(package_of(folder_ + "/" + archive::code_folder_name(code_sha256)),
                   limits::kZippedCode.count);
}

// Clients know how these begin, and send all.
Result<std::string> CodeStore::assemble(const std::string& base, std::string_view delta,
                                        const std::string& made) const {
  const auto package = read_package(base);
  if (!package.ok()) {
    return Error{ErrorCode::kFailedPrecondition,
                 "the worker does not have this code's package to begin with; send it as the part "
                 "'code'"};
  }
  ASSIGN_OR_RETURN(std::string zip, archive::apply_code_delta(*package, delta));
  if (archive::code_sha256(zip) == made) return zip;
  return Error{ErrorCode::kFailedPrecondition,
               "the worker does not have this code: what was sent makes code with another digest; "
               "send it as the part 'code'"};
}

Result<CodeParts> CodeStore::parts_of(const std::string& code_sha256) const {
  const auto package = read_package(code_sha256);
  if (!package.ok()) {
    return Error{ErrorCode::kNotFound, "no package of the function's code is kept here"};
  }
  ASSIGN_OR_RETURN(std::vector<CodePart> parts, archive::code_parts_of(*package));
  return CodeParts{code_sha256, std::move(parts)};
}

void CodeStore::list_parts(const std::string& code_sha256,
                           std::function<void(Result<CodeParts>)> done) {
  auto parts = std::make_shared<Result<CodeParts>>(CodeParts{});
  const bool queued = files_.run([this, parts, code_sha256] { *parts = parts_of(code_sha256); },
                                 [parts, done] { done(std::move(*parts)); });
  if (queued) return;
  done(Error{ErrorCode::kResourceExhausted, "too much is done with code at once; try again later"});
}

void CodeStore::collect(std::set<std::string> in_use, std::set<std::string> changing) {
  struct Names {
    std::set<std::string> folders, zips;
  };
  auto names = std::make_shared<Names>();
  names->zips = keeps_packages_ ? in_use : std::move(changing);
  names->folders = std::move(in_use);
  files_.run(
      [folder = folder_, names] {
        std::error_code error;
        for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
          const std::string name = entry.path().filename();
          const bool is_zip = name.ends_with(".zip");
          const bool used = is_zip ? names->zips.contains(name.substr(0, name.size() - 4))
                                   : names->folders.contains(name);
          if (used) continue;
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

void CodeStore::remove_packages(const std::vector<std::string>& names) {
  if (keeps_packages_ || names.empty()) return;
  std::vector<std::string> packages;
  for (const std::string& name : names) packages.push_back(package_of(folder_ + "/" + name));
  files_.run(
      [packages = std::move(packages)] {
        std::error_code ignored;
        for (const std::string& package : packages) std::filesystem::remove(package, ignored);
      },
      [] {});
}

}  // namespace lambent::worker
