// What the lanes of a warp take away from an operation once all of them are there.
// Used by threads.h, on the host thread that runs the block.
#pragma once

#include "lambent/host/threads.h"

namespace lambent::host {

inline uint64_t reduced(WarpOperation operation, uint64_t a, uint64_t b) {
  switch (operation) {
    case WarpOperation::kAdd:
      return a + b;
    case WarpOperation::kMinimum:
      return a < b ? a : b;
    case WarpOperation::kMaximum:
      return a > b ? a : b;
    case WarpOperation::kSignedMinimum:
      return static_cast<int64_t>(a) < static_cast<int64_t>(b) ? a : b;
    case WarpOperation::kSignedMaximum:
      return static_cast<int64_t>(a) > static_cast<int64_t>(b) ? a : b;
    case WarpOperation::kAnd:
      return a & b;
    case WarpOperation::kOr:
      return a | b;
    case WarpOperation::kXor:
      return a ^ b;
    default:
      return a;
  }
}

// A lane that nobody speaks for gives the asking lane its own value back.
inline void complete_shuffle(Meeting& meeting) {
  uint64_t values[kWarp];
  for (Thread* t = meeting.waiting.first; t != nullptr; t = t->next) values[t->lane()] = t->value;
  for (Thread* t = meeting.waiting.first; t != nullptr; t = t->next) {
    if ((meeting.arrived >> t->operand & 1u) != 0) t->value = values[t->operand];
  }
}

inline void complete_match(Meeting& meeting) {
  uint64_t values[kWarp];
  for (Thread* t = meeting.waiting.first; t != nullptr; t = t->next) values[t->lane()] = t->value;
  for (Thread* t = meeting.waiting.first; t != nullptr; t = t->next) {
    unsigned same = 0;
    for (Thread* o = meeting.waiting.first; o != nullptr; o = o->next) {
      if (values[o->lane()] == values[t->lane()]) same |= 1u << o->lane();
    }
    t->value = same;
  }
}

inline void give_all(Meeting& meeting, uint64_t value) {
  for (Thread* t = meeting.waiting.first; t != nullptr; t = t->next) t->value = value;
}

inline void complete_meeting(Meeting& meeting) {
  if (meeting.operation == WarpOperation::kSynchronize) return;
  for (Thread* t = meeting.waiting.first; t != nullptr; t = t->next) t->present = meeting.arrived;
  switch (meeting.operation) {
    case WarpOperation::kShuffle:
      return complete_shuffle(meeting);
    case WarpOperation::kMatch:
      return complete_match(meeting);
    case WarpOperation::kBallot: {
      unsigned ballot = 0;
      for (Thread* t = meeting.waiting.first; t != nullptr; t = t->next) {
        if (t->value != 0) ballot |= 1u << t->lane();
      }
      return give_all(meeting, ballot);
    }
    default: {
      Thread* t = meeting.waiting.first;
      if (t == nullptr) return;
      uint64_t value = t->value;
      while ((t = t->next) != nullptr) value = reduced(meeting.operation, value, t->value);
      return give_all(meeting, value);
    }
  }
}

}  // namespace lambent::host
