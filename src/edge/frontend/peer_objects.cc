#include "edge/frontend/peer_objects.h"

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <utility>

#include "core/base/sealed_memory.h"
#include "core/crypto/crypto.h"
#include "core/http/forward_service.h"
#include "node/objects/limits.h"

namespace lambent::frontend {
namespace {

constexpr Duration kPeerTimeout = seconds(10);
// What is still being made there is waited for so long at a time, so that it keeps no thread.
constexpr const char* kWaitSeconds = "2";
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

http::Request request_for(const ObjectSource& source, std::string method, ObjectId object) {
  http::Request request;
  request.method = std::move(method);
  request.target = "/v1/objects/" + to_string(object);
  request.headers.add(std::string(http::kOnlyHere), "true");
  if (source.sign) source.sign(request);
  return request;
}

Result<http::Response> describe(http::BlockingClient& client, const ObjectSource& source,
                                ObjectId object) {
  ASSIGN_OR_RETURN(http::Response known,
                   client.send(request_for(source, "HEAD", object), kPeerTimeout));
  if (known.status != 200) return failed(source.endpoint, known);
  return known;
}

// Nodes of an earlier version send no digest.
Result<void> check_digest(const ObjectSource& source, ObjectId object, const http::Response& part) {
  const std::string_view said = part.headers.get("x-lambent-digest");
  if (said.empty() || said == crypto::to_hex(crypto::sha256(part.body))) return {};
  return Error{ErrorCode::kDataLoss, "object " + to_string(object) + " came from " +
                                         http::to_string(source.endpoint) +
                                         " with other bytes than were sent; ask again"};
}

Error lost_error(ObjectId object, const std::vector<std::string>& lost) {
  std::string names;
  for (const std::string& node : lost) names += (names.empty() ? "'" : ", '") + node + "'";
  return {ErrorCode::kUnavailable,
          "NodeLost: no node that answers has object " + to_string(object) +
              ", and objects end with the node that has them; lost at the moment: " + names};
}

bool is_being_made(const http::Response& known) {
  return known.headers.get("x-lambent-state") == "expected";
}

}  // namespace

Result<PeerObject> bring_object(const ObjectSource& source, ObjectId object, Bytes most) {
  http::BlockingClient client(source.endpoint);
  ASSIGN_OR_RETURN(http::Response known, describe(client, source, object));
  PeerObject brought;
  if (is_being_made(known)) {
    http::Request wait = request_for(source, "GET", object);
    wait.headers.add("X-Lambent-Wait", kWaitSeconds);
    wait.headers.add("Range", "bytes=0-0");
    RETURN_IF_ERROR(client.send(wait, kPeerTimeout));
    ASSIGN_OR_RETURN(known, describe(client, source, object));
    brought.is_made = !is_being_made(known);
    if (!brought.is_made) return brought;
  }
  ASSIGN_OR_RETURN(brought.type, type_of(known.headers));
  ASSIGN_OR_RETURN(const Bytes size, byte_size(brought.type));
  if (size > most) {
    return Error{ErrorCode::kOutOfRange,
                 "object " + to_string(object) + " on " + http::to_string(source.endpoint) +
                     " has " + to_string(size) + "; here at most " + to_string(most) + " fit"};
  }
  ASSIGN_OR_RETURN(brought.memfd, new_memory(size));
  for (Bytes at; at < size;) {
    const Bytes piece = std::min(kPieceOfObject, size - at);
    http::Request get = request_for(source, "GET", object);
    get.headers.add("Range", "bytes=" + std::to_string(at.count) + "-" +
                                 std::to_string(at.count + piece.count - 1));
    ASSIGN_OR_RETURN(const http::Response part, client.send(get, kPeerTimeout));
    if (part.status != 206 || part.body.size() != piece.count) {
      return failed(source.endpoint, part);
    }
    RETURN_IF_ERROR(check_digest(source, object, part));
    RETURN_IF_ERROR(write_all(brought.memfd.get(), part.body));
    at += piece;
  }
  RETURN_IF_ERROR(seal(brought.memfd.get()));
  return brought;
}

PeerObjects::PeerObjects(objects::ObjectStore& store, std::vector<http::Endpoint> peers,
                         std::vector<objects::Disk> lanes)
    : store_(store), peers_(std::move(peers)) {
  for (objects::Disk& lane : lanes) lanes_.push_back({std::move(lane)});
  if (!peers_.empty()) begin();
}

void PeerObjects::begin() {
  if (lanes_.empty()) return;
  store_.seek_elsewhere([this](TenantId tenant, ObjectId object) { return seek(tenant, object); });
}

void PeerObjects::seek_in_cluster(std::function<ObjectSources(TenantId)> sources) {
  cluster_ = std::move(sources);
  begin();
}

PeerObjects::~PeerObjects() {
  *stopping_ = true;
  store_.seek_elsewhere(nullptr);
}

Result<void> PeerObjects::seek(TenantId tenant, ObjectId object) {
  // The first one that has it; else the first peer's word that is not only that it has none.
  auto brought = std::make_shared<Result<PeerObject>>(PeerObject());
  const Bytes most = std::min(limits::kObjectSize, store_.options().memory);
  ObjectSources sources = cluster_ ? cluster_(tenant) : ObjectSources();
  for (const http::Endpoint& peer : peers_) sources.nodes.push_back({peer});
  const auto work = [brought, object, most, sources = std::move(sources), stopping = stopping_] {
    *brought = Error{ErrorCode::kNotFound, "no node has object " + to_string(object)};
    if (!sources.lost.empty()) *brought = lost_error(object, sources.lost);
    for (const ObjectSource& source : sources.nodes) {
      if (*stopping) return;
      auto answer = bring_object(source, object, most);
      const bool only_unknown = !answer.ok() && answer.error().code == ErrorCode::kNotFound;
      const bool had_word = brought->error().code != ErrorCode::kNotFound;
      if (!answer.ok() && (only_unknown || had_word)) continue;
      *brought = std::move(answer);
      if (brought->ok()) return;
    }
  };
  Lane& lane = *std::min_element(lanes_.begin(), lanes_.end(), [](const Lane& a, const Lane& b) {
    return a.under_way < b.under_way;
  });
  const auto completion = [this, &lane, brought, tenant, object, stopping = stopping_] {
    if (*stopping) return;
    --lane.under_way;
    if (!brought->ok()) return store_.not_elsewhere(tenant, object, brought->error());
    if (!(*brought)->is_made) {
      const auto again = store_.is_waited_for(tenant, object)
                             ? seek(tenant, object)
                             : Result<void>(Error{ErrorCode::kDeadlineExceeded,
                                                  "object " + to_string(object) +
                                                      " is still being made on another node"});
      if (!again.ok()) store_.not_elsewhere(tenant, object, again.error());
      return;
    }
    auto stored =
        store_.store(tenant, object, std::move((*brought)->type), std::move((*brought)->memfd));
    if (!stored.ok()) store_.not_elsewhere(tenant, object, stored.error());
  };
  if (!lane.run(work, completion)) {
    return Error{ErrorCode::kResourceExhausted, "too many objects are being brought from others"};
  }
  ++lane.under_way;
  return {};
}

}  // namespace lambent::frontend
