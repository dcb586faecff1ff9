// A database of PostgreSQL as a Database. It connects when it is first used and again when the
// connection was lost, to the one of the servers in its URL that takes writes. Its session holds a
// lease: an advisory lock, which PostgreSQL gives to no other session while this one lives. One
// thread at a time.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.h"
#include "core/base/time.h"
#include "node/catalog/database.h"

namespace lambent::catalog {

struct PostgresOptions {
  // postgresql://… as libpq reads it. Of several hosts each is tried, the last good one first; one
  // that only reads, or that another has been promoted over, is none.
  std::string url;
  std::string lease;  // empty: none. Another session has it: UNAVAILABLE, with its name
  // Called with each new connection, before anything else uses it; may be empty.
  std::function<Result<void>(Database&)> prepare = {};
  Duration connect_timeout = seconds(3);  // of each host
  Duration answer_timeout = seconds(10);
  // After a connection failed, none is tried for so long.
  Duration pause = milliseconds(500);
};

// FAILED_PRECONDITION: libpq is missing. It does not connect yet. The clock outlives it.
Result<std::unique_ptr<Database>> open_postgres(PostgresOptions options, const Clock& clock);

// A server as libpq is told of it; empty: as the rest of the URL says.
struct PostgresHost {
  std::string host;
  std::string address;
  std::string port;

  bool operator==(const PostgresHost&) const = default;
};
// Lists of libpq, taken apart: of one port all hosts have it. At least one.
std::vector<PostgresHost> split_hosts(std::string_view hosts, std::string_view addresses,
                                      std::string_view ports);

// The same without what it says of a password.
std::string without_password(const std::string& url);

}  // namespace lambent::catalog
