// The ways in which Lambda clients name a function, and the ARN that we give it. Values of the
// Lambda frontend.
#pragma once

#include <string>
#include <string_view>

#include "core/base/result.h"
#include "core/domain/layer.h"

namespace lambent::frontend {

struct LambdaName {
  std::string name;
  std::string qualifier;  // empty if none was given
};

// Reads "name", "account:function:name" and "arn:aws:lambda:region:account:function:name", each
// with
// ":qualifier" or without. INVALID_ARGUMENT for anything else.
Result<LambdaName> parse_lambda_name(std::string_view text);

// The name with the qualifier that it has or that stands beside it in the query; these must not
// contradict. "hello", or "hello:prod". $LATEST is left out.
Result<std::string> qualified_lambda_name(std::string_view text, std::string_view other);

// There are no regions or accounts; clients want a whole ARN nevertheless. `function` may have a
// qualifier.
std::string arn_of(std::string_view function);

// "arn:aws:lambda:REGION:ACCOUNT:layer:NAME:VERSION", whatever its region and account are.
// INVALID_ARGUMENT for anything else.
Result<LayerReference> parse_layer_arn(std::string_view arn);
std::string layer_arn_of(const LayerReference& layer);
std::string layer_arn_of(std::string_view name);

}  // namespace lambent::frontend
