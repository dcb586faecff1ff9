// AnswerSink: gets what a handler answers, piece by piece, while the invocation goes on. Shared by
// who waits for the answer and the session of the sandbox that gives it: either may end first. Loop
// thread only.
#pragma once

#include <functional>
#include <string_view>

namespace lambent::http {

class AnswerSink {
 public:
  virtual ~AnswerSink() = default;

  // Before the first piece; `content_type` as the handler's runtime says it, perhaps empty.
  virtual void begin(std::string_view content_type) = 0;
  // False: the client is behind, or gone. What was given is taken; on_room's callback tells when to
  // go on, or that the client is gone.
  virtual bool take(std::string_view bytes) = 0;
  virtual void on_room(std::function<void()> callback) = 0;
  virtual bool client_is_gone() const = 0;
};

}  // namespace lambent::http
