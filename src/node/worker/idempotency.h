// IdempotencyTable: what repeats of one request get. SDKs send a request again after a time-out or
// a 5xx with the same id; such a repeat joins the running invocation or gets its stored success,
// never a failure. Pure and bounded; used by the worker on the loop thread.
#pragma once

#include <list>
#include <optional>
#include <string>
#include <unordered_map>

#include "core/base/ids.h"
#include "core/base/time.h"
#include "core/base/units.h"
#include "core/domain/invocation.h"
#include "node/worker/limits.h"

namespace lambent::worker {

// Who sent what: tenant, function, the SDK's invocation id and the payload. Two requests that
// differ in any of them are different requests. Of a client that is known by its connection only,
// that, the tenant and the function. For this worker only, which numbers its tenants itself.
std::string idempotency_key(const InvocationRequest& request);
// The same without the tenant, which a catalog keeps beside it: so it is the same at each node of a
// cluster, whose workers number tenants differently, and in every run of one build. Of a request
// whose key is no connection.
std::string durable_key(const InvocationRequest& request);

class IdempotencyTable {
 public:
  struct Limits {
    size_t entries = limits::kIdempotencyEntries;
    Bytes bytes = Bytes::mib(256);
    Duration window = limits::kIdempotencyWindow;
  };

  IdempotencyTable() : IdempotencyTable(Limits{}) {}
  explicit IdempotencyTable(Limits limits) : limits_(limits) {}

  struct Found {
    // Set while the first request still runs: join it.
    std::optional<InvocationId> running;
    // Otherwise its success.
    const InvocationResult* success = nullptr;
  };
  // What is known of the key; nullopt: nothing, so the caller starts it.
  std::optional<Found> find(const std::string& key, Instant now);
  void start(const std::string& key, InvocationId invocation);
  // Keeps a success for the window, and of one that was refused when it may come again; forgets
  // anything else. Of a connection only the latter, and it need not have been started.
  void finish(const std::string& key, const InvocationResult& result, Instant now);

  // Whether one with this key was refused, told when to come again, and comes then: once. A
  // connection by which one comes earlier has to be told again.
  bool take_promise(const std::string& key, Instant now);

  size_t size() const { return entries_.size(); }

 private:
  struct Entry {
    InvocationId invocation;
    std::optional<InvocationResult> success;
    Instant expires = kNever;
    std::list<std::string>::iterator order;  // valid while `success` is set
  };

  // Of those that were refused: when they were told to come again. The oldest are forgotten first.
  class Promises {
   public:
    void add(const std::string& key, Instant due);
    bool take(const std::string& key, Instant now);
    void forget(const std::string& key);

   private:
    struct Promise {
      Instant due;
      std::list<std::string>::iterator order;
    };
    std::unordered_map<std::string, Promise> promises_;
    std::list<std::string> told_;
  };

  void drop_expired(Instant now);
  void erase(std::unordered_map<std::string, Entry>::iterator entry);

  Limits limits_;
  std::unordered_map<std::string, Entry> entries_;
  std::list<std::string> finished_;  // oldest first; all have the same window
  Bytes bytes_;
  // Apart, so that a flood of connections takes no turn from those with an id.
  Promises by_id_;
  Promises by_connection_;
};

}  // namespace lambent::worker
