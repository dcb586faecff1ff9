#include "edge/frontend/volume_transfer.h"

#include <algorithm>
#include <string>
#include <utility>

#include "core/base/parse_number.h"
#include "core/domain/limits.h"
#include "core/http/streamed_exchange.h"
#include "edge/frontend/body_collector.h"
#include "edge/frontend/native_error.h"

namespace lambent::frontend {
namespace {

using AnswerOf = std::function<http::Response(const UploadStatus&)>;

// Keeps itself until it has answered or its client is gone.
class Receiving : public std::enable_shared_from_this<Receiving> {
 public:
  Receiving(http::Responder responder, std::shared_ptr<VolumeUpload> upload, AnswerOf answer_of)
      : responder_(std::move(responder)),
        upload_(std::move(upload)),
        answer_of_(std::move(answer_of)) {}

  void start(const http::Request& request) {
    self_ = shared_from_this();
    responder_.on_disconnect([weak = weak_from_this()] {
      if (const auto self = weak.lock()) self->end();
    });
    upload_->on_room([weak = weak_from_this()] {
      if (const auto self = weak.lock()) self->go_on();
    });
    http::StreamedExchange* stream = responder_.stream();
    if (stream == nullptr || !has_body(request.headers)) {
      take(request.body);
      return finish();
    }
    stream->receive({.on_bytes =
                         [weak = weak_from_this()](std::string_view bytes) {
                           if (const auto self = weak.lock()) self->take(bytes);
                         },
                     .on_end =
                         [weak = weak_from_this()] {
                           if (const auto self = weak.lock()) self->finish();
                         }});
  }

 private:
  void take(std::string_view bytes) {
    if (upload_ == nullptr) return;
    const bool has_room = upload_->write(bytes);
    if (upload_ == nullptr) return;
    if (upload_->failure()) return answer(error_response(*upload_->failure()));
    if (!has_room && responder_.stream() != nullptr) responder_.stream()->hold(true);
  }
  void go_on() {
    if (upload_ == nullptr) return;
    if (upload_->failure()) return answer(error_response(*upload_->failure()));
    if (responder_.stream() != nullptr) responder_.stream()->hold(false);
  }
  void finish() {
    if (upload_ == nullptr) return;
    upload_->finish([weak = weak_from_this()](const Result<UploadStatus>& status) {
      const auto self = weak.lock();
      if (self == nullptr || self->upload_ == nullptr) return;
      self->answer(status.ok() ? self->answer_of_(*status) : error_response(status.error()));
    });
  }
  void answer(http::Response response) {
    upload_.reset();
    responder_.send(std::move(response));
    end();
  }
  void end() {
    upload_.reset();
    self_.reset();
  }

  http::Responder responder_;
  std::shared_ptr<VolumeUpload> upload_;  // null: it has ended
  const AnswerOf answer_of_;
  std::shared_ptr<Receiving> self_;
};

// The same of the other way.
class Sending : public std::enable_shared_from_this<Sending> {
 public:
  Sending(http::Responder responder, std::shared_ptr<VolumeDownload> download, DownloadRange range)
      : responder_(std::move(responder)), download_(std::move(download)), range_(range) {}

  void start(http::Response head) {
    self_ = shared_from_this();
    responder_.on_disconnect([weak = weak_from_this()] {
      if (const auto self = weak.lock()) self->self_.reset();
    });
    http::StreamedExchange* stream = responder_.stream();
    head_ = std::move(head);
    if (stream != nullptr) {
      stream->start(head_, range_.end - range_.begin);
      stream->on_room([weak = weak_from_this()] {
        const auto self = weak.lock();
        if (self != nullptr && self->waits_) self->read_next();
      });
    }
    read_next();
  }

 private:
  void read_next() {
    waits_ = false;
    if (range_.begin >= range_.end) return finish();
    const uint64_t count = std::min(range_.end - range_.begin, limits::kVolumePiece.count);
    download_->read(Bytes(range_.begin), Bytes(count),
                    [weak = weak_from_this()](const Result<std::string>& bytes) {
                      if (const auto self = weak.lock()) self->send(bytes);
                    });
  }
  void send(const Result<std::string>& bytes) {
    // An answer that is shorter than was said is seen by its client.
    if (!bytes.ok() || bytes->empty()) return self_.reset();
    range_.begin += bytes->size();
    http::StreamedExchange* stream = responder_.stream();
    if (stream == nullptr) {
      head_.body += *bytes;
    } else if (!stream->send_bytes(*bytes) && range_.begin < range_.end) {
      waits_ = true;
      return;
    }
    read_next();
  }
  void finish() {
    if (http::StreamedExchange* stream = responder_.stream(); stream != nullptr) {
      stream->finish();
    } else {
      responder_.send(std::move(head_));
    }
    self_.reset();
  }

  http::Responder responder_;
  const std::shared_ptr<VolumeDownload> download_;
  DownloadRange range_;  // what is left
  http::Response head_;
  bool waits_ = false;  // for room
  std::shared_ptr<Sending> self_;
};

}  // namespace

void receive_upload(const http::Request& request, http::Responder responder,
                    std::shared_ptr<VolumeUpload> upload, AnswerOf answer_of) {
  std::make_shared<Receiving>(std::move(responder), std::move(upload), std::move(answer_of))
      ->start(request);
}

std::optional<DownloadRange> requested_range(std::string_view range, uint64_t size) {
  const DownloadRange whole{.begin = 0, .end = size};
  constexpr std::string_view kUnit = "bytes=";
  if (!range.starts_with(kUnit)) return whole;
  range.remove_prefix(kUnit.size());
  const size_t dash = range.find('-');
  if (dash == std::string_view::npos) return whole;
  const std::string_view first = range.substr(0, dash), last = range.substr(dash + 1);
  const auto last_number = parse_number<uint64_t>(last);
  if (first.empty()) {  // so many at the end
    if (!last_number) return whole;
    if (*last_number == 0) return std::nullopt;
    return DownloadRange{
        .begin = size - std::min(*last_number, size), .end = size, .is_part = true};
  }
  const auto begin = parse_number<uint64_t>(first);
  if (!begin) return whole;
  if (!last.empty() && (!last_number || *last_number < *begin)) return whole;
  if (*begin >= size) return std::nullopt;
  const uint64_t end = last_number && *last_number < size ? *last_number + 1 : size;
  return DownloadRange{.begin = *begin, .end = end, .is_part = true};
}

void send_download(std::shared_ptr<VolumeDownload> download, const DownloadRange& range,
                   http::Response head, http::Responder responder) {
  std::make_shared<Sending>(std::move(responder), std::move(download), range)
      ->start(std::move(head));
}

}  // namespace lambent::frontend
