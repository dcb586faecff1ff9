// A node's certificate over time: loaded, replaced, broken, expiring.
#include "core/tls/node_identity.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <map>
#include <vector>

#include "core/tls/testing/authority.h"
#include "core/tls/testing/stream_pair.h"

namespace lambent::tls {
namespace {

using testing::HasSubstr;

class Events final : public LogSink {
 public:
  void write(LogLevel, std::string_view event, std::initializer_list<LogField> fields) override {
    ++counts[std::string(event)];
    for (const LogField& field : fields) {
      if (const auto* text = std::get_if<std::string>(&field.value)) last += *text + " ";
    }
  }
  std::map<std::string, int> counts;
  std::string last;
};

// A clock whose days a test turns from today: certificates are compared with it, by us.
class TodaysClock final : public Clock {
 public:
  Instant now() const override { return Instant(passed); }
  Duration wall_now() const override { return start + passed; }
  Duration passed{};

 private:
  Duration start = SystemClock().wall_now();
};

class NodeIdentityTest : public testing::Test {
 protected:
  NodeIdentityTest() {
    char name[] = "/tmp/lambent-identity-XXXXXX";
    folder = mkdtemp(name);
    files.server = {.certificate = folder + "/own.pem",
                    .key = folder + "/own.key",
                    .authorities = folder + "/ca.pem"};
    files.clients = ClientCertificates::kAsked;
    files.peer_authorities = folder + "/ca.pem";
    write(authority.issue({.common_name = "first"}));
    write("ca.pem", authority.certificate());
  }
  ~NodeIdentityTest() override { std::filesystem::remove_all(folder); }

  void write(const std::string& name, const std::string& text) const {
    ASSERT_TRUE(write_file_atomically(folder + "/" + name, text, false).ok());
  }
  void write(const Issued& issued) const {
    write("own.pem", issued.certificate);
    write("own.key", issued.key);
  }
  void open() {
    auto opened = NodeIdentity::open(files, loop, log, [this](auto work, auto completion) {
      if (is_busy) return false;
      ++looks;
      work();
      return loop.post(std::move(completion));
    });
    ASSERT_TRUE(opened.ok()) << to_string(opened.error());
    identity = std::move(*opened);
  }
  void pass(Duration time) {
    clock.passed += time;
    for (int i = 0; i < 5; ++i) loop.run_once(Duration::zero());
  }
  // The common name that a connection sees, of a client that trusts our authority; empty: none.
  std::string shown_name() {
    auto client = ClientContext::make(credentials_of({}, authority.certificate()));
    auto [server_end, client_end] = connected_sockets();
    Side server{.stream = identity->acceptor()(std::move(server_end)), .received = {}};
    Side side{.stream = std::move(*client->encrypt(std::move(client_end), "localhost")),
              .received = {}};
    for (int i = 0; i < 6; ++i) {
      side.receive();
      server.receive();
    }
    return side.stream->peer_certificate() == nullptr
               ? ""
               : side.stream->peer_certificate()->common_name;
  }

  TodaysClock clock;
  loop::EventLoop loop{clock};
  Events log;
  Authority authority{"ca"};
  std::string folder;
  NodeFiles files;
  bool is_busy = false;
  int looks = 0;
  std::unique_ptr<NodeIdentity> identity;
};

TEST_F(NodeIdentityTest, ChangedFilesAreLoadedByThemselves) {
  open();
  EXPECT_EQ(shown_name(), "first");
  pass(seconds(5));
  EXPECT_EQ(looks, 1);
  EXPECT_EQ(identity->statistics().reloads, 0U);
  write(authority.issue({.common_name = "second"}));
  EXPECT_EQ(shown_name(), "first");
  pass(seconds(5));
  EXPECT_EQ(shown_name(), "second");
  EXPECT_EQ(identity->statistics().reloads, 1U);
  EXPECT_EQ(log.counts["tls_reload"], 1);
}

TEST_F(NodeIdentityTest, AReloadThatIsAskedForComesAtOnceAndIsToldInAnyCase) {
  open();
  identity->reload();
  pass({});
  EXPECT_EQ(log.counts["tls_reload"], 1);
  write(authority.issue({.common_name = "second"}));
  identity->reload();
  identity->reload();
  pass({});
  EXPECT_EQ(shown_name(), "second");
  EXPECT_EQ(log.counts["tls_reload"], 3);
  EXPECT_EQ(identity->statistics().reloads, 1U);
}

TEST_F(NodeIdentityTest, AReloadIsNotLostWhereTheDiskIsBusy) {
  open();
  write(authority.issue({.common_name = "second"}));
  is_busy = true;
  identity->reload();
  pass({});
  EXPECT_EQ(shown_name(), "first");
  is_busy = false;
  pass(seconds(5));
  EXPECT_EQ(shown_name(), "second");
}

TEST_F(NodeIdentityTest, WhatIsBrokenIsToldOnceAndTheOldOneStaysInUse) {
  open();
  const Issued second = authority.issue({.common_name = "second"});
  int failures = 0;
  const auto stays = [&](const char* what) {
    pass(seconds(5));
    pass(seconds(5));
    EXPECT_EQ(shown_name(), "first") << what;
    EXPECT_EQ(log.counts["tls_reload_failed"], ++failures) << what;
    EXPECT_EQ(identity->statistics().failed_reloads, static_cast<uint64_t>(failures));
  };
  write("own.pem", second.certificate);
  stays("a certificate without its key");
  write("own.pem", "");
  stays("an empty file");
  std::filesystem::remove(folder + "/own.pem");
  stays("no file");
  write("own.pem", second.certificate.substr(0, 300));
  stays("half a certificate");
  write(authority.issue({.common_name = "expired", .valid_until = -seconds(60)}));
  stays("an expired one");
  write(authority.issue({.common_name = "early", .valid_from = std::chrono::hours(1)}));
  stays("one that is not valid yet");
  write(second);
  write("ca.pem", "nonsense");
  stays("no authorities");
  EXPECT_THAT(log.last, HasSubstr("ca.pem"));
  write("ca.pem", authority.certificate());
  pass(seconds(5));
  EXPECT_EQ(shown_name(), "second");
  EXPECT_EQ(log.counts["tls_reload_failed"], failures);
}

TEST_F(NodeIdentityTest, ConnectionsThatBeganBeforeAReloadGoOn) {
  open();
  auto client = ClientContext::make(credentials_of({}, authority.certificate()));
  auto [server_end, client_end] = connected_sockets();
  Side server{.stream = identity->acceptor()(std::move(server_end)), .received = {}};
  Side side{.stream = std::move(*client->encrypt(std::move(client_end), "localhost")),
            .received = {}};
  for (int i = 0; i < 6; ++i) {
    side.receive();
    server.receive();
  }
  write(authority.issue({.common_name = "second"}));
  pass(seconds(5));
  ASSERT_EQ(identity->statistics().reloads, 1U);
  EXPECT_EQ(side.send("still here"), 10U);
  server.receive();
  EXPECT_EQ(server.received, "still here");
}

TEST_F(NodeIdentityTest, ThoseWhomNoAuthorityVouchesForAnyMoreAreRefusedAfterAReload) {
  const Issued peer = authority.issue({.common_name = "peer"});
  open();
  const auto connector = identity->connector();
  const auto is_taken = [&] {
    auto [server_end, client_end] = connected_sockets();
    auto context = ServerContext::make(credentials_of(peer), ClientCertificates::kNotAsked);
    HandshakeCounts counts;
    Side server{.stream = context->encrypt(std::move(server_end), counts), .received = {}};
    Side side{.stream = std::move(*connector(std::move(client_end), "localhost")), .received = {}};
    for (int i = 0; i < 6; ++i) {
      side.receive();
      server.receive();
    }
    return !side.has_failed();
  };
  EXPECT_TRUE(is_taken());
  write("ca.pem", Authority("another").certificate());
  pass(seconds(5));
  EXPECT_FALSE(is_taken());
}

TEST_F(NodeIdentityTest, TheEndOfACertificateIsWarnedOfFromTwoWeeksBefore) {
  write(authority.issue({.valid_until = std::chrono::hours(24 * 20)}));
  open();
  EXPECT_NEAR(to_seconds(identity->statistics().expires_at - clock.wall_now()), 20 * 86400, 60);
  EXPECT_EQ(log.counts["tls_certificate_expires"], 0);
  pass(std::chrono::hours(24 * 5));
  EXPECT_EQ(log.counts["tls_certificate_expires"], 0);
  pass(std::chrono::hours(24 * 2));
  EXPECT_EQ(log.counts["tls_certificate_expires"], 1);
  pass(std::chrono::hours(6));
  EXPECT_EQ(log.counts["tls_certificate_expires"], 1);
  pass(std::chrono::hours(7));
  EXPECT_EQ(log.counts["tls_certificate_expires"], 2);
  pass(std::chrono::hours(24 * 14));
  EXPECT_EQ(log.counts["tls_certificate_not_valid"], 1);
}

TEST_F(NodeIdentityTest, FailedHandshakesAreToldTogether) {
  open();
  for (int i = 0; i < 30; ++i) {
    auto [server_end, client_end] = connected_sockets();
    const auto stream = identity->acceptor()(std::move(server_end));
  }
  EXPECT_EQ(log.counts["tls_handshakes_failed"], 0);
  pass(seconds(5));
  pass(seconds(5));
  EXPECT_EQ(log.counts["tls_handshakes_failed"], 1);
  EXPECT_EQ(identity->statistics().handshakes.failed, 30U);
}

TEST_F(NodeIdentityTest, WithoutACertificateThereIsOnlyTheSideOfAClient) {
  files = {.server = {}, .peer_authorities = folder + "/ca.pem"};
  open();
  EXPECT_FALSE(identity->has_server());
  pass(std::chrono::hours(24));
  EXPECT_EQ(log.counts["tls_certificate_not_valid"], 0);
  auto [server_end, client_end] = connected_sockets();
  EXPECT_TRUE(identity->connector()(std::move(client_end), "localhost").ok());
}

TEST_F(NodeIdentityTest, ItDoesNotStartWithFilesThatCannotBeUsed) {
  write("own.key", "nonsense");
  const auto opened = NodeIdentity::open(files, loop, log, [](auto, auto) { return false; });
  ASSERT_FALSE(opened.ok());
  EXPECT_EQ(opened.error().code, ErrorCode::kInvalidArgument);
  EXPECT_THAT(opened.error().message, HasSubstr("own.key"));
}

}  // namespace
}  // namespace lambent::tls
