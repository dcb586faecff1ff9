// Invocations whose results become objects, named at once: what their requests say beside the
// payload, and the answer. Free functions; on the loop thread.
#pragma once

#include "core/domain/invocation_service.h"
#include "core/http/exchange.h"

namespace lambent::frontend {

// Content type, trace, needs, the number of outputs and how long they live, from the headers.
// `outputs` if they say nothing of it. INVALID_ARGUMENT, naming the header.
Result<void> read_submission(const http::Request& request, uint32_t outputs,
                             InvocationRequest& submission);

// Submits it, and answers 202 with the ids of its objects, or with why it could not begin.
void submit_for_objects(InvocationService& service, InvocationRequest request,
                        http::Responder& responder);

}  // namespace lambent::frontend
