// RelayService: the way to functions for HTTP requests, and for answers that come in pieces. The
// frontend finds out whose request it is and for which function; the worker implements this. All
// calls and callbacks happen on the loop thread.
#pragma once

#include <functional>
#include <memory>

#include "core/domain/function.h"
#include "core/domain/inference.h"
#include "core/domain/invocation.h"
#include "core/http/answer_sink.h"
#include "core/http/server.h"

namespace lambent::http {

struct RelayCall {
  FunctionName function;
  // As the program gets it: without what is for one connection only (hop_by_hop.h); with its body
  // if that came whole.
  Request head;
  bool has_body = false;   // it streams (Responder::stream)
  std::string upgrade;     // the protocols that it asks for; empty: it keeps HTTP
  Headers answer_headers;  // of ours, beside the program's
  Responder responder;
  // The answer where the program gave none: an invocation that did not run, or ended without.
  std::function<Response(Result<InvocationResult>)> answer_of;
  // Instead, if the function is a handler, which takes events: gets this call back, with the
  // version that its name means for this request.
  std::function<void(RelayCall, const FunctionSpec&)> to_handler = {};
  // The same, if it is a graph of kernels.
  std::function<void(RelayCall, const FunctionSpec&)> to_kernels = {};
  // It speaks the Open Inference Protocol: which version of the function serves it is that
  // protocol's to say (resolve_model). `model_version` is the one that its path names; empty: none.
  bool is_inference = false;
  std::string model_version = {};
  // Its body came whole, in `head`, and its signature covers that: HTTP functions do not take it.
  bool is_signed = false;
  // Nothing was asked of who sends it: only a function with an open URL takes it.
  bool is_anonymous = false;
};

// An invocation of a handler whose answer may come in pieces.
struct HandlerCall {
  InvocationRequest request;  // with an id
  // Gets what the handler streams. Shared with what speaks with the handler: see AnswerSink.
  std::shared_ptr<AnswerSink> sink;
  // How it ended; the payload of an answer that did not stream is in it.
  std::function<void(Result<InvocationResult>)> done;
  // Of a kernel function that puts calls together, what this one brings: elements of the first
  // dimension, and since when the first of them waits. 0: it is not put together with others. The
  // result then has the id of the invocation that they became.
  uint64_t elements = 0;
  Instant since = {};
};

class RelayService {
 public:
  virtual void relay(RelayCall call) = 0;
  virtual void invoke(HandlerCall call) = 0;
  // Its client went away.
  virtual void forget(InvocationId id) = 0;
  // Whether anyone may send requests to it, by its open URL.
  virtual bool is_open(const FunctionName& name) const = 0;
  // What a kernel function takes and gives. `done` is called once, perhaps before this returns.
  virtual void describe(const FunctionSpec& spec,
                        std::function<void(Result<ModelDescription>)> done) = 0;
  // Which pages of other origins may send requests to it (cors.h); empty: none, or no such
  // function.
  virtual std::string cors_of(const FunctionName& name) const = 0;

 protected:
  ~RelayService() = default;
};

}  // namespace lambent::http
