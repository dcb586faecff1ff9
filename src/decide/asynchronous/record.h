// What a destination of an asynchronous invocation gets: a record in Lambda's format, version 1.0.
// Pure; any thread.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "core/domain/invocation.h"
#include "decide/asynchronous/follow_up.h"

namespace lambent::asynchronous {

struct Ended {
  std::string function_arn = {};  // with its version
  Condition condition = Condition::kSuccess;
  Duration at{};  // since the Unix epoch
  InvocationResult result = {};
};

// As JSON of at most `most` bytes. What is too long for that is null, the response first, and named
// in "truncated".
std::string destination_record(const Ended& ended, std::string_view request_payload, size_t most);

}  // namespace lambent::asynchronous
