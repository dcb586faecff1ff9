// Session: the AWS Lambda Runtime API (2018-06-01) for one sandbox, on the listening socket that
// the sandbox room hands out. Used by the worker on its loop thread; one session per sandbox.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/fd.h"
#include "core/base/ids.h"
#include "core/base/time.h"
#include "core/domain/limits.h"
#include "core/http/answer_sink.h"
#include "core/http/server.h"
#include "core/loop/event_loop.h"

namespace lambent::runtime_api {

// What the runtime is given to work on. Empty fields are not sent.
struct RuntimeInvocation {
  InvocationId id;
  milliseconds deadline{};  // since the Unix epoch; must be positive
  // Not zero: its device memory is on its way, and it has so long from memory_came() on. What is
  // said before that is how long it has at least.
  Duration timeout_with_memory{};
  std::string payload;
  std::string content_type;    // empty: application/json
  std::string trace_id;        // X-Ray form
  std::string client_context;  // decoded JSON
  std::string function_arn;
};

struct SessionOptions {
  std::string function_name;  // told to extensions that register
  std::string handler;
  Bytes max_response = limits::kResponsePayload;
  // Invocations that the runtime may have and not have answered. Most have one; a runtime that may
  // have more asks for the next while it still works, on one connection or on several.
  size_t most_running = 1;
};

// How long a runtime may take to ask for work after an answer that could not be taken.
constexpr Duration kReturnTime = seconds(2);

// What another process needs to go on with a runtime that waits for work.
struct HandedOverRuntime {
  OwnedFd listener;
  std::vector<OwnedFd> waiting;  // the connections on which it waits, the oldest first
  std::vector<OwnedFd> resting;
};

// Called on the loop thread; any of them may destroy the session, and any may be empty.
struct Callbacks {
  // The runtime asks for work: the first time when it has initialised, then whenever it is idle.
  std::function<void()> on_ready;
  // Of an answer that went to a sink, nothing is left.
  std::function<void(InvocationId, std::string body, std::string content_type)> on_response;
  // Where an answer that the runtime streams goes; null: it is wanted whole.
  std::function<std::shared_ptr<http::AnswerSink>(InvocationId)> sink_of;
  // The handler failed, or its answer could not be taken. `body` is Lambda's error JSON.
  std::function<void(InvocationId, std::string body, std::string error_type)> on_error;
  // The runtime could not initialise and will exit; or (Sandbox.Failure) its socket is no good.
  std::function<void(std::string body, std::string error_type)> on_init_error;
  // A call on objects: `path` is what follows /lambent/2026-11/objects. Empty: there are none.
  std::function<void(http::Request, std::string_view path, http::Responder)> on_object;
  // An answer was refused, and the runtime did not come back for work within kReturnTime: whatever
  // it does, it would not take an invocation.
  std::function<void()> on_stuck;
  // A connection on which the runtime waited for work is gone: the runtime most likely exits. If it
  // connects again, on_ready is called again.
  std::function<void()> on_disconnect;
};

class Session {
 public:
  // Takes a listening socket.
  Session(loop::EventLoop& loop, OwnedFd listener, SessionOptions options, Callbacks callbacks);
  // Goes on with a runtime that has initialised; on_ready is called from here.
  Session(loop::EventLoop& loop, HandedOverRuntime runtime, SessionOptions options,
          Callbacks callbacks);
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  // Whether the runtime waits for work in a call for the next invocation.
  bool is_idle() const { return !parked_.empty(); }
  // Whether it has an invocation that it did not answer yet.
  bool is_running() const { return !running_.empty(); }
  // Whether it was given invocations that the runtime has not asked for yet.
  bool has_undelivered() const { return !pending_.empty(); }
  // Takes them back.
  std::deque<RuntimeInvocation> take_undelivered() { return std::exchange(pending_, {}); }
  // Hands an invocation to the runtime: at once if it is idle, else when it next asks for work. At
  // most so many (most_running) may be given and not answered yet.
  void give(RuntimeInvocation invocation);
  // The device memory of those that waited for it is there.
  void memory_came();
  // It has its outcome: whatever the runtime says of it comes too late.
  void abandon(InvocationId invocation);
  // Gives up a runtime that waits for work; the session is good for nothing afterwards. None: it
  // does not, or something else than it waits for an answer, so that it can only be ended.
  std::optional<HandedOverRuntime> hand_over();

 private:
  struct Running {
    InvocationId id;
    std::string text;
    milliseconds deadline{};
    Duration timeout_with_memory{};
  };
  struct Streaming;
  struct Parked {
    void refuse(http::Response refusal);

    uint64_t number;
    http::Responder responder;
    bool answered;  // by an answer that was accepted
  };

  void hand_out(RuntimeInvocation invocation);
  void handle(http::Request request, http::Responder responder);
  // `answered`: by an answer that asks for it and was accepted.
  void handle_next(http::Responder responder, bool answered);
  void handle_invocation(std::string_view rest, http::Request request, http::Responder responder);
  void handle_deadline(std::string_view id, http::Responder responder);
  milliseconds from_now(Duration timeout) const;
  void handle_response(std::string_view id, http::Request request, http::Responder responder);
  void handle_stream(std::string_view id, http::Request request, http::Responder responder);
  Streaming* find_streaming(std::string_view id) const;
  void stream_bytes(std::string_view id, std::string_view bytes);
  void stream_room(std::string_view id);
  void stream_ended(std::string_view id);
  void stream_broke(std::string_view id);
  void stream_unwanted(std::string_view id);
  std::unique_ptr<Streaming> take_streaming(std::string_view id);
  void handle_error(std::string_view id, http::Request request, http::Responder responder);
  static void accept(const std::shared_ptr<Session*>& self, bool asks, http::Responder responder);
  void handle_init_error(http::Request request, http::Responder responder);
  void handle_extension(std::string_view rest, const http::Request& request,
                        http::Responder responder);
  const Running* find_running(std::string_view id) const;
  // It is answered.
  InvocationId take_running(std::string_view id);
  // Ends this running invocation with an error of the platform's.
  void fail_running(std::string_view id, std::string_view error_type, std::string_view message);
  void expect_return();
  const Running* answered_by(const http::Request& partial) const;
  http::Response refuse(int status, std::string_view reason, const http::Request& partial);
  void on_truncated(const http::Request& partial);

  loop::EventLoop& loop_;
  const SessionOptions options_;
  const Callbacks callbacks_;
  bool has_asked_ = false;        // for work, once at least: it has initialised
  std::vector<Running> running_;  // the oldest first
  // Answers of running ones that are being streamed.
  std::vector<std::unique_ptr<Streaming>> streaming_;
  std::deque<Parked> parked_;  // calls for the next invocation, the oldest first
  uint64_t next_parked_ = 0;
  std::deque<RuntimeInvocation> pending_;  // given before the runtime asked
  std::map<uint64_t, http::Responder> parked_extensions_;
  uint64_t next_extension_ = 0;
  loop::TimerId return_timer_;  // until it asks for work after an answer that was refused
  // Points to this until the session ends; the server may live a turn longer, so that callbacks may
  // destroy the session. Shared with the server's handlers.
  std::shared_ptr<Session*> self_;
  std::unique_ptr<http::Server> server_;
};

}  // namespace lambent::runtime_api
