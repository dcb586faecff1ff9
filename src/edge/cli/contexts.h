// Contexts: the workers that a user of the command has named, each with where it is and as whom to
// ask it, and which of them is asked unless another is named. Values, kept in one file that only
// its owner can read; verbs 'lambent config' change it, on one thread.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "core/base/result.h"
#include "edge/cli/console.h"

namespace lambent::cli {

struct Context {
  std::string endpoint;
  std::string token;  // empty: none is sent
  std::string tenant;
  std::string authorities;  // of https, as tls::CredentialFiles has them
  std::string certificate;
  std::string key;

  bool operator==(const Context&) const = default;
};

struct Contexts {
  std::string current;  // empty: none
  std::map<std::string, Context> named;

  bool operator==(const Contexts&) const = default;
};

// INVALID_ARGUMENT, naming `path` and showing no token.
Result<Contexts> contexts_in(std::string_view text, const std::string& path);
std::string text_of(const Contexts& contexts);

// Those in the file; none if there is no file. FAILED_PRECONDITION if others than its owner can
// read it.
Result<Contexts> read_contexts(const std::string& path);
// The one that is named, or else the current one; nothing if none is. NOT_FOUND.
Result<std::optional<Context>> choose(const Contexts& contexts, const std::string& name);

// The verbs. `set` adds one, or changes what `changes` has of one that is there; the first one
// becomes the current one. As JSON each prints what `ls` does then.
int run_config_set(Console& console, const std::string& path, const std::string& name,
                   const Context& changes);
int run_config_use(Console& console, const std::string& path, const std::string& name);
int run_config_ls(Console& console, const std::string& path);
int run_config_rm(Console& console, const std::string& path, const std::string& name);

}  // namespace lambent::cli
