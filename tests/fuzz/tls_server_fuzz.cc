// Bytes of a client into the server's side of TLS: as a handshake, or, if the first byte is odd,
// behind one that a real client finished. The rest of that byte says how they are cut into pieces.
// Nothing that was not encrypted for this connection may come out as a request's bytes.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "core/tls/testing/authority.h"
#include "core/tls/testing/stream_pair.h"

namespace {

using lambent::http::Transfer;

struct Contexts {
  Contexts()
      : authority("ca"),
        own(authority.issue()),
        server(*lambent::tls::ServerContext::make(
            lambent::tls::credentials_of(own, authority.certificate()),
            lambent::tls::ClientCertificates::kAsked)),
        client(*lambent::tls::ClientContext::make(
            lambent::tls::credentials_of({}, authority.certificate()))) {}

  lambent::tls::Authority authority;
  lambent::tls::Issued own;
  lambent::tls::ServerContext server;
  lambent::tls::ClientContext client;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  static const Contexts contexts;
  if (size < 2) return 0;
  std::string_view text(reinterpret_cast<const char*>(bytes) + 1, size - 1);
  const bool is_behind_handshake = (bytes[0] & 1) != 0;
  const size_t step = 1 + (bytes[0] >> 1) * size_t{16};

  lambent::tls::HandshakeCounts counts;
  auto [server_end, client_end] = lambent::tls::connected_sockets();
  const int client_socket = client_end.get();
  lambent::tls::Side server{.stream = contexts.server.encrypt(std::move(server_end), counts),
                            .received = {}};
  lambent::tls::Side client;
  if (is_behind_handshake) {
    client.stream = *contexts.client.encrypt(std::move(client_end), "localhost");
    for (int i = 0; i < 6; ++i) {
      client.receive();
      server.receive();
    }
    if (counts.finished != 1) abort();
  }
  bool is_over = false;
  while (!text.empty() && !is_over) {
    const std::string_view piece = text.substr(0, step);
    text.remove_prefix(piece.size());
    if (send(client_socket, piece.data(), piece.size(), MSG_NOSIGNAL) < 0) break;
    char buffer[32 * 1024];
    Transfer got = server.stream->read(buffer);
    if (got.kind == Transfer::Kind::kMoved) abort();  // no key, and yet it is read
    is_over = got.kind != Transfer::Kind::kWaitsToRead;
    if (got.kind != Transfer::Kind::kForeign) continue;
    if (server.send("HTTP/1.1 400 Bad Request\r\n\r\n") == 0) abort();
  }
  if (server.stream->peer_certificate() != nullptr) abort();
  server.stream->finish_sending();
  if (counts.finished != (is_behind_handshake ? 1U : 0U)) abort();
  return 0;
}
