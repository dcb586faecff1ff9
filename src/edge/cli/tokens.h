// lambent tokens and whoami: who may use a worker as which tenant. The secret of a token is shown
// once, on standard output, when it is made.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "edge/cli/console.h"
#include "edge/cli/credentials.h"
#include "edge/cli/transport.h"

namespace lambent::cli {

// Empty `tenant`: that of the credentials.
int run_tokens_ls(Transport& transport, Console& console, const std::string& tenant);

struct CreateTokenOptions {
  std::string tenant;
  std::string name;
  std::vector<std::string> scopes;
  std::optional<std::string> expires;  // "30d"; none: never
  std::string certificate;             // "email:alice@team.example"; empty: it gets a secret
};
// Writes lines for a shell that let clients use it: ours by its secret, AWS clients by their keys.
int run_tokens_create(Transport& transport, const http::Endpoint& endpoint, Console& console,
                      const CreateTokenOptions& options);

// Goes on after a failure; the exit code is the first one's.
int run_tokens_revoke(Transport& transport, Console& console, const std::string& tenant,
                      const std::vector<std::string>& ids);

int run_whoami(Transport& transport, Console& console);

}  // namespace lambent::cli
