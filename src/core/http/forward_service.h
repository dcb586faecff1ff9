// ForwardService: which node answers a request. The frontend says what a request is about and how
// it is answered here; node/cluster implements this. All calls and callbacks happen on the loop
// thread.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.h"
#include "core/base/time.h"
#include "core/domain/access.h"
#include "core/domain/function.h"
#include "core/http/event_stream.h"
#include "core/http/server.h"

namespace lambent::http {

// Which nodes may answer a request.
enum class Destination {
  kAnyNode,         // it runs a function, at most once
  kHereOrAnyNode,   // the same of what each node keeps for itself: elsewhere if not here
  kAnyNodeAndMore,  // it submits an invocation that runs at least once: a node lost is no end of it
  kHome,            // it changes functions: at the home, or where all share a catalog elsewhere
  kHomeOrHere,      // it reads the catalog
  kHomeOnly,        // it is for what the home keeps, wherever the catalog is
  kWhoKnows,        // it asks for what one of the nodes has
  kAllWhoKnow,      // it is for what several nodes may have: each is asked
};

struct ForwardCall {
  Destination destination = Destination::kAnyNode;
  FunctionName function;  // perhaps qualified
  bool creates = false;   // it may be the first that is heard of the function
  Principal principal;
  std::string tenant;  // its name
  Request request;
  Responder responder;
  std::function<void(Request, Responder)> here;       // answers it on this node
  std::function<Response(const Error&)> response_of;  // in the form of its API
  // Of an answer that is an event stream (event_stream.h): the event that ends it, and how that
  // tells of an error where a node is lost. Empty: the answer is cut off.
  std::function<EventFrame(const Error&)> last_event = {};
};

class ForwardService {
 public:
  // Whose request a node forwarded to this one. Nothing: it comes from a client. UNAUTHENTICATED:
  // it says that it comes from a node, and proves nothing.
  struct Forwarded {
    std::string node;
    std::string tenant;
    Scopes scopes;
    std::string token;
  };
  virtual Result<std::optional<Forwarded>> forwarded_by(const Request& request) const = 0;
  // Counts one that was forwarded to this node, and takes off what is between nodes.
  virtual void take(Request& request) = 0;
  virtual void route(ForwardCall call) = 0;
  // Calls `then` once the function is known here, or will not be. UNAVAILABLE: what functions there
  // are cannot be told now, or the function is there and could not be copied.
  virtual void catch_up(const FunctionName& function, std::function<void(Result<void>)> then) = 0;
  // A change of the catalog that this node answered.
  virtual void changed() = 0;

  // What this node is called, and which others there are.
  virtual std::string self() const = 0;
  struct Peer {
    std::string node;
    bool answers = true;  // or may: it is not known to be lost
  };
  virtual std::vector<Peer> peers() const = 0;
  // What another node is asked for: what nodes tell each other, below /v1/cluster, or as a tenant
  // what a client of it who may do all would ask for.
  struct Question {
    std::string target;
    std::string tenant = "default";  // its name
    bool only_here = false;          // what that node has itself
    std::string method = "GET";
  };
  // `done` comes once, in this turn or a later one. UNAVAILABLE.
  virtual void ask(const std::string& node, Question question, Duration timeout,
                   std::function<void(Result<Response>)> done) = 0;

 protected:
  ~ForwardService() = default;
};

// In the answer to a forwarded request that did nothing: this node does not have the function.
constexpr std::string_view kNotHere = "X-Lambent-Not-Here";

// "true" in a request that is for what the node has which is asked, whatever others have.
constexpr std::string_view kOnlyHere = "X-Lambent-Only-Here";

}  // namespace lambent::http
