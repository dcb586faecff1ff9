// VolumeFrontend: /v1/volumes on a VolumeService. Contents of files stream, both ways, at the pace
// of the slower side. On the loop thread.
#pragma once

#include <string_view>

#include "core/domain/volume.h"
#include "core/http/server.h"
#include "edge/frontend/caller.h"

namespace lambent::frontend {

bool is_volume_path(std::string_view path);
// Whether it sends or asks for the content of a file (http::ServerOptions::streams).
bool streams_volume(const http::Request& head);

class VolumeFrontend {
 public:
  // The service outlives the frontend; the frontend may go while answers are still out.
  explicit VolumeFrontend(VolumeService& service) : service_(service) {}

  void handle(const Caller& caller, http::Request request, http::Responder responder);

 private:
  // Of one file: what its content goes through.
  struct FilePlace {
    TenantId tenant;
    std::string volume;
    std::string path;
  };
  void handle_volume(const Caller& caller, const http::Request& request, const std::string& name,
                     http::Responder responder);
  void list_files(const Caller& caller, const http::Request& request, const std::string& name,
                  http::Responder responder);
  void handle_file(FilePlace place, http::Request request, http::Responder responder);
  void find_upload(FilePlace place, const http::Request& request, http::Responder responder);
  void put_file(FilePlace place, http::Request request, http::Responder responder);
  void get_file(const FilePlace& place, http::Request request, http::Responder responder);

  VolumeService& service_;
};

}  // namespace lambent::frontend
