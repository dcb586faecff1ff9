#include "node/layers/layer_folder.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <utility>

#include "core/archive/zip.h"
#include "core/archive/zip_directory.h"
#include "core/base/base64.h"
#include "core/base/fd.h"
#include "core/base/json_text.h"
#include "core/crypto/crypto.h"
#include "core/domain/limits.h"

namespace lambent::layers {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr char kContent[] = "/content";
constexpr char kPackage[] = "/layer.zip";
// Beside what was composed of another node's packages: how many bytes it has.
constexpr char kCopied[] = ".copied";
constexpr size_t kSha256Digits = 64;
constexpr char kDescription[] = "/layer.json";
constexpr size_t kMostDescription = 64 * 1024;  // bytes
constexpr size_t kMostFolders = 8;              // each is a mount of the function

Error failed(const std::string& what, const std::error_code& error) {
  const bool is_full = error == std::errc::no_space_on_device;
  return Error{is_full ? ErrorCode::kStorageFull : ErrorCode::kInternal,
               what + ": " + error.message()};
}

// Of the layer's own making: the folders that it shows under /opt.
Result<void> check_content(const std::string& content) {
  std::error_code error;
  size_t folders = 0;
  for (fs::directory_iterator each(content, error), end; !error && each != end;
       each.increment(error)) {
    const std::string name = each->path().filename();
    const bool is_plain = std::ranges::all_of(
        name, [](unsigned char c) { return c > ' ' && c < 127 && c != ':' && c != ','; });
    if (each->symlink_status().type() != fs::file_type::directory || !is_plain ||
        name == "lambent") {
      return Error{ErrorCode::kInvalidArgument,
                   "the layer has '" + name +
                       "' at its top: what a layer has lies in folders, such as python, lib and "
                       "bin, and lambent is taken"};
    }
    ++folders;
  }
  if (error) return failed("read " + content, error);
  if (folders == 0 || folders > kMostFolders) {
    return Error{ErrorCode::kInvalidArgument, "the layer has " + std::to_string(folders) +
                                                  " folders at its top; 1 to " +
                                                  std::to_string(kMostFolders) + " are taken"};
  }
  return {};
}

json json_of(const LayerVersion& version) {
  return {{"name", version.reference.name},
          {"version", version.reference.version},
          {"description", version.description},
          {"license", version.license},
          {"runtimes", version.runtimes},
          {"code_sha256", version.code_sha256},
          {"code_bytes", version.code_size.count},
          {"unpacked_bytes", version.unpacked.count},
          {"created_at_ns", version.created_at.count()}};
}

// One entry over what is at its place, which may be of another type.
Result<void> place(const fs::directory_entry& from, const fs::path& to) {
  std::error_code error;
  const fs::file_type type = from.symlink_status().type();
  const fs::file_type there = fs::symlink_status(to, error).type();
  if (type == fs::file_type::directory && there == fs::file_type::directory) return {};
  if (there != fs::file_type::not_found) fs::remove_all(to, error);
  error.clear();
  if (type == fs::file_type::directory) {
    fs::create_directory(to, error);
  } else if (type == fs::file_type::symlink) {
    fs::copy_symlink(from.path(), to, error);
  } else {
    fs::create_hard_link(from.path(), to, error);
  }
  return error ? failed("make " + to.string(), error) : Result<void>{};
}

// "2-SHA256.zip": the second one, with that digest.
std::string package_name(size_t position, const std::string& sha256) {
  return std::to_string(position) + "-" + sha256 + ".zip";
}

// "0-SHA256.zip": of all layers together.
bool is_packed_again(const std::string& zip) {
  return fs::path(zip).filename().string().starts_with("0-");
}

// Those would be missing in a zip. What Python compiled is made again.
Result<void> check_nothing_is_left_out(const std::string& folder) {
  std::error_code error;
  for (fs::recursive_directory_iterator each(folder, error), end; !error && each != end;
       each.increment(error)) {
    const bool goes = each->symlink_status().type() == fs::file_type::directory &&
                      archive::is_left_out(*each) && each->path().filename() != "__pycache__";
    if (!goes) continue;
    return Error{ErrorCode::kInvalidArgument,
                 "zips leave out '" + each->path().lexically_relative(folder).string() + "'"};
  }
  return error ? failed("read " + folder, error) : Result<void>{};
}

Result<void> lay_over(const std::string& content, const std::string& into) {
  std::error_code error;
  for (fs::recursive_directory_iterator each(content, error), end; !error && each != end;
       each.increment(error)) {
    const fs::path relative = each->path().lexically_relative(content);
    RETURN_IF_ERROR(place(*each, fs::path(into) / relative));
  }
  return error ? failed("read " + content, error) : Result<void>{};
}

}  // namespace

Result<void> write_version(const std::string& folder, const std::string& zip_base64,
                           bool keeps_package, LayerVersion& version) {
  const auto zip = base64_decode(zip_base64);
  if (!zip) return Error{ErrorCode::kInvalidArgument, "ZipFile is no valid base64"};
  version.code_sha256 = archive::code_sha256(*zip);
  version.code_size = Bytes(zip->size());
  std::error_code error;
  fs::remove_all(folder, error);  // of an earlier try
  fs::create_directories(folder, error);
  if (error) return failed("make " + folder, error);
  const auto write = [&]() -> Result<void> {
    ASSIGN_OR_RETURN(const archive::UnpackedZip unpacked,
                     archive::unpack_zip(*zip, folder + kContent));
    version.unpacked = unpacked.size;
    RETURN_IF_ERROR(check_content(folder + kContent));
    if (keeps_package) RETURN_IF_ERROR(write_file_atomically(folder + kPackage, *zip, true));
    const json description = json_of(version);
    return write_file_atomically(folder + kDescription, json_text(description), true);
  };
  auto written = write();
  if (!written.ok()) fs::remove_all(folder, error);
  return written;
}

Result<LayerVersion> read_version(const std::string& folder) {
  ASSIGN_OR_RETURN(const std::string text, read_file(folder + kDescription, kMostDescription));
  const json read = json::parse(text, nullptr, false);
  const Error bad{ErrorCode::kDataLoss, folder + kDescription + " describes no layer"};
  if (!read.is_object()) return bad;
  LayerVersion version;
  try {
    read.at("name").get_to(version.reference.name);
    read.at("version").get_to(version.reference.version);
    read.at("description").get_to(version.description);
    read.at("license").get_to(version.license);
    read.at("runtimes").get_to(version.runtimes);
    read.at("code_sha256").get_to(version.code_sha256);
    version.code_size = Bytes(read.at("code_bytes").get<uint64_t>());
    version.unpacked = Bytes(read.at("unpacked_bytes").get<uint64_t>());
    version.created_at = Duration(read.at("created_at_ns").get<int64_t>());
  } catch (const json::exception&) {
    return bad;
  }
  return version;
}

Result<std::vector<std::string>> folders_in(const std::string& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator each(folder, error), end; !error && each != end;
       each.increment(error)) {
    if (each->symlink_status().type() == fs::file_type::directory) {
      names.push_back(each->path().filename());
    }
  }
  if (error) return failed("read " + folder, error);
  std::ranges::sort(names);
  return names;
}

Result<void> compose(const std::vector<std::string>& versions, const std::string& destination) {
  std::error_code error;
  if (fs::exists(destination, error)) return {};
  const std::string partial = destination + ".partial";
  fs::remove_all(partial, error);
  fs::create_directories(partial, error);
  if (error) return failed("make " + partial, error);
  for (const std::string& version : versions) {
    const auto laid = lay_over(version + kContent, partial);
    if (laid.ok()) continue;
    fs::remove_all(partial, error);
    return laid.error();
  }
  fs::rename(partial, destination, error);
  return error ? failed("rename " + partial, error) : Result<void>{};
}

Result<void> link_packages(const std::vector<std::string>& versions,
                           const std::string& destination) {
  std::error_code error;
  if (fs::exists(destination, error)) return {};
  const std::string partial = destination + ".partial";
  fs::remove_all(partial, error);
  for (size_t i = 0; i < versions.size(); ++i) {
    const std::string package = versions[i] + kPackage;
    if (!fs::exists(package, error)) {  // published before this worker was a node
      fs::remove_all(partial, error);
      return {};
    }
    ASSIGN_OR_RETURN(const LayerVersion version, read_version(versions[i]));
    const auto digest = base64_decode(version.code_sha256);
    if (!digest) return Error{ErrorCode::kDataLoss, versions[i] + " has no digest"};
    fs::create_directories(partial, error);
    if (!error) {
      fs::create_hard_link(
          package, partial + "/" + package_name(i + 1, crypto::to_hex(std::string_view(*digest))),
          error);
    }
    if (error) return failed("make " + partial, error);
  }
  fs::rename(partial, destination, error);
  return error ? failed("rename " + partial, error) : Result<void>{};
}

Result<void> pack_composed(const std::string& composed, const std::string& destination) {
  std::error_code error;
  if (fs::exists(destination, error)) return {};
  RETURN_IF_ERROR(check_nothing_is_left_out(composed));
  ASSIGN_OR_RETURN(const std::string zip, archive::make_zip(composed));
  const std::string partial = destination + ".partial";
  fs::remove_all(partial, error);
  fs::create_directories(partial, error);
  if (error) return failed("make " + partial, error);
  const std::string name = package_name(0, crypto::to_hex(crypto::sha256(zip)));
  RETURN_IF_ERROR(write_file_atomically(partial + "/" + name, zip, true));
  fs::rename(partial, destination, error);
  return error ? failed("rename " + partial, error) : Result<void>{};
}

std::vector<LayerPackage> packages_in(const std::string& folder) {
  std::vector<LayerPackage> packages;
  std::error_code error;
  for (fs::directory_iterator each(folder, error), end; !error && each != end;
       each.increment(error)) {
    const std::string name = each->path().filename();
    if (name.size() != package_name(1, std::string(kSha256Digits, '0')).size()) continue;
    std::error_code unreadable;
    const Bytes size(each->file_size(unreadable));
    if (unreadable) continue;
    packages.push_back({name, name.substr(name.find('-') + 1, kSha256Digits), size});
  }
  std::ranges::sort(packages, {}, &LayerPackage::name);
  return packages;
}

std::string digest_of_layers(const std::vector<std::string>& code_sha256) {
  std::string contents;
  for (const std::string& each : code_sha256) contents += each + "\n";
  return crypto::to_hex(crypto::sha256(contents)).substr(0, kLayersDigestLength);
}

Result<Bytes> check_packages(const std::vector<std::string>& zips, const std::string& digest) {
  std::vector<std::string> digests;
  Result<Bytes> unpacked = Bytes();
  for (const std::string& each : zips) {
    ASSIGN_OR_RETURN(const std::string zip, read_file(each, limits::kZippedCode.count));
    digests.push_back(archive::code_sha256(zip));
    const auto directory = archive::read_zip_directory(zip, limits::kZipEntries);
    if (!directory.ok()) unpacked = directory.error();
    if (!unpacked.ok()) continue;
    for (const auto& record : directory->records) *unpacked += Bytes(record.size);
  }
  const bool is_whole = zips.size() == 1 && is_packed_again(zips.front());
  if (is_whole || digest_of_layers(digests) == digest) return unpacked;
  return Error{ErrorCode::kDataLoss, "other layers came than those that the function has"};
}

Result<void> compose_packages(const std::vector<std::string>& zips, const std::string& destination,
                              Bytes size) {
  const std::string from = destination + ".from";
  std::error_code error;
  if (fs::exists(destination, error)) return {};
  fs::remove_all(from, error);
  const auto compose_all = [&]() -> Result<void> {
    std::vector<std::string> versions;
    for (const std::string& each : zips) {
      versions.push_back(from + "/" + std::to_string(versions.size()));
      fs::create_directories(versions.back(), error);
      if (error) return failed("make " + versions.back(), error);
      ASSIGN_OR_RETURN(const std::string zip, read_file(each, limits::kZippedCode.count));
      RETURN_IF_ERROR(archive::unpack_zip(zip, versions.back() + kContent));
      RETURN_IF_ERROR(check_content(versions.back() + kContent));
    }
    RETURN_IF_ERROR(
        write_file_atomically(destination + kCopied, std::to_string(size.count), false));
    return compose(versions, destination);
  };
  auto composed = compose_all();
  fs::remove_all(from, error);
  return composed;
}

Result<void> own_copy(const std::string& destination) {
  std::error_code error;
  fs::remove(destination + kCopied, error);
  return error ? failed("remove " + destination + kCopied, error) : Result<void>{};
}

std::optional<Bytes> copied_size(const std::string& destination) {
  const auto text = read_file(destination + kCopied, 32);
  if (!text.ok()) return std::nullopt;
  uint64_t size = 0;
  std::from_chars(text->data(), text->data() + text->size(), size);
  return Bytes(size);
}

void remove_folder_at_once(const std::string& folder) {
  const std::string aside = folder + std::string(kRemovedFolder);
  std::error_code error;
  fs::remove_all(aside, error);
  fs::rename(folder, aside, error);
  // Only now: without its size it would be no copy, and stay.
  fs::remove(folder + kCopied, error);
  fs::remove_all(aside, error);
}

void remove_leftovers(const std::string& folder,
                      const std::function<bool(const std::string& name)>& is_one) {
  std::error_code error;
  std::vector<fs::path> left;
  for (fs::directory_iterator each(folder, error), end; !error && each != end;
       each.increment(error)) {
    const fs::path& path = each->path();
    std::error_code unreadable;
    const bool is_size =
        path.extension() == kCopied && fs::exists(path.parent_path() / path.stem(), unreadable);
    if (!is_size && !is_one(path.filename())) left.push_back(path);
  }
  for (const fs::path& each : left) fs::remove_all(each, error);
}

}  // namespace lambent::layers
