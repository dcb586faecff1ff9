// A PostgreSQL server for tests, started once for a program and ended with it. Included by tests
// only; one thread.
#pragma once

#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <string>

#include "core/base/testing/testing.h"

namespace lambent::catalog {

class PostgresServer {
 public:
  PostgresServer() { url_ = output_of("start"); }
  ~PostgresServer() {
    if (there()) (void)output_of("stop");
  }
  PostgresServer(const PostgresServer&) = delete;
  PostgresServer& operator=(const PostgresServer&) = delete;

  // One for all tests of the program.
  static PostgresServer& shared() {
    static PostgresServer server;
    return server;
  }

  // False: it is not installed.
  bool there() const { return !url_.empty(); }
  std::string url(const std::string& database) const {
    std::string url = url_;
    return url.replace(url.find("/postgres?") + 1, 8, database);
  }
  void stop() { (void)output_of("stop"); }
  void start() { (void)output_of("start"); }

 private:
  std::string output_of(const std::string& verb) {
    const std::string command = std::string(LAMBENT_SOURCE_DIR) + "/tests/postgres_server.sh " +
                                verb + " " + folder_.path();
    FILE* const pipe = ::popen(command.c_str(), "re");
    char line[512] = {};
    const std::string said =
        pipe != nullptr && std::fgets(line, sizeof line, pipe) != nullptr ? line : "";
    if (pipe != nullptr) ::pclose(pipe);
    return said.substr(0, said.find('\n'));
  }

  TemporaryFolder folder_;
  std::string url_;
};

}  // namespace lambent::catalog
