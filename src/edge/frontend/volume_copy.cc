#include "edge/frontend/volume_copy.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "core/base/json_text.h"
#include "core/crypto/crypto.h"
#include "core/domain/limits.h"
#include "core/domain/mount.h"
#include "edge/frontend/json_text.h"

namespace lambent::frontend {
namespace {

using nlohmann::json;

constexpr size_t kMostTold = 1'000'000;
// More could not be added up.
constexpr uint64_t kMostSize = uint64_t{1} << 50;

Error unreadable(const char* what) {
  return {ErrorCode::kInvalidArgument,
          std::string("what a node told of its volumes cannot be read: ") + what};
}

Result<std::string> needed_text(const json& object, const char* key) {
  const auto found = object.find(key);
  if (found == object.end() || !found->is_string()) return unreadable(key);
  return found->get<std::string>();
}

Result<uint64_t> number_at(const json& object, const char* key) {
  const auto found = object.find(key);
  const bool is_number = found != object.end() && found->is_number_unsigned();
  if (!is_number || found->get<uint64_t>() > kMostSize) return unreadable(key);
  return found->get<uint64_t>();
}

Result<std::string> digest_at(const json& object, const char* key) {
  ASSIGN_OR_RETURN(std::string digest, needed_text(object, key));
  if (!validate_sha256(digest).ok()) return unreadable(key);
  return digest;
}

Result<const json*> list_at(const json& object, const char* key, size_t most) {
  const auto found = object.find(key);
  if (found == object.end() || !found->is_array() || found->size() > most) return unreadable(key);
  return &*found;
}

Result<ToldVolume> read_volume(const json& object) {
  ToldVolume told;
  if (!object.is_object()) return unreadable("a volume");
  ASSIGN_OR_RETURN(told.tenant, needed_text(object, "tenant"));
  ASSIGN_OR_RETURN(told.volume.name, needed_text(object, "name"));
  if (told.tenant.empty() || !validate_volume_name(told.volume.name).ok()) {
    return unreadable("a name");
  }
  ASSIGN_OR_RETURN(told.volume.version, digest_at(object, "version"));
  ASSIGN_OR_RETURN(told.volume.files, number_at(object, "files"));
  ASSIGN_OR_RETURN(const uint64_t size, number_at(object, "size_bytes"));
  told.volume.size = Bytes(size);
  return told;
}

Result<VolumeFile> read_file(const json& object) {
  VolumeFile file;
  if (!object.is_object()) return unreadable("a file");
  ASSIGN_OR_RETURN(file.path, needed_text(object, "path"));
  if (!validate_volume_path(file.path).ok()) return unreadable("a path");
  ASSIGN_OR_RETURN(file.sha256, digest_at(object, "sha256"));
  ASSIGN_OR_RETURN(const uint64_t size, number_at(object, "size_bytes"));
  file.size = Bytes(size);
  return file;
}

json json_of(const ToldVolume& told) {
  return {{"tenant", told.tenant},
          {"name", told.volume.name},
          {"version", told.volume.version},
          {"files", told.volume.files},
          {"size_bytes", told.volume.size.count}};
}

}  // namespace

VolumeList volume_list_of(std::vector<ToldVolume> volumes) {
  std::string text;
  for (const ToldVolume& each : volumes) {
    text += each.tenant + "\n" + each.volume.name + "\n" + each.volume.version + "\n";
  }
  return {.version = crypto::to_hex(crypto::sha256(text)), .volumes = std::move(volumes)};
}

std::string json_text_of(const VolumeList& list) {
  json volumes = json::array();
  for (const ToldVolume& each : list.volumes) volumes.push_back(json_of(each));
  return json_text(json{{"version", list.version}, {"volumes", std::move(volumes)}});
}

std::string json_text_of(const VolumePage& page) {
  json files = json::array();
  for (const VolumeFile& file : page.files) {
    files.push_back(
        {{"path", file.path}, {"size_bytes", file.size.count}, {"sha256", file.sha256}});
  }
  return json_text(
      json{{"version", page.version}, {"files", std::move(files)}, {"is_last", page.is_last}});
}

Result<VolumeList> read_volume_list(std::string_view text) {
  const json object = json::parse(text, nullptr, false);
  if (!object.is_object()) return unreadable("no JSON object");
  VolumeList list;
  ASSIGN_OR_RETURN(list.version, digest_at(object, "version"));
  ASSIGN_OR_RETURN(const json* volumes, list_at(object, "volumes", kMostTold));
  for (const json& each : *volumes) {
    ASSIGN_OR_RETURN(ToldVolume told, read_volume(each));
    list.volumes.push_back(std::move(told));
  }
  return list;
}

Result<VolumePage> read_volume_page(std::string_view text) {
  const json object = json::parse(text, nullptr, false);
  if (!object.is_object()) return unreadable("no JSON object");
  VolumePage page;
  ASSIGN_OR_RETURN(page.version, digest_at(object, "version"));
  const auto is_last = object.find("is_last");
  if (is_last == object.end() || !is_last->is_boolean()) return unreadable("is_last");
  page.is_last = is_last->get<bool>();
  ASSIGN_OR_RETURN(const json* files, list_at(object, "files", limits::kVolumeFilesPerPage));
  for (const json& each : *files) {
    ASSIGN_OR_RETURN(VolumeFile file, read_file(each));
    // In order, so that asking for the next page comes to an end.
    const bool is_next = page.files.empty() || page.files.back().path < file.path;
    if (!is_next) return unreadable("the order of its files");
    page.files.push_back(std::move(file));
  }
  if (!page.is_last && page.files.empty()) return unreadable("a page without files");
  return page;
}

}  // namespace lambent::frontend
