#include "edge/frontend/submission.h"

#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>

#include "core/base/parse_number.h"
#include "core/domain/limits.h"
#include "core/http/trace_context.h"
#include "edge/frontend/json_response.h"
#include "edge/frontend/native_error.h"
#include "edge/frontend/object_call.h"
#include "edge/frontend/payload_type.h"

namespace lambent::frontend {

Result<void> read_submission(const http::Request& request, uint32_t outputs,
                             InvocationRequest& submission) {
  submission.content_type = payload_type_of(request.headers);
  submission.trace_id = http::trace_id_of(request.headers);
  ASSIGN_OR_RETURN(submission.needs, parse_object_list(request.headers.get("X-Lambent-Needs")));
  submission.outputs = outputs;
  if (const std::string_view text = request.headers.get("X-Lambent-Outputs"); !text.empty()) {
    const auto number = parse_number<uint32_t>(text);
    if (!number || *number < 1 || *number > limits::kOutputs) {
      return Error{ErrorCode::kInvalidArgument,
                   "X-Lambent-Outputs must be 1 to " + std::to_string(limits::kOutputs)};
    }
    submission.outputs = *number;
  }
  ASSIGN_OR_RETURN(submission.time_to_live, read_time_to_live(request));
  return {};
}

void submit_for_objects(InvocationService& service, InvocationRequest request,
                        http::Responder& responder) {
  const InvocationId id = request.id;
  const uint32_t outputs = request.outputs;
  // What could not even begin is the answer; what comes of the rest is told by the objects.
  // Shared with the callback, which may outlive this call.
  struct Refused {
    std::optional<Error> error;
    Duration retry_after{};
  };
  auto refused = std::make_shared<Refused>();
  service.submit(std::move(request), [refused](Result<InvocationResult> result) {
    if (!result.ok()) refused->error = result.error();
    if (!result.ok() || result->outcome != Outcome::kRejected) return;
    *refused = {result->error, result->retry_after};
  });
  if (refused->error) {
    return responder.send(error_response(*refused->error, refused->retry_after));
  }
  nlohmann::json objects = nlohmann::json::array();
  for (uint32_t i = 0; i < outputs; ++i) objects.push_back(to_string(ObjectId{id, i}));
  http::Response response =
      json_response(202, {{"invocation", to_string(id)}, {"objects", std::move(objects)}});
  response.headers.add("x-amzn-RequestId", to_string(id));
  responder.send(std::move(response));
}

}  // namespace lambent::frontend
