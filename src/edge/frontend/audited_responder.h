// A responder that has its answer's status written into the audit log before the client gets it.
// On the loop thread.
#pragma once

#include "core/domain/audit.h"
#include "core/http/server.h"

namespace lambent::frontend {

// `record` has all but the status. A success that cannot be recorded is answered
// with the error of the record: what was done stays, and what it gave, such as a token, is
// withheld.
http::Responder audited(http::Responder responder, AuditRecord record, AuditSink sink);

}  // namespace lambent::frontend
