// run_confined(): runs a program of ours on foreign bytes behind the walls that functions have, but
// perhaps with the host's network, and reads what it writes. Blocks; used by lambent-environment,
// which is single-threaded.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "core/base/result.h"
#include "core/base/time.h"
#include "node/sandbox/plan.h"

namespace lambent::environments {

struct ConfinedProgram {
  std::vector<std::string> argv;  // argv[0] is a path inside
  std::map<std::string, std::string> environment;
  std::vector<sandbox::Bind> binds;
  bool network = false;  // the host's; otherwise none at all but, by a proxy, these places
  std::vector<std::string> reaches = {};  // as ProxyRequest::place() writes them
};

struct ConfinedEnd {
  int exit_code = 0;                      // 128 + its number after a signal
  std::string output;                     // both streams, the last 256 KiB
  std::vector<std::string> refused = {};  // places that it asked for beside `reaches`
};

// What may go on while it runs. `stop`, asked once a second, gives the reason to end it.
struct ConfinedWatch {
  std::function<void(std::string_view line)> on_line;
  std::function<Result<void>()> stop;
};

// What this machine allows.
struct Walls {
  bool change_user = false;         // we are root: programs are another user
  bool own_user_namespace = false;  // each program has its own
};

// Once, before the first program: enters the namespaces in which walls can be made.
// FAILED_PRECONDITION: this machine allows none.
Result<Walls> prepare_to_confine();

// The reason of `stop`, or why it could not start.
Result<ConfinedEnd> run_confined(const Walls& walls, const ConfinedProgram& program,
                                 const ConfinedWatch& watch);

}  // namespace lambent::environments
