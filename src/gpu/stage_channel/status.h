// How a channel's operations end. Values; no exceptions here, as the library runs in users'
// programs.
#pragma once

#include <cstdarg>
#include <cstdio>

namespace lambent::stage_channel {

enum class Status : int {
  kDone = 0,
  kTimedOut = 1,
  kPeerGone = 2,   // it ended or left; nothing comes any more
  kEnded = 3,      // the maker of the channel says so
  kTooLarge = 4,   // a slot has no room for it
  kMalformed = 5,  // what lies in the memory makes no sense
  kDevice = 6,     // a call of the driver failed
  kSystem = 7,     // a call of the system failed
  kInvalid = 8,    // the caller asked for what cannot be
  kFailed = 9,     // the sender gave up half-way on this job
};

// Why, in words; of the operation that failed last.
struct ErrorText {
  char text[512] = "";

  [[gnu::format(printf, 2, 3)]] void set(const char* format, ...) {
    va_list arguments;
    va_start(arguments, format);
    std::vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
  }
};

}  // namespace lambent::stage_channel
