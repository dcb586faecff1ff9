// RelayService: the way to HTTP functions. The frontend finds out whose request it is and for which
// function; the worker implements this. All calls and callbacks happen on the loop thread.
#pragma once

#include <functional>

#include "core/domain/function.h"
#include "core/domain/invocation.h"
#include "core/http/server.h"

namespace lambent::http {

struct RelayCall {
  FunctionName function;
  // As the program gets it: without what is for one connection only (hop_by_hop.h).
  Request head;
  bool has_body = false;   // it streams (Responder::stream)
  std::string upgrade;     // the protocols that it asks for; empty: it keeps HTTP
  Headers answer_headers;  // of ours, beside the program's
  Responder responder;
  // The answer where the program gave none: an invocation that did not run, or ended without.
  std::function<Response(Result<InvocationResult>)> answer_of;
};

class RelayService {
 public:
  virtual void relay(RelayCall call) = 0;

 protected:
  ~RelayService() = default;
};

}  // namespace lambent::http
