#include "edge/frontend/cluster_volumes.h"

#include <memory>
#include <utility>

#include "core/base/parse_number.h"
#include "core/crypto/crypto.h"
#include "core/domain/limits.h"
#include "core/domain/volume_source.h"
#include "edge/frontend/native_error.h"
#include "edge/frontend/native_path.h"
#include "edge/frontend/offload.h"
#include "edge/frontend/volume_copy.h"

namespace lambent::frontend {
namespace {

http::Response answer_of(std::string json) {
  http::Response response;
  response.headers.add("Content-Type", "application/json");
  response.body = std::move(json);
  return response;
}

Result<Bytes> number_in(std::string_view query, std::string_view name) {
  const auto number = parse_number<uint64_t>(http::query_value(query, name));
  if (number) return Bytes(*number);
  return Error{ErrorCode::kInvalidArgument, std::string(name) + " is a number of bytes"};
}

// Which bytes of which file.
struct PartCall {
  std::string path;
  std::string sha256;
  Bytes offset;
  Bytes count;
};
Result<PartCall> read_part_call(std::string_view query) {
  PartCall call{.path = http::query_value(query, "path"),
                .sha256 = http::query_value(query, "sha256")};
  ASSIGN_OR_RETURN(call.offset, number_in(query, "offset"));
  ASSIGN_OR_RETURN(call.count, number_in(query, "count"));
  if (call.count > Bytes() && call.count <= kVolumePart) return call;
  return Error{ErrorCode::kInvalidArgument,
               "a part has 1 to " + std::to_string(kVolumePart.count) + " bytes"};
}

// Shared between the thread that computes and the loop.
struct Part {
  http::Responder responder;
  std::string bytes;
  std::string digest = {};
};

void send_part(const std::shared_ptr<Part>& part) {
  http::Response response;
  response.headers.add("Content-Type", "application/octet-stream");
  response.headers.add("X-Lambent-Digest", part->digest);
  response.body = std::move(part->bytes);
  part->responder.send(std::move(response));
}

}  // namespace

void ClusterVolumes::handle(const http::Request& request, const std::vector<std::string>& parts,
                            http::Responder responder) {
  if (parts.size() == 3) return list(request, responder);
  const auto tenant = parts.size() == 6 ? access_.find_tenant(parts[3])
                                        : Result<Tenant>(Error{ErrorCode::kNotFound, "no path"});
  if (!tenant.ok()) return responder.send(error_response(tenant.error()));
  handle(tenant->id, parts[4], parts[5], request, std::move(responder));
}

void ClusterVolumes::handle(TenantId tenant, const std::string& volume, const std::string& what,
                            const http::Request& request, http::Responder responder) {
  if (what == "files") return files(tenant, volume, request, responder);
  if (what == "content") return content(tenant, volume, request, std::move(responder));
  responder.send(no_such_path(std::string(http::path_of(request.target))));
}

void ClusterVolumes::list(const http::Request& request, http::Responder& responder) {
  std::vector<ToldVolume> told;
  for (const Tenant& tenant : access_.list_tenants("", SIZE_MAX)) {
    for (VolumeStatus& volume : volumes_.list_volumes(tenant.id)) {
      told.push_back({tenant.name, std::move(volume)});
    }
  }
  const VolumeList list = volume_list_of(std::move(told));
  if (http::query_value(http::query_of(request.target), "known") == list.version) {
    http::Response same;
    same.status = 304;
    return responder.send(std::move(same));
  }
  responder.send(answer_of(json_text_of(list)));
}

void ClusterVolumes::files(TenantId tenant, const std::string& volume, const http::Request& request,
                           http::Responder& responder) {
  const std::string after = http::query_value(http::query_of(request.target), "after");
  auto files = volumes_.list_files(tenant, volume, "", after, limits::kVolumeFilesPerPage);
  if (!files.ok()) return responder.send(error_response(files.error()));
  VolumePage page{.is_last = files->size() < limits::kVolumeFilesPerPage};
  page.files = *std::move(files);
  for (const VolumeStatus& each : volumes_.list_volumes(tenant)) {
    if (each.name == volume) page.version = each.version;
  }
  responder.send(answer_of(json_text_of(page)));
}

void ClusterVolumes::content(TenantId tenant, const std::string& volume,
                             const http::Request& request, http::Responder responder) {
  const auto call = read_part_call(http::query_of(request.target));
  if (!call.ok()) return responder.send(error_response(call.error()));
  auto part = std::make_shared<Part>(Part{std::move(responder), {}});
  volumes_.open_file(
      tenant, volume, call->path,
      [part, call = *call, offload = offload_](Result<std::shared_ptr<VolumeDownload>> opened) {
        if (!opened.ok()) return part->responder.send(error_response(opened.error()));
        const VolumeFile& file = (*opened)->file();
        const bool is_it = file.sha256 == call.sha256;
        if (!is_it || call.offset >= file.size || call.count > file.size - call.offset) {
          return part->responder.send(
              error_response({ErrorCode::kAborted, "another file is there under that path"}));
        }
        // Held by the read: a download that goes tells nothing more.
        (*opened)->read(
            call.offset, call.count,
            [part, call, offload, held = *opened](Result<std::string> bytes) {
              if (!bytes.ok()) return part->responder.send(error_response(bytes.error()));
              part->bytes = *std::move(bytes);
              const bool queued =
                  offload([part] { part->digest = crypto::to_hex(crypto::sha256(part->bytes)); },
                          [part] { send_part(part); });
              if (queued) return;
              part->responder.send(error_response(overloaded()));
            });
      });
}

}  // namespace lambent::frontend
