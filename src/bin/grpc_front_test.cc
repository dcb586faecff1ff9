#include "bin/grpc_front.h"

#include <gmock/gmock.h>

#include <functional>
#include <string>
#include <variant>
#include <vector>

#include "core/base/testing/testing.h"

namespace lambent {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::IsSupersetOf;
using testing::Not;

TEST(GrpcArguments, AskTheWorkerWhereItListens) {
  ListenOptions options;
  options.grpc = "127.0.0.1:1";
  EXPECT_THAT(grpc_arguments("/p", options, "http://127.0.0.1:8980"),
              ElementsAre("/p", "--until-input-ends", "--listen", "127.0.0.1:1", "--worker",
                          "http://127.0.0.1:8980"));
  EXPECT_THAT(grpc_arguments("/p", options, "http://0.0.0.0:2"), Contains("http://127.0.0.1:2"));
  EXPECT_THAT(grpc_arguments("/p", options, "http://[::]:2"), Contains("http://[::1]:2"));
  options.grpc_worker = "https://node.example:3";
  options.grpc_worker_authorities = "a.pem";
  EXPECT_THAT(grpc_arguments("/p", options, "https://0.0.0.0:2"),
              IsSupersetOf({"https://node.example:3", "--worker-ca", "a.pem"}));
}

TEST(GrpcArguments, HaveTheWorkersCertificateAndNoneOfClients) {
  ListenOptions options;
  options.grpc = "0.0.0.0:1";
  options.tls.server = {.certificate = "c.pem", .key = "k.pem", .authorities = "a.pem"};
  const auto words = grpc_arguments("/p", options, "https://0.0.0.0:2");
  EXPECT_THAT(words, IsSupersetOf({"--tls-certificate", "c.pem", "--tls-key", "k.pem"}));
  EXPECT_THAT(words, Not(Contains("--tls-client-ca")));
  EXPECT_THAT(words, Not(Contains("--insecure-open-to-network")));
  options.open_to_network = true;
  EXPECT_THAT(grpc_arguments("/p", options, ""), Contains("--insecure-open-to-network"));
}

class Lines final : public LogSink {
 public:
  void write(LogLevel, std::string_view event, std::initializer_list<LogField> fields) override {
    lines.emplace_back(event);
    for (const LogField& field : fields) {
      if (const auto* text = std::get_if<std::string>(&field.value)) lines.back() += " " + *text;
      if (const auto* number = std::get_if<int64_t>(&field.value)) {
        lines.back() += " " + std::to_string(*number);
      }
    }
  }
  std::vector<std::string> lines;
};

class GrpcFrontTest : public testing::Test {
 protected:
  GrpcFrontOptions options(const std::string& command) const {
    return {.arguments = {"/bin/sh", "-c", command},
            .address_file = folder_.path() + "/address",
            .first_back_off = milliseconds(1)};
  }
  std::string file(const std::string& name) const {
    const auto text = read_file(folder_.path() + "/" + name, 4096);
    return text.ok() ? *text : std::string();
  }
  void wait_until(const std::function<bool()>& condition) {
    for (int i = 0; i < 3000 && !condition(); ++i) loop_.run_once(milliseconds(10));
    ASSERT_TRUE(condition());
  }

  TemporaryFolder folder_;
  SystemClock clock_;
  Lines log_;
  loop::EventLoop loop_{clock_};
};

TEST_F(GrpcFrontTest, IsStartedAgainWhenItEnds) {
  const std::string count = folder_.path() + "/count";
  const GrpcFront front(loop_, log_, options("echo x >> " + count + "; echo no luck >&2; exit 3"));
  wait_until([&] { return file("count").size() >= 6; });
  EXPECT_THAT(log_.lines, IsSupersetOf({"grpc no luck", "grpc_ended 3"}));
}

TEST_F(GrpcFrontTest, TellsWhereItListensAndEndsWithItsOwner) {
  {
    const GrpcFront front(loop_, log_,
                          options("trap 'echo ended > " + folder_.path() +
                                  "/end; exit 0' TERM; echo lambent-grpc: listening on h:1; "
                                  "while :; do sleep 0.01; done"));
    wait_until([&] { return file("address") == "h:1\n"; });
  }
  EXPECT_THAT(log_.lines, ElementsAre("grpc_listening h:1"));
  EXPECT_EQ(file("end"), "ended\n");
}

}  // namespace
}  // namespace lambent
