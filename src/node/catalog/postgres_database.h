// A database of PostgreSQL as a Database. It connects when it is first used and again when the
// connection was lost. Its session holds a lease: an advisory lock, which PostgreSQL gives to no
// other session while this one lives. One thread at a time.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "core/base/result.h"
#include "core/base/time.h"
#include "node/catalog/database.h"

namespace lambent::catalog {

struct PostgresOptions {
  std::string url;    // postgresql://… as libpq reads it
  std::string lease;  // empty: none. Another session has it: UNAVAILABLE, with its name
  // Called with each new connection, before anything else uses it; may be empty.
  std::function<Result<void>(Database&)> prepare = {};
  Duration connect_timeout = seconds(3);
  Duration answer_timeout = seconds(10);
  // After a connection failed, none is tried for so long.
  Duration pause = milliseconds(500);
};

// FAILED_PRECONDITION: libpq is missing. It does not connect yet. The clock outlives it.
Result<std::unique_ptr<Database>> open_postgres(PostgresOptions options, const Clock& clock);

// The same without what it says of a password.
std::string without_password(const std::string& url);

}  // namespace lambent::catalog
