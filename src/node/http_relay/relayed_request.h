// RelayedRequest: one request to an HTTP function, from its arrival to the end of its answer.
// Shared between the worker's table of them and the session that relays it: either may end first.
// Loop thread only.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <utility>

#include "core/http/message.h"
#include "core/http/server.h"

namespace lambent::http_relay {

struct RelayedRequest {
  RelayedRequest(http::Request its_head, http::Responder its_responder)
      : head(std::move(its_head)), responder(std::move(its_responder)) {}

  // What the program gets: its path, and the fields that are for it (http/hop_by_hop.h). The body
  // is the responder's stream, or here if it came whole.
  http::Request head;
  bool has_body = false;
  http::Headers answer_headers;  // of ours, beside the program's
  std::string upgrade;           // the protocols that it asks for; empty: it keeps HTTP
  http::Responder responder;
  // An answer with this head is read, and is none for the client; empty: each is for it.
  std::function<bool(const http::Response&)> keeps;
  std::optional<http::Response> kept;  // the head of such an answer, with words between nodes
  // Its answer began, or its client is gone: nothing else can be answered.
  bool answered = false;
  bool client_is_gone = false;
  // Called if the client goes while a session relays it.
  std::function<void()> on_client_gone;
};

}  // namespace lambent::http_relay
