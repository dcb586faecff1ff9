#include "edge/frontend/audited_responder.h"

#include <memory>
#include <utility>

#include "core/http/exchange.h"
#include "edge/frontend/native_error.h"

namespace lambent::frontend {
namespace {

Error not_recorded(const Error& why) {
  return {why.code, "done, but the audit log could not be written (" + why.message +
                        "); what the answer had is withheld: mend that, then ask again"};
}

class AuditedExchange final : public http::Responder::Exchange,
                              public std::enable_shared_from_this<AuditedExchange> {
 public:
  AuditedExchange(http::Responder inner, AuditRecord record, AuditSink sink)
      : inner_(std::make_shared<http::Responder>(std::move(inner))),
        record_(std::move(record)),
        sink_(std::move(sink)) {}

  void send(http::Response response) override {
    record_.status = response.status;
    recorded_ = true;
    // Kept by the callback, which must be copyable; the client's end is seen meanwhile.
    auto kept = std::make_shared<http::Response>(std::move(response));
    sink_(std::move(record_), [inner = inner_, kept](const Result<void>& written) {
      const bool is_withheld = !written.ok() && kept->status < 400;
      inner->send(is_withheld ? error_response(not_recorded(written.error())) : std::move(*kept));
    });
  }
  // What changes something answers in one piece.
  void start_chunked(http::Response head) override {
    record_.status = head.status;
    recorded_ = true;
    sink_(std::move(record_), [](const Result<void>&) {});
    inner_->start_chunked(std::move(head));
  }
  bool send_chunk(std::string_view data) override { return inner_->send_chunk(data); }
  void finish_chunked() override { inner_->finish_chunked(); }
  void on_disconnect(std::function<void()> callback) override {
    inner_->on_disconnect(std::move(callback));
  }
  // Its answer goes by send(), in one piece.
  http::StreamedExchange* stream() override { return inner_->stream(); }
  http::StreamedExchange* answer_stream() override { return inner_->answer_stream(); }
  // The client gets 500 from the responder within.
  void abandon() override {
    inner_ = nullptr;
    if (recorded_) return;
    record_.status = 500;
    sink_(std::move(record_), [](const Result<void>&) {});
  }

 private:
  std::shared_ptr<http::Responder> inner_;
  AuditRecord record_;
  AuditSink sink_;
  bool recorded_ = false;
};

}  // namespace

http::Responder audited(http::Responder responder, AuditRecord record, AuditSink sink) {
  return http::Responder(
      std::make_shared<AuditedExchange>(std::move(responder), std::move(record), std::move(sink)));
}

}  // namespace lambent::frontend
