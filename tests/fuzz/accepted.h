// Which inputs the parser of a fuzz target took. The runner of a corpus holds a target that tells
// so to it: each seed has to be taken, but for those whose names begin with "refused". A format
// that changes would else leave seeds that reach nothing.
#pragma once

namespace lambent::fuzz {

struct Accepted {
  bool is_told = false;  // whether the target says it at all
  bool last = false;     // of the input that ran last
};
inline Accepted accepted;

// For the initializer of a constant of the target, so that it holds before the first input.
inline bool tells_what_it_accepts() { return accepted.is_told = true; }

}  // namespace lambent::fuzz
