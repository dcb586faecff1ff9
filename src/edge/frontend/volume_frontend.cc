#include "edge/frontend/volume_frontend.h"

#include <memory>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "core/base/parse_number.h"
#include "core/domain/limits.h"
#include "edge/frontend/json_response.h"
#include "edge/frontend/json_text.h"
#include "edge/frontend/native_error.h"
#include "edge/frontend/native_path.h"
#include "edge/frontend/volume_transfer.h"

namespace lambent::frontend {
namespace {

using nlohmann::json;

constexpr std::string_view kVolumes = "/v1/volumes";
// A path may be as long as its parts, of which each character may be escaped.
constexpr std::string_view kFiles = "files";
constexpr std::string_view kUploads = "uploads";

json json_of(const VolumeStatus& volume) {
  return {{"name", volume.name},
          {"files", volume.files},
          {"size_bytes", volume.size.count},
          {"unfinished_bytes", volume.unfinished.count}};
}

json json_of(const VolumeFile& file) {
  return {{"path", file.path}, {"size_bytes", file.size.count}, {"sha256", file.sha256}};
}

json json_of(const UploadStatus& status) {
  json body{{"offset", status.offset.count}, {"complete", status.complete}};
  if (status.complete) body["file"] = json_of(status.file);
  return body;
}

json json_of(const RemovedFiles& removed) { return {{"files", removed.files}}; }

template <typename Value>
std::function<void(Result<Value>)> answer_to(http::Responder responder) {
  // Shared because a callback must be copyable and a responder is not.
  auto answer = std::make_shared<http::Responder>(std::move(responder));
  return [answer](Result<Value> value) {
    answer->send(value.ok() ? json_response(200, json_of(*value)) : error_response(value.error()));
  };
}

// A request whose file is being opened. Its client may go meanwhile, which is told only once.
struct Waiting {
  http::Request request;
  http::Responder responder;
  bool client_is_gone = false;
};
std::shared_ptr<Waiting> wait_with(http::Request request, http::Responder responder) {
  auto waiting = std::make_shared<Waiting>(Waiting{std::move(request), std::move(responder)});
  waiting->responder.on_disconnect([weak = std::weak_ptr<Waiting>(waiting)] {
    if (const auto self = weak.lock()) self->client_is_gone = true;
  });
  return waiting;
}

Result<std::optional<Bytes>> number_in(std::string_view query, std::string_view name) {
  const std::string text = http::query_value(query, name);
  if (text.empty()) return std::optional<Bytes>();
  const auto number = parse_number<uint64_t>(text);
  // More could not be added up.
  if (number && *number < uint64_t{1} << 60) return std::optional(Bytes(*number));
  return Error{ErrorCode::kInvalidArgument,
               std::string(name) + " is a number of bytes, not '" + text + "'"};
}

// The answer's head, and the bytes that it announces; nothing: the file has none of them.
std::optional<DownloadRange> describe_download(const VolumeFile& file, std::string_view range_text,
                                               http::Response& head) {
  const uint64_t size = file.size.count;
  const auto range = requested_range(range_text, size);
  if (!range) {
    head = error_response(
        {ErrorCode::kOutOfRange, "the file has only " + std::to_string(size) + " bytes"});
    head.status = 416;
    head.headers.add("Content-Range", "bytes */" + std::to_string(size));
    return range;
  }
  head.headers.add("Content-Type", "application/octet-stream");
  head.headers.add("Accept-Ranges", "bytes");
  head.headers.add("ETag", "\"" + file.sha256 + "\"");
  if (range->is_part) {
    head.status = 206;
    head.headers.add("Content-Range", "bytes " + std::to_string(range->begin) + "-" +
                                          std::to_string(range->end - 1) + "/" +
                                          std::to_string(size));
  }
  return range;
}

std::string joined(const std::vector<std::string>& parts, size_t from) {
  std::string path;
  for (size_t i = from; i < parts.size(); ++i) path += (i == from ? "" : "/") + parts[i];
  return path;
}

}  // namespace

bool is_volume_path(std::string_view path) {
  return path == kVolumes || path.starts_with(std::string(kVolumes) + "/");
}

bool streams_volume(const http::Request& head) {
  const std::string_view path = http::path_of(head.target);
  if (!is_volume_path(path) || (head.method != "PUT" && head.method != "GET")) return false;
  const auto parts = path_parts(path);
  return parts && parts->size() > 4 && parts->at(3) == kFiles;
}

void VolumeFrontend::handle(const Caller& caller, http::Request request,
                            http::Responder responder) {
  const std::string path(http::path_of(request.target));
  const auto parts = path_parts(path);
  if (!parts) return responder.send(no_such_path(path));
  if (parts->size() == 2) {
    if (request.method != "GET") return responder.send(method_not_allowed(request.method, "GET"));
    json volumes = json::array();
    for (const VolumeStatus& volume : service_.list_volumes(caller.tenant)) {
      volumes.push_back(json_of(volume));
    }
    return responder.send(json_response(200, {{"volumes", std::move(volumes)}}));
  }
  const std::string& name = parts->at(2);
  if (parts->size() == 3) return handle_volume(caller, request, name, std::move(responder));
  const std::string& what = parts->at(3);
  if (what == kFiles && parts->size() == 4) {
    return list_files(caller, request, name, std::move(responder));
  }
  FilePlace place{.tenant = caller.tenant, .volume = name, .path = joined(*parts, 4)};
  if (what == kFiles)
    return handle_file(std::move(place), std::move(request), std::move(responder));
  if (what == kUploads && parts->size() > 4) {
    return find_upload(std::move(place), request, std::move(responder));
  }
  responder.send(no_such_path(path));
}

void VolumeFrontend::handle_volume(const Caller& caller, const http::Request& request,
                                   const std::string& name, http::Responder responder) {
  if (request.method == "PUT") {
    return service_.create_volume(caller.tenant, name,
                                  answer_to<VolumeStatus>(std::move(responder)));
  }
  if (request.method == "DELETE") {
    return service_.remove_volume(caller.tenant, name,
                                  answer_to<VolumeStatus>(std::move(responder)));
  }
  responder.send(method_not_allowed(request.method, "PUT, DELETE"));
}

void VolumeFrontend::list_files(const Caller& caller, const http::Request& request,
                                const std::string& name, http::Responder responder) {
  if (request.method != "GET") return responder.send(method_not_allowed(request.method, "GET"));
  const std::string_view query = http::query_of(request.target);
  const auto limit = page_limit(query, limits::kVolumeFilesPerPage);
  if (!limit.ok()) return responder.send(error_response(limit.error()));
  const auto files = service_.list_files(caller.tenant, name, http::query_value(query, "prefix"),
                                         http::query_value(query, "after"), *limit);
  if (!files.ok()) return responder.send(error_response(files.error()));
  json list = json::array();
  for (const VolumeFile& file : *files) list.push_back(json_of(file));
  json body{{"files", std::move(list)}};
  if (files->size() == *limit) body["next"] = files->back().path;
  responder.send(json_response(200, body));
}

void VolumeFrontend::handle_file(FilePlace place, http::Request request,
                                 http::Responder responder) {
  if (request.method == "PUT") {
    return put_file(std::move(place), std::move(request), std::move(responder));
  }
  if (request.method == "GET") return get_file(place, std::move(request), std::move(responder));
  if (request.method == "DELETE") {
    return service_.remove_files(place.tenant, place.volume, place.path,
                                 answer_to<RemovedFiles>(std::move(responder)));
  }
  responder.send(method_not_allowed(request.method, "GET, PUT, DELETE"));
}

void VolumeFrontend::find_upload(FilePlace place, const http::Request& request,
                                 http::Responder responder) {
  if (request.method != "GET") return responder.send(method_not_allowed(request.method, "GET"));
  const std::string_view query = http::query_of(request.target);
  const auto size = number_in(query, "size");
  if (!size.ok()) return responder.send(error_response(size.error()));
  service_.find_upload({.tenant = place.tenant,
                        .volume = std::move(place.volume),
                        .path = std::move(place.path),
                        .size = *size,
                        .sha256 = http::query_value(query, "sha256")},
                       answer_to<UploadStatus>(std::move(responder)));
}

void VolumeFrontend::put_file(FilePlace place, http::Request request, http::Responder responder) {
  const std::string_view query = http::query_of(request.target);
  const auto size = number_in(query, "size");
  if (!size.ok()) return responder.send(error_response(size.error()));
  const auto offset = number_in(query, "offset");
  if (!offset.ok()) return responder.send(error_response(offset.error()));
  UploadKey key{.tenant = place.tenant,
                .volume = std::move(place.volume),
                .path = std::move(place.path),
                .size = *size,
                .sha256 = http::query_value(query, "sha256")};
  const auto waiting = wait_with(std::move(request), std::move(responder));
  service_.begin_upload(std::move(key), offset->value_or(Bytes()),
                        [waiting](Result<std::shared_ptr<VolumeUpload>> upload) {
                          if (waiting->client_is_gone) return;
                          if (!upload.ok())
                            return waiting->responder.send(error_response(upload.error()));
                          receive_upload(waiting->request, std::move(waiting->responder),
                                         std::move(*upload), [](const UploadStatus& status) {
                                           return json_response(200, json_of(status));
                                         });
                        });
}

void VolumeFrontend::get_file(const FilePlace& place, http::Request request,
                              http::Responder responder) {
  const std::string wanted = http::query_value(http::query_of(request.target), "sha256");
  const auto waiting = wait_with(std::move(request), std::move(responder));
  service_.open_file(
      place.tenant, place.volume, place.path,
      [waiting, wanted](Result<std::shared_ptr<VolumeDownload>> download) {
        if (waiting->client_is_gone) return;
        http::Responder& responder = waiting->responder;
        if (!download.ok()) return responder.send(error_response(download.error()));
        const VolumeFile& file = (*download)->file();
        if (!wanted.empty() && wanted != file.sha256) {
          return responder.send(error_response(
              {ErrorCode::kAborted, "the file was replaced: its sha256 is " + file.sha256}));
        }
        http::Response head;
        const auto range = describe_download(file, waiting->request.headers.get("Range"), head);
        if (!range) return responder.send(std::move(head));
        send_download(std::move(*download), *range, std::move(head), std::move(responder));
      });
}

}  // namespace lambent::frontend
