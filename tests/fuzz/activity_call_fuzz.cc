// A request of the dashboard: the method in the first line, the target in the second, the body
// after them. What becomes a question to the journal is words that no program takes for options.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "core/base/check.h"
#include "edge/frontend/activity_call.h"
#include "edge/frontend/journal_frontend.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace lambent;
  std::string_view rest(reinterpret_cast<const char*>(data), size);
  http::Request request;
  for (std::string* part : {&request.method, &request.target}) {
    const size_t end = std::min(rest.find('\n'), rest.size());
    *part = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  request.body = rest;
  const auto call = frontend::decode_activity_call(request);
  if (const auto* refused = std::get_if<http::Response>(&call)) {
    CHECK(refused->status >= 400, "what is no call is an error");
  }
  if (const auto* list = std::get_if<frontend::ListEnded>(&call)) {
    CHECK(list->limit >= 1, "a page has something");
    CHECK(list->limit <= frontend::kActivityPerPage, "and not all");
  }
  const auto question = frontend::decode_journal_call(request);
  if (const auto* what_if = std::get_if<WhatIfQuery>(&question)) {
    CHECK(!what_if->changes.empty(), "something is changed");
    CHECK(what_if->last > Duration(0), "of some time");
    for (const auto& [key, value] : what_if->changes) {
      for (const std::string& word : {key, value}) {
        CHECK(!word.empty(), "a setting has a name and a value");
        CHECK(word.front() != '-', "which are no options");
        CHECK(word.find_first_of("= \n") == std::string::npos, "and are words");
      }
    }
  }
  return 0;
}
