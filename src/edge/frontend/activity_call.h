// The calls of /v1/activity, decoded from HTTP. Values; decode_activity_call is a pure function and
// the only reader of such requests.
#pragma once

#include <string_view>
#include <variant>

#include "core/domain/activity.h"
#include "core/http/message.h"
#include "edge/frontend/caller.h"
#include "edge/frontend/node_cursor.h"

namespace lambent::frontend {

constexpr size_t kActivityPerPage = 500;

struct ListFunctionActivity {
  std::string after;  // a name; empty: from the start
  size_t limit = kActivityPerPage;
  bool with_latencies = false;  // what their percentiles are made of
};
struct ReadFunctionActivity {
  std::string function;
};
// Those after one place and before the other; a place that says nothing of a node is none.
struct ListEnded {
  std::string function;  // empty: all
  NodeCursor after;
  NodeCursor before;
  size_t limit = kActivityPerPage;
  // A place was a number: it is one of the node that is asked, and so is what comes next.
  bool is_unnamed = false;

  EndedQuery query_at(const std::string& node) const {
    return {function, after.offset_at(node), before.offset_at(node), limit};
  }
};
struct ReadEnded {
  InvocationId invocation;
};
// Those without an outcome, and who has the GPUs.
struct ListLive {
  std::string function;  // empty: all
  size_t limit = kActivityPerPage;
};
struct FollowActivity {};

// A request that is no good call is the response that answers it.
using ActivityCall = std::variant<http::Response, ListFunctionActivity, ReadFunctionActivity,
                                  ListEnded, ReadEnded, ListLive, FollowActivity>;

bool is_activity_path(std::string_view path);
ActivityCall decode_activity_call(const http::Request& request);

}  // namespace lambent::frontend
