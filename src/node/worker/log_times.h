// When the lines of a log file were printed, as a file of text beside it: a line "@OFFSET TIME" for
// each mark, the offset in the log file and the time in milliseconds since the Unix epoch. What a
// kill or a full disk cut off spoils no other line. Pure; fuzzed.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/domain/function_log.h"

namespace lambent::worker {

// With the end of its line.
std::string log_time_line(uint64_t offset, Duration at);

// The marks within a log file of this size, in order. Of several marks that do not rise the last
// ones count: those before told of text that the disk did not get. What is no mark is passed over.
std::vector<LogMark> read_log_times(std::string_view bytes, uint64_t size);

}  // namespace lambent::worker
