#include "edge/frontend/objects.h"

#include <nlohmann/json.hpp>

#include "core/base/sealed_memory.h"
#include "core/crypto/crypto.h"
#include "core/domain/limits.h"
#include "edge/frontend/json_response.h"
#include "edge/frontend/json_text.h"
#include "edge/frontend/limits.h"
#include "edge/frontend/native_error.h"
#include "edge/frontend/object_call.h"

namespace lambent::frontend {
namespace {

using http::Response;
using nlohmann::json;
using objects::ObjectState;
using objects::ObjectStatus;

constexpr Bytes kShortCopy = Bytes::kib(256);

// While one is kept its bytes count as under way. Empty: there are too many, or they are few.
using Lease = std::shared_ptr<const void>;

std::string shape_text(const TensorType& type) { return json(type.shape).dump(); }

void add_type(http::Headers& headers, const TensorType& type) {
  headers.add("x-lambent-datatype", std::string(name_of(type.datatype)));
  headers.add("x-lambent-shape", shape_text(type));
}

json describe(const ObjectStatus& status, Instant now) {
  json described = {{"object", to_string(status.object)},
                    {"state", name_of(status.state)},
                    {"references", status.references},
                    {"age_seconds", to_seconds(now - status.created)}};
  if (status.expires != kNever) {
    described["expires_in_seconds"] = std::max(0.0, to_seconds(status.expires - now));
  }
  if (status.state == ObjectState::kExists) {
    described["place"] = name_of(status.place);
    described["datatype"] = name_of(status.type.datatype);
    described["shape"] = status.type.shape;
    described["bytes"] = status.size.count;
  }
  if (status.cause) {
    described["error"] = {{"code", name_of(status.cause->code)},
                          {"message", status.cause->message}};
  }
  return described;
}

// The part of an object that was asked for; none: it has no such bytes.
struct Part {
  Bytes offset;
  Bytes size;
};
std::optional<Part> part_of(const std::optional<ByteRange>& range, Bytes size) {
  if (!range) return Part{Bytes(0), size};
  if (!range->first) {
    if (*range->last == 0 || size.count == 0) return std::nullopt;
    const Bytes length(std::min(*range->last, size.count));
    return Part{size - length, length};
  }
  if (*range->first >= size.count) return std::nullopt;
  const uint64_t last = std::min(range->last.value_or(size.count), size.count - 1);
  if (last < *range->first) return std::nullopt;
  return Part{Bytes(*range->first), Bytes(last - *range->first + 1)};
}

Response bytes_response(const objects::OpenedObject& opened, bool ranged, const Part& part,
                        const std::string& digest, Result<std::string> bytes) {
  if (!bytes.ok()) return error_response(bytes.error());
  Response response;
  if (!digest.empty()) response.headers.add("x-lambent-digest", digest);
  response.headers.add("Content-Type", "application/octet-stream");
  response.headers.add("Accept-Ranges", "bytes");
  add_type(response.headers, opened.type);
  if (ranged) {
    response.status = 206;
    response.headers.add("Content-Range",
                         "bytes " + std::to_string(part.offset.count) + "-" +
                             std::to_string(part.offset.count + part.size.count - 1) + "/" +
                             std::to_string(opened.size.count));
  }
  response.body = std::move(*bytes);
  return response;
}

Response no_such_range(Bytes size) {
  Response response =
      error_response({ErrorCode::kOutOfRange, "the object has " + std::to_string(size.count) +
                                                  " bytes, none in that range"});
  response.status = 416;
  response.headers.add("Content-Range", "bytes */" + std::to_string(size.count));
  return response;
}

}  // namespace

// Answers one decoded call; a function object over the kinds of call.
class ObjectsFrontend::Answering {
 public:
  Answering(ObjectsFrontend& frontend, TenantId tenant, http::Responder responder)
      : frontend_(frontend),
        store_(frontend.store_),
        tenant_(tenant),
        answer_(std::make_shared<http::Responder>(std::move(responder))) {}

  void operator()(Response& response) { answer_->send(std::move(response)); }

  void operator()(PutObject& call) {
    const ObjectId object = call.object.value_or(ObjectId{new_invocation_id(frontend_.random_), 0});
    // Shared between the work and its completion.
    auto put = std::make_shared<PutObject>(std::move(call));
    auto memfd = std::make_shared<Result<OwnedFd>>(OwnedFd());
    copy(
        Bytes(put->bytes.size()), [put, memfd] { *memfd = sealed_memory(put->bytes); },
        [&store = store_, tenant = tenant_, object, put, memfd, answer = answer_](const Lease&) {
          if (!memfd->ok()) return answer->send(error_response(memfd->error()));
          const TensorType type = put->type;
          const auto stored = store.store(tenant, object, std::move(put->type), std::move(**memfd),
                                          put->time_to_live);
          if (!stored.ok()) return answer->send(error_response(stored.error()));
          Response response = json_response(201, {{"object", to_string(object)},
                                                  {"datatype", name_of(type.datatype)},
                                                  {"shape", type.shape},
                                                  {"bytes", put->bytes.size()}});
          answer->send(std::move(response));
        });
  }

  void operator()(GetObject& call) {
    const auto known = store_.status(tenant_, call.object);
    if (call.only_here && !known.ok()) return answer_->send(error_response(known.error()));
    if (call.only_here && is_elsewhere(call.object)) return;
    // Shared with the callback, which may come first.
    auto wait = std::make_shared<objects::WaitId>(0);
    answer_->on_disconnect([&store = store_, wait] { store.cancel(*wait); });
    *wait = store_.open(tenant_, call.object, frontend_.loop_.now() + call.wait,
                        [self = *this, range = call.range,
                         digested = call.only_here](Result<objects::OpenedObject> opened) {
                          self.send_bytes(std::move(opened), range, digested);
                        });
  }

  void operator()(DescribeObject& call) {
    const auto status = store_.status(tenant_, call.object);
    if (!status.ok()) return answer_->send(error_response(status.error()));
    if (call.only_here && is_elsewhere(call.object)) return;
    Response response;
    response.headers.add("x-lambent-state", std::string(name_of(status->state)));
    if (status->state == ObjectState::kExists) {
      add_type(response.headers, status->type);
      response.headers.add("x-lambent-bytes", std::to_string(status->size.count));
      response.headers.add("x-lambent-place", std::string(name_of(status->place)));
    }
    answer_->send(std::move(response));
  }

  void operator()(RemoveObject& call) {
    const bool lingers =
        frontend_.linger_ > Duration::zero() && store_.hold(tenant_, call.object).ok();
    const auto removed = store_.remove(tenant_, call.object);
    if (lingers) {
      frontend_.loop_.call_after(removed.ok() ? frontend_.linger_ : Duration::zero(),
                                 [&store = store_, tenant = tenant_, object = call.object] {
                                   store.release(tenant, object);
                                 });
    }
    if (!removed.ok()) return answer_->send(error_response(removed.error()));
    Response response;
    response.status = 204;
    answer_->send(std::move(response));
  }

  void operator()(ListObjects& call) {
    auto page = store_.list(tenant_, call.after, call.limit + 1);
    json body = {{"objects", json::array()}};
    if (page.size() > call.limit) {
      page.resize(call.limit);
      body["next"] = to_string(page.back().object);
    }
    const Instant now = frontend_.loop_.now();
    for (const ObjectStatus& status : page) body["objects"].push_back(describe(status, now));
    answer_->send(json_response(200, body));
  }

 private:
  // Answers a node that asks for what this one seeks elsewhere itself: it does not lie here.
  bool is_elsewhere(ObjectId object) const {
    if (!store_.is_sought(tenant_, object)) return false;
    answer_->send(error_response(
        {ErrorCode::kNotFound, "object " + to_string(object) + " does not lie on this node"}));
    return true;
  }
  // `digested`: with the digest of what is sent, for a node that asks.
  void send_bytes(Result<objects::OpenedObject> result, std::optional<ByteRange> range,
                  bool digested) const {
    if (!result.ok()) return answer_->send(error_response(result.error()));
    const auto part = part_of(range, result->size);
    if (!part) return answer_->send(no_such_range(result->size));
    if (part->size > limits::kHttpObject) {
      return answer_->send(error_response(
          {ErrorCode::kOutOfRange, "the object has " + to_string(result->size) +
                                       "; over HTTP at most " + to_string(limits::kHttpObject) +
                                       " come at once: ask for ranges, or use the worker's object "
                                       "socket"}));
    }
    // Shared between the work and its completion.
    auto opened = std::make_shared<objects::OpenedObject>(std::move(*result));
    auto bytes = std::make_shared<Result<std::string>>(std::string());
    auto digest = std::make_shared<std::string>();
    copy(
        part->size,
        [opened, bytes, digest, digested, part = *part] {
          *bytes = read_memory(opened->memfd.get(), part.offset, part.size);
          if (digested && bytes->ok()) *digest = crypto::to_hex(crypto::sha256(**bytes));
        },
        [answer = answer_, opened, bytes, digest, part = *part,
         ranged = range.has_value()](const Lease& lease) {
          Response response = bytes_response(*opened, ranged, part, *digest, std::move(*bytes));
          response.lease = lease;  // a client that does not read keeps others from it
          answer->send(std::move(response));
        });
  }

  Lease lease(Bytes size) const {
    const auto& copies = frontend_.copies_;
    if (Bytes(*copies) + size > limits::kObjectCopies) return nullptr;
    *copies += size.count;
    return Lease(copies.get(), [copies, size](const void*) { *copies -= size.count; });
  }

  void copy(Bytes size, const std::function<void()>& work,
            const std::function<void(const Lease&)>& completion) const {
    if (size <= kShortCopy) {
      work();
      return completion(nullptr);
    }
    // The completion takes it out: the thread that worked may keep the task for longer.
    const auto leased = std::make_shared<Lease>(lease(size));
    const bool taken = *leased != nullptr && frontend_.copying_(work, [leased, completion] {
      completion(std::exchange(*leased, nullptr));
    });
    if (taken) return;
    answer_->send(error_response(
        {ErrorCode::kResourceExhausted, "too many objects are under way; try again later"}));
  }

  ObjectsFrontend& frontend_;
  objects::ObjectStore& store_;
  const TenantId tenant_;
  // Shared because a callback must be copyable and a responder is not.
  const std::shared_ptr<http::Responder> answer_;
};

ObjectsFrontend::ObjectsFrontend(objects::ObjectStore& store, objects::Disk copying,
                                 loop::EventLoop& loop, Random& random)
    : store_(store), copying_(std::move(copying)), loop_(loop), random_(random) {}

void ObjectsFrontend::handle(const Caller& caller, http::Request request, std::string_view path,
                             http::Responder responder) {
  ObjectCall call = decode_object_call(std::move(request), path);
  std::visit(Answering(*this, caller.tenant, std::move(responder)), call);
}

}  // namespace lambent::frontend
