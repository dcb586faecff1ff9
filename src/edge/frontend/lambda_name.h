// The ways in which Lambda clients name a function, and the ARN that we give it. Values of the
// Lambda frontend.
#pragma once

#include <string>
#include <string_view>

#include "core/base/result.h"

namespace lambent::frontend {

struct LambdaName {
  std::string name;
  std::string qualifier;  // empty if none was given
};

// Reads "name", "account:function:name" and "arn:aws:lambda:region:account:function:name", each
// with
// ":qualifier" or without. INVALID_ARGUMENT for anything else.
Result<LambdaName> parse_lambda_name(std::string_view text);

// There are no versions: what a qualifier other than $LATEST names does not exist. `other` is the
// one in the query, which must not contradict.
Result<std::string> resolve_lambda_name(std::string_view text, std::string_view other);

// There are no regions or accounts either; clients want a whole ARN nevertheless.
std::string arn_of(std::string_view function);

}  // namespace lambent::frontend
