// One file of a volume on its way: from a client's request to an upload, and from a download to a
// client's answer. They live until their answer has gone or their client has. On the loop thread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string_view>

#include "core/domain/volume.h"
#include "core/http/server.h"

namespace lambent::frontend {

// A request's body goes to `upload`; `answer_of` makes the answer of what came of it.
void receive_upload(const http::Request& request, http::Responder responder,
                    std::shared_ptr<VolumeUpload> upload,
                    std::function<http::Response(const UploadStatus&)> answer_of);

// The bytes that a request asks for, of a file of that size: the whole without a Range, or with one
// that is not understood. Nothing: none of them are there.
struct DownloadRange {
  uint64_t begin = 0;
  uint64_t end = 0;  // behind the last
  bool is_part = false;

  bool operator==(const DownloadRange&) const = default;
};
std::optional<DownloadRange> requested_range(std::string_view range, uint64_t size);

// `head` without a body; the bytes of the range follow it.
void send_download(std::shared_ptr<VolumeDownload> download, const DownloadRange& range,
                   http::Response head, http::Responder responder);

}  // namespace lambent::frontend
