// The limits of the journal of dispatch by name; of its files too, which journal_store writes.
#pragma once

#include <cstddef>

#include "core/base/units.h"

namespace lambent::limits {

constexpr size_t kJournalFunctions = 1 << 20;    // ids above this are damage
constexpr Bytes kJournalBuffer = Bytes::mib(8);  // that the disk may be behind
constexpr Bytes kJournalBlock = Bytes::kib(64);
constexpr size_t kJournalSegments = 8;  // that share the journal's size

}  // namespace lambent::limits
