// Whether another node did nothing of a request that was forwarded to it, by its answer: only then
// may the request be sent to a second node. Pure; used by ClusterNode.
#pragma once

#include "core/http/message.h"

namespace lambent::cluster {

enum class NotBegun {
  kNo,       // it may have run there: the answer is the client's
  kStops,    // the node is stopping
  kNotHere,  // the node does not have the function
};

// `tells`: NodeReport::tells_not_begun of the node. Programs before pass on what a function's
// answer says: of those no word of stopping counts, which they do not know, and an answer that
// names an invocation is a function's.
NotBegun not_begun_by(const http::Headers& answer, bool tells);

}  // namespace lambent::cluster
