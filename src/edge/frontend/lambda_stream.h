// LambdaStream: the answer to InvokeWithResponseStream: what the function streams as frames of an
// event stream, and at its end how it went. On the loop thread.
#pragma once

#include <functional>
#include <memory>
#include <string_view>

#include "core/base/error.h"
#include "core/base/ids.h"
#include "core/domain/invocation.h"
#include "core/http/answer_sink.h"
#include "core/http/event_stream.h"
#include "core/http/server.h"

namespace lambent::frontend {

// The last event of a stream whose function's node was lost.
http::EventFrame lost_stream_end(const Error& error);

class LambdaStream final : public http::AnswerSink,
                           public std::enable_shared_from_this<LambdaStream> {
 public:
  struct Options {
    InvocationId id;
    bool log_tail = false;  // the last frame has the end of the log
  };
  LambdaStream(Options options, http::Responder responder)
      : options_(options), responder_(std::move(responder)) {}

  // `on_gone` is called if the client goes away before the end.
  void listen(std::function<void()> on_gone);

  void begin(std::string_view content_type) override;
  bool take(std::string_view bytes) override;
  void on_room(std::function<void()> callback) override { room_ = std::move(callback); }
  bool client_is_gone() const override { return is_gone_; }

  // Whether the answer has begun: it is 200 then, whatever comes.
  bool has_begun() const { return stream_ != nullptr; }
  void finish(const InvocationResult& result);
  // Instead: what did not run.
  void send(http::Response response);

 private:
  void start();
  void go_on();
  void drop();

  const Options options_;
  http::Responder responder_;
  http::StreamedExchange* stream_ = nullptr;
  std::function<void()> room_;
  bool is_gone_ = false;
};

}  // namespace lambent::frontend
