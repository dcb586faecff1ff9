#include "edge/runtime_client/runtime_client.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <thread>

namespace lambent::runtime_client {
namespace {

// Accepts one connection after the other; for every request it records what came in with one read
// and sends the next of its answers; it closes a connection when the answer says so.
class FakeRuntimeApi {
 public:
  explicit FakeRuntimeApi(std::vector<std::string> answers) : answers_(std::move(answers)) {
    listener_ = OwnedFd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(address);
    EXPECT_EQ(bind(listener_.get(), reinterpret_cast<sockaddr*>(&address), size), 0);
    EXPECT_EQ(listen(listener_.get(), 4), 0);
    getsockname(listener_.get(), reinterpret_cast<sockaddr*>(&address), &size);
    address_ = "127.0.0.1:" + std::to_string(ntohs(address.sin_port));
    thread_ = std::thread([this] { serve(); });
  }
  ~FakeRuntimeApi() { join(); }

  void join() {
    if (thread_.joinable()) thread_.join();
  }
  const std::string& address() const { return address_; }
  const std::vector<std::string>& requests() const { return requests_; }

 private:
  void serve() {
    OwnedFd connection;
    for (const auto& answer : answers_) {
      if (!connection.valid()) {
        connection = OwnedFd(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
      }
      char buffer[65536];
      const ssize_t got = read(connection.get(), buffer, sizeof(buffer));
      requests_.emplace_back(buffer, std::max<ssize_t>(got, 0));
      EXPECT_TRUE(write_all(connection.get(), answer).ok());
      if (answer.find("Connection: close") != std::string::npos) connection.reset();
    }
  }

  OwnedFd listener_;
  std::string address_;
  std::vector<std::string> answers_;
  std::vector<std::string> requests_;
  std::thread thread_;
};

std::string next_answer(const std::string& id, const std::string& payload) {
  return "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nLambda-Runtime-Aws-Request-Id: " +
         id +
         "\r\nLambda-Runtime-Deadline-Ms: 5000\r\nLambda-Runtime-Trace-Id: t\r\n"
         "Lambda-Runtime-Invoked-Function-Arn: arn\r\nContent-Length: " +
         std::to_string(payload.size()) + "\r\n\r\n" + payload;
}
const std::string kAccepted = "HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n";

int serve_with(const FakeRuntimeApi& api, const std::function<Result<Handler>()>& make_handler) {
  setenv("AWS_LAMBDA_RUNTIME_API", api.address().c_str(), 1);
  return run(make_handler);
}

TEST(RuntimeClientTest, EveryRequestIsOneWriteAndInvocationsAreServedInOrder) {
  FakeRuntimeApi api(
      {next_answer("id-1", "{\"a\":1}"), kAccepted, next_answer("id-2", "boom"), kAccepted});
  const int code = serve_with(api, [] {
    return Result<Handler>([](const Invocation& invocation) -> Outcome {
      EXPECT_EQ(invocation.content_type, "application/json");
      EXPECT_EQ(invocation.deadline, milliseconds(5000));
      EXPECT_EQ(invocation.function_arn, "arn");
      EXPECT_EQ(invocation.trace_id, "t");
      if (invocation.payload == "boom") return HandlerError{"a \"bad\" day", "Bad\r\nDay"};
      return Response{"got " + std::string(invocation.payload), "text/plain"};
    });
  });
  api.join();
  EXPECT_NE(code, 0);  // the connection ended
  ASSERT_EQ(api.requests().size(), 4u);
  EXPECT_EQ(api.requests()[0].substr(0, 51),
            "GET /2018-06-01/runtime/invocation/next HTTP/1.1\r\nH");
  EXPECT_TRUE(api.requests()[1].starts_with(
      "POST /2018-06-01/runtime/invocation/id-1/response HTTP/1.1\r\n"));
  EXPECT_TRUE(api.requests()[1].ends_with("Content-Length: 11\r\n\r\ngot {\"a\":1}"));
  EXPECT_TRUE(api.requests()[3].starts_with("POST /2018-06-01/runtime/invocation/id-2/error "));
  EXPECT_NE(api.requests()[3].find("Lambda-Runtime-Function-Error-Type: Bad  Day\r\n"),
            std::string::npos);
  EXPECT_NE(api.requests()[3].find("{\"errorMessage\":\"a \\\"bad\\\" day\""), std::string::npos);
}

TEST(RuntimeClientTest, AnAnswerBringsTheNextInvocationWhereTheApiSendsIt) {
  FakeRuntimeApi api(
      {next_answer("1", "a"), next_answer("2", "bad"), next_answer("3", "c"), kAccepted});
  std::string served;
  serve_with(api, [&] {
    return Result<Handler>([&](const Invocation& invocation) -> Outcome {
      served += invocation.request_id + "=" + std::string(invocation.payload) + " ";
      if (invocation.payload == "bad") return HandlerError{"no", "Bad"};
      return Response{"{}"};
    });
  });
  api.join();
  EXPECT_EQ(served, "1=a 2=bad 3=c ");
  ASSERT_EQ(api.requests().size(), 4u);
  EXPECT_TRUE(api.requests()[0].starts_with("GET "));
  for (size_t i = 1; i < 4; ++i) {
    EXPECT_NE(api.requests()[i].find("\r\nLambent-Runtime-Next: wait\r\n"), std::string::npos) << i;
  }
  EXPECT_TRUE(api.requests()[2].starts_with("POST /2018-06-01/runtime/invocation/2/error "));
}

TEST(RuntimeClientTest, AFailedInitIsPosted) {
  FakeRuntimeApi api({kAccepted});
  const int code = serve_with(api, []() -> Result<Handler> {
    return Error{ErrorCode::kNotFound, "no weights"};
  });
  api.join();
  EXPECT_EQ(code, exit_code_of(ErrorCode::kNotFound));
  ASSERT_EQ(api.requests().size(), 1u);
  EXPECT_TRUE(api.requests()[0].starts_with("POST /2018-06-01/runtime/init/error "));
  EXPECT_NE(api.requests()[0].find("no weights"), std::string::npos);
}

TEST(RuntimeClientTest, ARefusedAnswerAndAClosedConnectionDoNotEndTheHandler) {
  FakeRuntimeApi api({next_answer("1", "x"),
                      "HTTP/1.1 413 Too Large\r\nConnection: close\r\nContent-Length: 2\r\n\r\nno",
                      next_answer("2", "x"), kAccepted});
  int served = 0;
  serve_with(api, [&] {
    return Result<Handler>([&](const Invocation&) -> Outcome {
      ++served;
      return Response{"{}"};
    });
  });
  api.join();
  EXPECT_EQ(served, 2);
}

TEST(RuntimeClientTest, ARefusalOfTheNextInvocationAfterAnAcceptedAnswerEndsTheHandler) {
  FakeRuntimeApi api({next_answer("1", "x"),
                      "HTTP/1.1 403 Forbidden\r\nLambent-Runtime-Answer: accepted\r\n"
                      "Connection: close\r\nContent-Length: 2\r\n\r\nno"});
  const int code = serve_with(api, [] {
    return Result<Handler>([](const Invocation&) -> Outcome { return Response{"{}"}; });
  });
  api.join();
  EXPECT_EQ(code, exit_code_of(ErrorCode::kUnavailable));
}

TEST(RuntimeClientTest, ALargePayloadArrivesWhole) {
  const std::string payload(3'000'000, 'p');
  FakeRuntimeApi api({next_answer("1", payload), kAccepted});
  size_t size = 0;
  serve_with(api, [&] {
    return Result<Handler>([&](const Invocation& invocation) -> Outcome {
      size = invocation.payload.size();
      return Response{"{}"};
    });
  });
  EXPECT_EQ(size, payload.size());
}

TEST(RuntimeClientTest, NoRuntimeApiIsAClearError) {
  EXPECT_EQ(Client::connect("nonsense").error().code, ErrorCode::kInvalidArgument);
  unsetenv("AWS_LAMBDA_RUNTIME_API");
  EXPECT_EQ(run(Handler{}), exit_code_of(ErrorCode::kFailedPrecondition));
}

}  // namespace
}  // namespace lambent::runtime_client
