// Backup of a worker's state folder while it runs, and the way back. Used by the verbs backup and
// restore; they block.
#pragma once

#include <string>

#include "core/base/result.h"

namespace lambent::bin {

struct BackupParts {
  bool volumes = true;  // they are as large as they want, and have a source
};

// Copies what must survive from `state` to the new folder `to`, for its owner only: functions with
// their code, layers and volumes, tenants, tokens, secrets and the node's key, asynchronous
// invocations and their results, learnt statistics, logs, the audit log; with the digests of all.
// The database is the state at one moment: all that was acknowledged before the call is in it.
// ALREADY_EXISTS: there is something at `to`; NOT_FOUND: `state` is no worker's; DATA_LOSS: a
// volume's content is not what was put there. If it fails, nothing is left at `to`.
Result<void> back_up_state(const std::string& state, const std::string& to,
                           const BackupParts& parts = {});

// Makes `state` from a backup. ALREADY_EXISTS if a worker's state is there; NOT_FOUND if `from` is
// no backup; DATA_LOSS if a file of it is not what was backed up; DATA_LOSS, FAILED_PRECONDITION as
// catalog::check_database().
Result<void> restore_state(const std::string& from, const std::string& state);

}  // namespace lambent::bin
