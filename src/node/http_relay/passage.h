// Passage: one request on its way to the program of a sandbox, and its answer on its way back, over
// one connection. Bodies pass as they come; whichever side is slow holds the other back. Owned by a
// Session; loop thread.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "core/http/response_parser.h"
#include "core/http/streamed_exchange.h"
#include "node/http_relay/relayed_request.h"
#include "node/http_relay/upstream.h"

namespace lambent::http_relay {

// How it ended.
struct PassageEnd {
  bool succeeded = false;
  // "Http.BadAnswer", "Http.Disconnected", "Http.ServerError", "Http.ClientLeft"
  std::string error_type = {};
  std::string message = {};
  bool keeps_connection = false;
  // The connection was closed before anything of an answer came, and nothing was taken of the
  // request that could not be sent again.
  bool may_be_repeated = false;
  bool connection_is_lost = false;  // by the program's doing, before the answer was whole
  // Only the end of the connection ended the answer. It is whole if that was not the end of the
  // program; the client has not been told yet.
  bool may_be_cut_off = false;
};

class Passage {
 public:
  // `on_end` may destroy this.
  Passage(std::shared_ptr<RelayedRequest> request, std::function<void(PassageEnd)> on_end);
  ~Passage();
  Passage(const Passage&) = delete;
  Passage& operator=(const Passage&) = delete;

  // The connection stays the caller's, and its events are this one's until on_end.
  void begin(Upstream& upstream);
  // Instead of on_end: it is over, and its client's side is not touched any more, except while this
  // is called from within what that side does with an answer.
  void abandon();

 private:
  void pass_body(std::string_view bytes);
  void body_ended();
  void on_room();
  void on_readable();
  // False: this is over.
  bool take(std::string_view bytes);
  void begin_answer();
  void on_upstream_end(http::Transfer::Kind kind);
  void finish();
  void client_left();
  void let_go_of_client();
  // Of the answer that its client does not get any more. False: this is over.
  bool take_unwanted(std::string_view bytes);
  PassageEnd end_by_status();
  void fail(std::string type, std::string message);
  void end(PassageEnd how);

  // Shared with the worker's table: see RelayedRequest.
  std::shared_ptr<RelayedRequest> request_;
  std::function<void(PassageEnd)> on_end_;
  http::StreamedExchange* client_;  // null: there is none, or it is over
  Upstream* upstream_ = nullptr;
  http::ResponseParser parser_;
  std::string head_;  // until it is sent
  bool chunks_body_ = false;
  bool body_is_over_ = false;
  bool says_more_ = false;  // behind its answer
  bool head_passed_ = false;
  bool something_came_ = false;
  bool client_is_behind_ = false;
  bool client_left_ = false;
  size_t unwanted_ = 0;     // bytes that came since
  bool is_taking_ = false;  // what came
  bool is_over_ = false;
};

}  // namespace lambent::http_relay
