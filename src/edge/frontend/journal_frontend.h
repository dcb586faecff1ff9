// JournalFrontend: /v1/invocations/ID/why and /v1/what-if on a JournalService. Both are the
// operator's, because a journal has the functions of all tenants. On the loop thread.
#pragma once

#include <string_view>
#include <variant>

#include "core/domain/journal_service.h"
#include "core/http/server.h"

namespace lambent::frontend {

struct TellWhy {
  InvocationId invocation;
};
// A request that is no good call is the response that answers it.
using JournalCall = std::variant<http::Response, TellWhy, WhatIfQuery>;

bool is_journal_path(std::string_view path);
// Pure.
JournalCall decode_journal_call(const http::Request& request);

class JournalFrontend {
 public:
  // Null: there is no journal.
  explicit JournalFrontend(JournalService* service) : service_(service) {}

  void handle(const http::Request& request, http::Responder responder);

 private:
  JournalService* const service_;
};

}  // namespace lambent::frontend
