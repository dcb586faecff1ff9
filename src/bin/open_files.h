// What of the files that this process may open is for whom: every client is one, every sandbox some
// five, every object in memory one. Used while the worker is set up, on its thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "core/base/log.h"

namespace lambent {

// The most of each; sandboxes and the worker's own files have the rest.
struct OpenFileShares {
  size_t connections;
  size_t objects;
};
OpenFileShares share_of(uint64_t open_files);

// What to say of a limit that leaves clients fewer connections than there can be; nothing of
// others.
std::optional<std::string> shortage_of(uint64_t open_files);

// What this process may open; UINT64_MAX: as many as it likes.
uint64_t open_files_limit();

// Raises the soft limit, which is usually 1,024 and meant for programs that call select(), to the
// hard one. Sandboxes get a limit of their own.
void allow_many_files(LogSink& log);
// What the limit is too low for, if it is.
void tell_of_few_files(LogSink& log);

}  // namespace lambent
