// Backup of a worker's state folder while it runs, and the way back. Used by the verbs backup and
// restore; they block.
#pragma once

#include <string>

#include "core/base/result.h"

namespace lambent::bin {

// Copies what must survive from `state` to the new folder `to`, for its owner only: functions with
// their code, tenants, tokens, secrets and the node's key, asynchronous invocations and their
// results, learnt statistics, logs, the audit log. The copy is the state at one moment: all that
// was acknowledged before the call is in it. ALREADY_EXISTS: there is something at `to`; NOT_FOUND:
// `state` is no worker's. If it fails, nothing is left at `to`.
Result<void> back_up_state(const std::string& state, const std::string& to);

// Makes `state` from a backup. ALREADY_EXISTS if a worker's state is there; NOT_FOUND if `from` is
// no backup; DATA_LOSS, FAILED_PRECONDITION as catalog::check_database().
Result<void> restore_state(const std::string& from, const std::string& state);

}  // namespace lambent::bin
