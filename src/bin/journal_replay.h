// `lambent simulate --replay DIR`: every decision of a journal made again and compared. Used by the
// simulator's main.
#pragma once

#include <string>

#include "edge/cli/console.h"

namespace lambent::bin {

struct ReplayJournalOptions {
  std::string journal;   // a folder, or one segment
  std::string timeline;  // a file to write; empty: none
};

// The exit code: 0 if every decision is the recorded one, 25 (DATA_LOSS) if one differs.
int replay_journal(const ReplayJournalOptions& options, cli::Console& console);

}  // namespace lambent::bin
