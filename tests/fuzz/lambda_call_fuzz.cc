// A request to Lambda's API: method, target, three headers and body, one a line; the body is the
// rest.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "core/base/check.h"
#include "core/domain/limits.h"
#include "edge/frontend/lambda_call.h"

namespace {

using namespace lambent;

std::string take_line(std::string_view& bytes) {
  const size_t end = std::min(bytes.find('\n'), bytes.size());
  std::string line(bytes.substr(0, end));
  bytes.remove_prefix(std::min(end + 1, bytes.size()));
  return line;
}

void check_name(const FunctionName& name) {
  CHECK(!name.name.empty(), "a decoded call has a name");
  CHECK(name.name.size() <= limits::kFunctionNameLength, "within its limit");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::string_view bytes(reinterpret_cast<const char*>(data), size);
  http::Request request;
  request.method = take_line(bytes);
  request.target = take_line(bytes);
  request.headers.add("X-Amz-Invocation-Type", take_line(bytes));
  request.headers.add("X-Amz-Client-Context", take_line(bytes));
  request.headers.add("traceparent", take_line(bytes));
  request.body = bytes;
  const auto call = frontend::decode_lambda_call(std::move(request), frontend::Caller());
  if (const auto* fault = std::get_if<frontend::LambdaFault>(&call)) {
    CHECK(fault->status >= 400, "a fault is an error");
    CHECK(!frontend::response_of(*fault).body.empty(), "and says so");
  } else if (const auto* create = std::get_if<frontend::CreateFunction>(&call)) {
    check_name(create->change.spec.name);
    CHECK(validate(create->change.spec).ok(), "only good functions reach the service");
  } else if (const auto* invoke = std::get_if<frontend::Invoke>(&call)) {
    check_name(invoke->request.function);
  }
  return 0;
}
