#include "edge/frontend/peer_objects.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <future>
#include <memory>
#include <nlohmann/json.hpp>
#include <system_error>
#include <utility>

#include "core/base/sealed_memory.h"
#include "core/crypto/crypto.h"
#include "core/crypto/sha256.h"
#include "core/http/forward_service.h"
#include "node/objects/limits.h"

namespace lambent::frontend {
namespace {

constexpr Duration kPeerTimeout = seconds(10);
// What is still being made there is waited for so long at a time, so that it keeps no thread.
constexpr const char* kWaitSeconds = "2";
constexpr Bytes kPart = Bytes::mib(8);
// Of one object at once: while one comes, the other node makes the digest of the next.
constexpr size_t kPartsAtOnce = 2;

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
Result<void> check_digest(const ObjectSource& source, ObjectId object, const http::Response& part,
                          const crypto::Digest& digest) {
  const std::string_view said = part.headers.get("x-lambent-digest");
  if (said.empty() || said == crypto::to_hex(digest)) return {};
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

// An object on its way, in parts that each are there once they are whole and have their digest.
// Shared by the threads that bring them.
struct Parts {
  const ObjectSource& source;
  ObjectId object;
  Bytes size;
  int memfd;
  const std::atomic<bool>& stopping;
  std::atomic<uint64_t> next = 0;       // begins there; beyond the size: there are no more
  std::atomic<bool> is_failed = false;  // one could not be had
};

Result<void> write_at(int fd, Bytes at, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = pwrite(fd, bytes.data(), bytes.size(), static_cast<off_t>(at.count));
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return error_from_errno("write to an object's memory", errno);
    bytes.remove_prefix(static_cast<size_t>(written));
    at += Bytes(static_cast<uint64_t>(written));
  }
  return {};
}

// Its digest is made and it is written as it comes.
Result<void> bring_part(http::BlockingClient& client, const Parts& parts, Bytes at) {
  const Bytes size = std::min(kPart, parts.size - at);
  http::Request get = request_for(parts.source, "GET", parts.object);
  get.headers.add("Range", "bytes=" + std::to_string(at.count) + "-" +
                               std::to_string(at.count + size.count - 1));
  crypto::Sha256 digest;
  Bytes came;
  Result<void> written;
  const auto take = [&](std::string_view bytes) {
    if (came + Bytes(bytes.size()) > size) return false;
    digest.add(bytes);
    written = write_at(parts.memfd, at + came, bytes);
    came += Bytes(bytes.size());
    return written.ok();
  };
  const auto part = client.stream(get, kPeerTimeout, take);
  RETURN_IF_ERROR(written);
  if (!part.ok()) return part.error();
  if (part->status != 206) return failed(parts.source.endpoint, *part);
  if (came != size) {
    return Error{ErrorCode::kDataLoss, http::to_string(parts.source.endpoint) + " sent " +
                                           to_string(came) + " or more of a part of " +
                                           to_string(size)};
  }
  return check_digest(parts.source, parts.object, *part, digest.digest());
}

// Until there are no more, or one could not be had.
Result<void> bring_parts(http::BlockingClient& client, Parts& parts) {
  while (!parts.is_failed) {
    if (parts.stopping) return Error{ErrorCode::kUnavailable, "this node is stopping"};
    const Bytes at(parts.next.fetch_add(kPart.count));
    if (at >= parts.size) break;
    const Result<void> brought = bring_part(client, parts, at);
    if (brought.ok()) continue;
    parts.is_failed = true;
    return brought;
  }
  return {};
}

// All of them, by this thread and by more where there are several.
Result<void> bring_all(http::BlockingClient& client, Parts& parts) {
  std::vector<std::future<Result<void>>> others;
  for (size_t each = 1; each < kPartsAtOnce && parts.size > kPart; ++each) {
    try {
      others.push_back(std::async(std::launch::async, [&parts] {
        http::BlockingClient its_own(parts.source.endpoint);
        return bring_parts(its_own, parts);
      }));
    } catch (const std::system_error&) {
      break;  // there is no thread to be had: this one brings them all
    }
  }
  Result<void> outcome = bring_parts(client, parts);
  for (auto& other : others) {
    const Result<void> brought = other.get();
    if (outcome.ok()) outcome = brought;
  }
  return outcome;
}

}  // namespace

Result<PeerObject> bring_object(const ObjectSource& source, ObjectId object, Bytes most,
                                const std::atomic<bool>& stopping) {
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
  Parts parts{.source = source,
              .object = object,
              .size = size,
              .memfd = brought.memfd.get(),
              .stopping = stopping};
  RETURN_IF_ERROR(bring_all(client, parts));
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
      auto answer = bring_object(source, object, most, *stopping);
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
