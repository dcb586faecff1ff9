#include "frontend/peer_objects.h"

#include <charconv>
#include <memory>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/sealed_memory.h"

namespace lambent::frontend {
namespace {

constexpr Duration kPeerTimeout = seconds(30);
// What is still being made there is waited for so long at a time.
constexpr const char* kWaitSeconds = "20";
constexpr Bytes kPieceOfObject = Bytes::mib(16);

Error failed(const http::Endpoint& peer, const http::Response& response) {
  const bool unknown = response.status == 404;
  return {unknown ? ErrorCode::kNotFound : ErrorCode::kUnavailable,
          http::to_string(peer) + " answered " + std::to_string(response.status)};
}

Result<TensorType> type_of(const http::Headers& headers) {
  TensorType type;
  const auto known = data_type_from(headers.get("x-lambent-datatype"));
  const auto shape = nlohmann::json::parse(headers.get("x-lambent-shape"), nullptr, false);
  if (!known || !shape.is_array()) {
    return Error{ErrorCode::kDataLoss, "a peer's object came without its type"};
  }
  type.datatype = *known;
  for (const auto& length : shape) {
    if (!length.is_number_unsigned()) {
      return Error{ErrorCode::kDataLoss, "a peer's object came with an impossible shape"};
    }
    type.shape.push_back(length.get<uint64_t>());
  }
  return type;
}

http::Request request_for(std::string method, ObjectId object) {
  http::Request request;
  request.method = std::move(method);
  request.target = "/v1/objects/" + to_string(object);
  request.headers.add("X-Lambent-Only-Here", "true");
  return request;
}

// Until it is there, or the peer says that it will not be.
Result<http::Response> describe(http::BlockingClient& client, const http::Endpoint& peer,
                                ObjectId object) {
  for (;;) {
    ASSIGN_OR_RETURN(http::Response known, client.send(request_for("HEAD", object), kPeerTimeout));
    if (known.status != 200) return failed(peer, known);
    if (known.headers.get("x-lambent-state") != "expected") return known;
    http::Request wait = request_for("GET", object);
    wait.headers.add("X-Lambent-Wait", kWaitSeconds);
    wait.headers.add("Range", "bytes=0-0");
    ASSIGN_OR_RETURN(const http::Response waited, client.send(wait, kPeerTimeout));
    if (waited.status >= 400 && waited.status != 416 && waited.status != 504) {
      return failed(peer, waited);
    }
  }
}

}  // namespace

Result<PeerObject> bring_object(const http::Endpoint& peer, ObjectId object) {
  http::BlockingClient client(peer);
  ASSIGN_OR_RETURN(const http::Response known, describe(client, peer, object));
  PeerObject brought;
  ASSIGN_OR_RETURN(brought.type, type_of(known.headers));
  ASSIGN_OR_RETURN(const Bytes size, byte_size(brought.type));
  ASSIGN_OR_RETURN(brought.memfd, new_memory(size));
  for (Bytes at; at < size;) {
    const Bytes piece = std::min(kPieceOfObject, size - at);
    http::Request get = request_for("GET", object);
    get.headers.add("Range", "bytes=" + std::to_string(at.count) + "-" +
                                 std::to_string(at.count + piece.count - 1));
    ASSIGN_OR_RETURN(const http::Response part, client.send(get, kPeerTimeout));
    if (part.status != 206 || part.body.size() != piece.count) return failed(peer, part);
    RETURN_IF_ERROR(write_all(brought.memfd.get(), part.body));
    at += piece;
  }
  RETURN_IF_ERROR(seal(brought.memfd.get()));
  return brought;
}

PeerObjects::PeerObjects(objects::ObjectStore& store, std::vector<http::Endpoint> peers,
                         std::vector<objects::Disk> lanes)
    : store_(store), peers_(std::move(peers)), lanes_(std::move(lanes)) {
  if (peers_.empty() || lanes_.empty()) return;
  store_.seek_elsewhere([this](TenantId tenant, ObjectId object) { seek(tenant, object); });
}

void PeerObjects::seek(TenantId tenant, ObjectId object) {
  // The first one that has it; else the first peer's word that is not only that it has none.
  auto brought = std::make_shared<Result<PeerObject>>(PeerObject());
  const auto work = [brought, object, peers = peers_] {
    *brought = Error{ErrorCode::kNotFound, "no node has object " + to_string(object)};
    for (const http::Endpoint& peer : peers) {
      auto answer = bring_object(peer, object);
      const bool only_unknown = !answer.ok() && answer.error().code == ErrorCode::kNotFound;
      const bool had_word = brought->error().code != ErrorCode::kNotFound;
      if (!answer.ok() && (only_unknown || had_word)) continue;
      *brought = std::move(answer);
      if (brought->ok()) return;
    }
  };
  const auto completion = [this, brought, tenant, object] {
    if (!brought->ok()) return store_.not_elsewhere(tenant, object, brought->error());
    auto stored =
        store_.store(tenant, object, std::move((*brought)->type), std::move((*brought)->memfd));
    if (!stored.ok()) store_.not_elsewhere(tenant, object, stored.error());
  };
  if (lanes_[next_lane_++ % lanes_.size()](work, completion)) return;
  store_.not_elsewhere(tenant, object,
                       {ErrorCode::kResourceExhausted, "too many objects are being brought"});
}

}  // namespace lambent::frontend
