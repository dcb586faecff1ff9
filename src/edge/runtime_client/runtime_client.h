// The AWS Lambda Runtime API for native handlers: run(handler) asks for invocations, one at a time,
// and posts what the handler returns. Everything runs on the thread that calls run().
// An answer asks for the next invocation too, which Lambent's Runtime API sends in reply; one that
// only accepts the answer, as AWS's does, is asked in an exchange of its own.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <variant>

#include "core/base/fd.h"
#include "core/base/result.h"
#include "core/base/time.h"

namespace lambent::runtime_client {

// Views are good until the handler returns.
struct Invocation {
  std::string request_id;
  std::string_view payload;
  std::string content_type;
  std::string function_arn;
  std::string trace_id;
  Duration deadline{};  // since the Unix epoch

  Duration remaining(const Clock& clock) const { return deadline - clock.wall_now(); }
};

struct Response {
  std::string payload;
  std::string content_type = "application/json";
};

// Reported to the caller as errorType and errorMessage.
struct HandlerError {
  std::string message;
  std::string type = "Runtime.HandlerError";
};

using Outcome = std::variant<Response, HandlerError>;
using Handler = std::function<Outcome(const Invocation&)>;

// The exchanges one by one, over one connection that is opened again when the other side closes it.
class Client {
 public:
  // `address` is "host:port", as in AWS_LAMBDA_RUNTIME_API.
  static Result<Client> connect(const std::string& address);

  Client(Client&&) noexcept;
  ~Client();

  // Waits for the next invocation, as long as it takes.
  Result<Invocation> next();
  Result<void> fail_init(const HandlerError& error);
  // Answers `request_id` and waits for the next invocation. If the answer is refused (too large:
  // kOutOfRange; too late: kFailedPrecondition), next() waits for it.
  Result<Invocation> answer_and_next(std::string_view request_id, const Outcome& outcome);

 private:
  explicit Client(std::string address);

  struct Exchange;
  Result<void> reconnect();
  // Sends request_ in one write and reads the answer.
  Result<void> exchange();
  // Sends request_ and expects "accepted".
  Result<void> post();
  // What the last exchange brought.
  Result<void> check_accepted() const;
  Result<Invocation> received_invocation() const;
  void begin_request(std::string_view method, std::string_view path);
  void end_request(std::string_view content_type, std::string_view extra, std::string_view body);

  std::string address_;
  OwnedFd connection_;
  std::string request_;
  // Behind pointers: the views into the buffer stay good when a Client moves.
  std::unique_ptr<Exchange> exchange_;
};

// Connects to AWS_LAMBDA_RUNTIME_API, makes the handler, and serves until the connection ends; the
// exit code for main. `make_handler` is the function's init: its error is posted as init error.
int run(const std::function<Result<Handler>()>& make_handler);
int run(const Handler& handler);

}  // namespace lambent::runtime_client
