// TLS between two ends of a pair of sockets: who is taken for whom, how bytes go, how it ends.
#include "core/tls/secure_stream.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <openssl/err.h>
#include <unistd.h>

#include "core/tls/socket_bio.h"
#include "core/tls/testing/authority.h"
#include "core/tls/testing/stream_pair.h"

namespace lambent::tls {
namespace {

using http::Transfer;
using testing::HasSubstr;
using testing::StartsWith;

class SecureStreamTest : public testing::Test {
 protected:
  ServerContext server_of(const Issued& own,
                          ClientCertificates clients = ClientCertificates::kNotAsked,
                          const std::string& more = "") {
    auto made = ServerContext::make(credentials_of(own, authority.certificate() + more), clients);
    EXPECT_TRUE(made.ok()) << to_string(made.error());
    return *made;
  }
  ClientContext client_of(const Issued& own = {}) {
    return client_that_trusts(authority.certificate(), own);
  }
  static ClientContext client_that_trusts(const std::string& authorities, const Issued& own = {}) {
    auto made = ClientContext::make(credentials_of(own, authorities));
    EXPECT_TRUE(made.ok()) << to_string(made.error());
    return *made;
  }
  Authority authority{"our authority"};
  Issued own = authority.issue();
};

// A client of OpenSSL's own, to do what ours does not: other versions, protocols, sessions.
struct BareClient {
  explicit BareClient(int version = 0) : context(SSL_CTX_new(TLS_client_method()), SSL_CTX_free) {
    if (version != 0) {
      SSL_CTX_set_min_proto_version(context.get(), version);
      SSL_CTX_set_max_proto_version(context.get(), version);
      SSL_CTX_set_security_level(context.get(), 0);  // for versions that are no longer offered
    }
  }
  // Moves both sides; whether they agreed.
  bool connect(const ServerContext& server_context, HandshakeCounts& counts,
               SSL_SESSION* session = nullptr) {
    auto [server_end, client_end] = connected_sockets();
    server.stream = server_context.encrypt(std::move(server_end), counts);
    // Without a goodbye OpenSSL takes its session for broken.
    if (ssl != nullptr) SSL_set_shutdown(ssl.get(), SSL_SENT_SHUTDOWN | SSL_RECEIVED_SHUTDOWN);
    ssl.reset(SSL_new(context.get()));
    fd = std::move(client_end);
    BIO* const bio = socket_bio(fd.get()).release();
    SSL_set_bio(ssl.get(), bio, bio);
    SSL_set_connect_state(ssl.get());
    if (session != nullptr) SSL_set_session(ssl.get(), session);
    for (int i = 0; i < 8; ++i) {
      char byte;
      SSL_read(ssl.get(), &byte, 0);
      SSL_do_handshake(ssl.get());
      SSL_peek(ssl.get(), &byte, 1);
      server.receive();
    }
    ERR_clear_error();
    return SSL_is_init_finished(ssl.get()) == 1 && server.stream->is_ready() &&
           !server.has_failed();
  }

  std::shared_ptr<SSL_CTX> context;
  OwnedFd fd;
  OwnedSsl ssl;
  Side server;
};

TEST_F(SecureStreamTest, BytesGoBothWaysAndEndInGoodOrder) {
  StreamPair pair(server_of(own), client_of());
  ASSERT_TRUE(pair.shake_hands());
  EXPECT_EQ(pair.counts.finished, 1U);
  EXPECT_EQ(pair.client.send("hello"), 5U);
  pair.turn();
  EXPECT_EQ(pair.server.received, "hello");
  EXPECT_EQ(pair.server.send("welcome"), 7U);
  EXPECT_TRUE(pair.server.stream->finish_sending());
  pair.client.receive();
  EXPECT_EQ(pair.client.received, "welcome");
  EXPECT_EQ(pair.client.last, Transfer::Kind::kEnd);
  // The other direction is still open.
  EXPECT_EQ(pair.client.send("thanks"), 6U);
  pair.client.stream.reset();
  pair.server.receive();
  EXPECT_EQ(pair.server.received, "hellothanks");
  EXPECT_EQ(pair.server.last, Transfer::Kind::kEnd);
  EXPECT_EQ(pair.counts.failed, 0U);
}

TEST_F(SecureStreamTest, PartsOfAMessageArriveInOrderWhateverTheirSizes) {
  StreamPair pair(server_of(own), client_of());
  ASSERT_TRUE(pair.shake_hands());
  std::string expected;
  for (const size_t size : {1, 200, 16383, 16384, 16385, 50000, 3}) {
    std::string head = "head" + std::to_string(size);
    std::string body(size, 'a');
    for (size_t i = 0; i < size; ++i) body[i] = static_cast<char>('a' + i % 23);
    const iovec parts[2] = {{head.data(), head.size()}, {body.data(), body.size()}};
    const Transfer sent = pair.server.stream->write(parts);
    ASSERT_EQ(sent.kind, Transfer::Kind::kMoved);
    EXPECT_EQ(sent.bytes, head.size() + body.size());
    expected += head + body;
    pair.client.receive();
  }
  EXPECT_EQ(pair.client.received, expected);
}

TEST_F(SecureStreamTest, AFullSocketStopsTheWriterAndNothingIsLost) {
  StreamPair pair(server_of(own), client_of());
  ASSERT_TRUE(pair.shake_hands());
  std::string body(8 << 20, 'x');
  for (size_t i = 0; i < body.size(); ++i) body[i] = static_cast<char>(i * 31 % 251);
  size_t sent = 0;
  size_t stops = 0;
  while (sent < body.size()) {
    const size_t moved = pair.server.send(std::string_view(body).substr(sent));
    sent += moved;
    if (moved > 0) continue;
    ASSERT_EQ(pair.server.last, Transfer::Kind::kWaitsToWrite);
    ++stops;
    pair.client.receive();
  }
  pair.client.receive();
  EXPECT_GT(stops, 2U);
  EXPECT_TRUE(pair.client.received == body);
}

TEST_F(SecureStreamTest, PeekLeavesWhatCameAndTellsThatItHoldsIt) {
  StreamPair pair(server_of(own), client_of());
  ASSERT_TRUE(pair.shake_hands());
  EXPECT_EQ(pair.server.stream->peek().kind, Transfer::Kind::kWaitsToRead);
  EXPECT_FALSE(pair.server.stream->holds_input());
  pair.client.send("hello");
  EXPECT_EQ(pair.server.stream->peek().kind, Transfer::Kind::kMoved);
  EXPECT_TRUE(pair.server.stream->holds_input());
  pair.server.receive();
  EXPECT_EQ(pair.server.received, "hello");
  EXPECT_FALSE(pair.server.stream->holds_input());
  pair.client.stream->finish_sending();
  EXPECT_EQ(pair.server.stream->peek().kind, Transfer::Kind::kEnd);
}

TEST_F(SecureStreamTest, AConnectionThatIsCutIsNotAnEndInGoodOrder) {
  auto [server_end, client_end] = connected_sockets();
  const int client_socket = client_end.get();
  HandshakeCounts counts;
  Side server{.stream = server_of(own).encrypt(std::move(server_end), counts), .received = {}};
  auto made = client_of().encrypt(std::move(client_end), "localhost");
  ASSERT_TRUE(made.ok());
  Side client{.stream = std::move(*made), .received = {}};
  for (int i = 0; i < 6; ++i) {
    client.receive();
    server.receive();
  }
  client.send("half a requ");
  shutdown(client_socket, SHUT_RDWR);
  server.receive();
  EXPECT_EQ(server.received, "half a requ");
  EXPECT_EQ(server.last, Transfer::Kind::kFailed);
  EXPECT_EQ(server.stream->failure().code, ErrorCode::kUnavailable);
  // Writing to it fails, and ends no process.
  EXPECT_EQ(server.send("answer"), 0U);
  EXPECT_EQ(server.last, Transfer::Kind::kFailed);
}

TEST_F(SecureStreamTest, AServerIsTakenForAHostThatItsCertificateNames) {
  const Issued several = authority.issue(
      {.alternatives = "DNS:a.example,DNS:*.b.example,IP:127.0.0.1,IP:0:0:0:0:0:0:0:1"});
  for (const char* host : {"a.example", "x.b.example", "A.EXAMPLE", "127.0.0.1", "::1"}) {
    StreamPair pair(server_of(several), client_of(), host);
    EXPECT_TRUE(pair.shake_hands()) << host << ": " << pair.client.stream->failure().message;
  }
  for (const char* host : {"b.example", "x.y.b.example", "a.example.evil", "127.0.0.2", "::2"}) {
    StreamPair pair(server_of(several), client_of(), host);
    EXPECT_FALSE(pair.shake_hands()) << host;
    EXPECT_EQ(pair.client.stream->failure().code, ErrorCode::kUnauthenticated);
    EXPECT_THAT(pair.client.stream->failure().message, HasSubstr("mismatch")) << host;
  }
}

struct BadServer {
  const char* what;
  IssueOptions options;
  const char* reason;
};

TEST_F(SecureStreamTest, AServerThatCannotBeTrustedIsRefusedWithTheReason) {
  const BadServer bad[] = {
      {"expired", {.valid_until = -seconds(10)}, "certificate has expired"},
      {"of the future", {.valid_from = std::chrono::hours(1)}, "certificate is not yet valid"},
      {"of another host", {.alternatives = "DNS:other.example"}, "hostname mismatch"},
      {"with no name but the old one",
       {.common_name = "localhost", .alternatives = ""},
       "hostname mismatch"}};
  for (const BadServer& each : bad) {
    StreamPair pair(server_of(authority.issue(each.options)), client_of());
    EXPECT_FALSE(pair.shake_hands()) << each.what;
    EXPECT_EQ(pair.client.stream->failure().code, ErrorCode::kUnauthenticated);
    EXPECT_THAT(pair.client.stream->failure().message,
                testing::AllOf(StartsWith("the other side's certificate is refused"),
                               HasSubstr(each.reason)))
        << each.what;
    EXPECT_EQ(pair.counts.finished, 0U);
    EXPECT_EQ(pair.counts.failed, 1U);
  }
  StreamPair self_signed(server_of(Authority::self_signed()), client_of());
  EXPECT_FALSE(self_signed.shake_hands());
  EXPECT_THAT(self_signed.client.stream->failure().message, HasSubstr("self-signed"));
  StreamPair stranger(server_of(Authority("our authority").issue()), client_of());
  EXPECT_FALSE(stranger.shake_hands());
  EXPECT_EQ(stranger.client.stream->failure().code, ErrorCode::kUnauthenticated);
}

TEST_F(SecureStreamTest, AVerifiedClientIsKnownByTheNamesOfItsCertificate) {
  const Issued shown = authority.issue(
      {.common_name = "alice", .alternatives = "email:alice@example.org,URI:spiffe://x/alice"});
  for (const auto clients : {ClientCertificates::kAsked, ClientCertificates::kRequired}) {
    StreamPair pair(server_of(own, clients), client_of(shown));
    ASSERT_TRUE(pair.shake_hands());
    ASSERT_NE(pair.server.stream->peer_certificate(), nullptr);
    EXPECT_EQ(*pair.server.stream->peer_certificate(),
              (http::PeerCertificate{.common_name = "alice",
                                     .dns_names = {},
                                     .uris = {"spiffe://x/alice"},
                                     .emails = {"alice@example.org"}}));
  }
  StreamPair unasked(server_of(own), client_of(shown));
  ASSERT_TRUE(unasked.shake_hands());
  EXPECT_EQ(unasked.server.stream->peer_certificate(), nullptr);
  StreamPair without(server_of(own, ClientCertificates::kAsked), client_of());
  ASSERT_TRUE(without.shake_hands());
  EXPECT_EQ(without.server.stream->peer_certificate(), nullptr);
}

TEST_F(SecureStreamTest, AClientThatCannotBeTrustedIsRefusedAndTold) {
  Authority stranger("a stranger");
  Authority imposter("our authority");
  const Issued revoked = authority.issue();
  const ServerContext server =
      server_of(own, ClientCertificates::kRequired, authority.revocations(revoked.serial));
  const auto refuses = [&](const Issued& shown, const char* told) {
    StreamPair pair(server, client_of(shown));
    pair.shake_hands();
    EXPECT_TRUE(pair.client.has_failed()) << told;
    EXPECT_EQ(pair.client.stream->failure().code, ErrorCode::kUnauthenticated) << told;
    EXPECT_THAT(pair.client.stream->failure().message, HasSubstr(told));
    EXPECT_EQ(pair.server.stream->peer_certificate(), nullptr);
    EXPECT_EQ(pair.counts.finished, 0U) << told;
    EXPECT_EQ(pair.counts.failed, 1U) << told;
    EXPECT_NE(pair.counts.last_failure, "");
  };
  refuses({}, "wants a certificate of this one");
  refuses(stranger.issue(), "does not know the authority");
  refuses(imposter.issue(), "refused this one's certificate");
  refuses(authority.issue({.valid_until = -seconds(10)}), "expired or not yet valid");
  refuses(revoked, "is revoked");
  StreamPair pair(server, client_of(authority.issue()));
  EXPECT_TRUE(pair.shake_hands());
}

TEST_F(SecureStreamTest, OnlyHttp11OverTls12And13IsSpoken) {
  const ServerContext server = server_of(own);
  for (const auto& [version, spoken] :
       std::initializer_list<std::pair<int, bool>>{{TLS1_VERSION, false},
                                                   {TLS1_1_VERSION, false},
                                                   {TLS1_2_VERSION, true},
                                                   {TLS1_3_VERSION, true}}) {
    HandshakeCounts counts;
    EXPECT_EQ(BareClient(version).connect(server, counts), spoken) << version;
    EXPECT_EQ(counts.finished, spoken ? 1U : 0U);
  }
  const auto offers = [&](std::string_view protocols) {
    BareClient client;
    SSL_CTX_set_alpn_protos(client.context.get(),
                            reinterpret_cast<const unsigned char*>(protocols.data()),
                            static_cast<unsigned>(protocols.size()));
    HandshakeCounts counts;
    if (!client.connect(server, counts)) return std::string("refused");
    const unsigned char* chosen = nullptr;
    unsigned size = 0;
    SSL_get0_alpn_selected(client.ssl.get(), &chosen, &size);
    return std::string(reinterpret_cast<const char*>(chosen), size);
  };
  EXPECT_EQ(offers("\x02h2\x08http/1.1"), "http/1.1");
  EXPECT_EQ(offers("\x02h2"), "refused");
}

TEST_F(SecureStreamTest, RenegotiationIsRefused) {
  BareClient client(TLS1_2_VERSION);
  HandshakeCounts counts;
  ASSERT_TRUE(client.connect(server_of(own), counts));
  SSL_renegotiate(client.ssl.get());
  SSL_do_handshake(client.ssl.get());
  client.server.receive();
  EXPECT_NE(SSL_do_handshake(client.ssl.get()), 1);
  EXPECT_EQ(ERR_GET_REASON(ERR_peek_error()), SSL_R_NO_RENEGOTIATION);
  ERR_clear_error();
  EXPECT_EQ(counts.finished, 1U);
}

TEST_F(SecureStreamTest, ASessionIsResumedUnderItsOwnContextOnly) {
  const Issued shown = authority.issue({.common_name = "alice"});
  const ServerContext server = server_of(own, ClientCertificates::kAsked);
  const ServerContext after_reload = server_of(own, ClientCertificates::kAsked);
  for (const int version : {TLS1_2_VERSION, TLS1_3_VERSION}) {
    BareClient client(version);
    const OwnedBio certificate(BIO_new_mem_buf(shown.certificate.data(), -1));
    const OwnedCertificate x509(PEM_read_bio_X509(certificate.get(), nullptr, nullptr, nullptr));
    const OwnedBio key(BIO_new_mem_buf(shown.key.data(), -1));
    const OwnedKey pkey(PEM_read_bio_PrivateKey(key.get(), nullptr, nullptr, nullptr));
    SSL_CTX_use_certificate(client.context.get(), x509.get());
    SSL_CTX_use_PrivateKey(client.context.get(), pkey.get());
    HandshakeCounts counts;
    ASSERT_TRUE(client.connect(server, counts));
    SSL_SESSION* session = SSL_get1_session(client.ssl.get());
    ASSERT_TRUE(client.connect(server, counts, session));
    EXPECT_EQ(counts.resumed, 1U) << version;
    ASSERT_NE(client.server.stream->peer_certificate(), nullptr);
    EXPECT_EQ(client.server.stream->peer_certificate()->common_name, "alice");
    ASSERT_TRUE(client.connect(after_reload, counts, session));
    EXPECT_EQ(counts.finished, 3U);
    EXPECT_EQ(counts.resumed, 1U) << version;
    SSL_SESSION_free(session);
  }
}

TEST_F(SecureStreamTest, PlainHttpIsKnownAndCanBeAnswered) {
  for (const std::string_view method : {"GET", "DELETE", "OPTIONS"}) {
    auto [server_end, client_end] = connected_sockets();
    HandshakeCounts counts;
    Side server{.stream = server_of(own).encrypt(std::move(server_end), counts), .received = {}};
    const std::string request = std::string(method) + " / HTTP/1.1\r\n\r\n";
    ASSERT_TRUE(write_all(client_end.get(), request).ok());
    server.receive();
    EXPECT_EQ(server.last, Transfer::Kind::kForeign);
    EXPECT_THAT(server.stream->failure().message, HasSubstr("https://"));
    EXPECT_EQ(server.send("HTTP/1.1 400 Bad Request\r\n\r\n"), 28U);
    EXPECT_TRUE(server.stream->finish_sending());
    char answer[100] = {};
    EXPECT_EQ(read(client_end.get(), answer, sizeof answer), 28);
    EXPECT_EQ(read(client_end.get(), answer, sizeof answer), 0);
    EXPECT_EQ(counts.failed, 1U);
  }
}

TEST_F(SecureStreamTest, GarbageIsRefusedWithAnAlertAndThenDropped) {
  auto [server_end, client_end] = connected_sockets();
  HandshakeCounts counts;
  Side server{.stream = server_of(own).encrypt(std::move(server_end), counts), .received = {}};
  ASSERT_TRUE(
      write_all(client_end.get(), std::string("\x16\x03\x01\x00\x05hello and more", 19)).ok());
  char buffer[1000];
  EXPECT_EQ(server.stream->read(buffer).kind, Transfer::Kind::kRefused);
  EXPECT_EQ(counts.failed, 1U);
  EXPECT_FALSE(server.stream->is_ready() && server.stream->peer_certificate() != nullptr);
  char alert[100];
  EXPECT_EQ(read(client_end.get(), alert, sizeof alert), 7);
  EXPECT_EQ(alert[0], 21);
  ASSERT_TRUE(write_all(client_end.get(), "more").ok());
  EXPECT_EQ(server.stream->read(buffer).kind, Transfer::Kind::kWaitsToRead);
  EXPECT_EQ(server.send("nothing"), 0U);
  EXPECT_EQ(server.last, Transfer::Kind::kFailed);
}

TEST_F(SecureStreamTest, AHandshakeThatEndsHalfwayCountsAsFailed) {
  HandshakeCounts counts;
  const ServerContext server_context = server_of(own);
  {
    auto [server_end, client_end] = connected_sockets();
    const auto stream = server_context.encrypt(std::move(server_end), counts);
    char buffer[100];
    EXPECT_EQ(stream->read(buffer).kind, Transfer::Kind::kWaitsToRead);
    client_end.reset();
    EXPECT_EQ(stream->read(buffer).kind, Transfer::Kind::kFailed);
  }
  EXPECT_EQ(counts.failed, 1U);
  {
    auto [server_end, client_end] = connected_sockets();
    const auto stream = server_context.encrypt(std::move(server_end), counts);
  }
  EXPECT_EQ(counts.failed, 2U);
  EXPECT_EQ(counts.last_failure, "the other side did not finish the handshake");
}

TEST_F(SecureStreamTest, AClientTellsAServerThatDoesNotEncrypt) {
  auto [server_end, client_end] = connected_sockets();
  auto made = client_of().encrypt(std::move(client_end), "localhost");
  ASSERT_TRUE(made.ok());
  Side client{.stream = std::move(*made), .received = {}};
  EXPECT_EQ(client.send("GET / HTTP/1.1\r\n\r\n"), 0U);
  EXPECT_EQ(client.last, Transfer::Kind::kWaitsToRead);
  ASSERT_TRUE(write_all(server_end.get(), "HTTP/1.1 400 Bad Request\r\n\r\n").ok());
  client.receive();
  EXPECT_EQ(client.last, Transfer::Kind::kRefused);
  EXPECT_EQ(client.stream->failure().code, ErrorCode::kFailedPrecondition);
  EXPECT_THAT(client.stream->failure().message, HasSubstr("does it serve http://?"));
}

}  // namespace
}  // namespace lambent::tls
