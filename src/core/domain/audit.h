// AuditRecord: who changed what, or was refused. A value; made by the frontend for every request
// that changes functions, tenants, tokens, secrets or devices, written by node/tenants.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "core/base/result.h"
#include "core/base/time.h"

namespace lambent {

struct AuditRecord {
  Duration at{};       // since the Unix epoch
  std::string origin;  // "127.0.0.1:40312", "unix, user 1000"
  std::string token;   // id of the token; empty: none was needed, or none was good
  std::string tenant;  // name of the tenant for which the request was made; empty: not known
  std::string method;
  std::string path;  // without the query
  int status = 0;    // of the answer
};

// Called on the loop thread when a record is on disk, or with an error when it cannot be written.
using AuditWritten = std::function<void(const Result<void>&)>;
// Takes a record; calls `written` at once if nothing is kept.
using AuditSink = std::function<void(AuditRecord record, AuditWritten written)>;

}  // namespace lambent
