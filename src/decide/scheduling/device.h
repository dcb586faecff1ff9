// Device: what the fleet knows of one device: its health, its tokens, its memory, and what is on
// it. A value; kept by DeviceTable, read by policies and by dispatch.
#pragma once

#include <cstdint>
#include <optional>

#include "core/base/state_archive.h"
#include "core/base/units.h"
#include "decide/scheduling/device_concurrency.h"
#include "decide/scheduling/fleet_options.h"

namespace lambent::scheduling {

struct alignas(64) Device {
  DeviceOptions options;
  std::optional<DeviceConcurrency> concurrency;
  bool healthy = true;
  bool lost = false;    // by its last reading; never healthy then
  Bytes taken;          // of its memory, by what is no sandbox and does not move for one
  unsigned losses = 0;  // how often it was lost
  double utilisation = 0;
  unsigned tokens_held = 0;
  unsigned start_slots_held = 0;
  Bytes starting;            // memory of the sandboxes that hold them
  unsigned tokens_hung = 0;  // of those held, by sandboxes whose stop hangs
  unsigned sandboxes = 0;    // planned, starting, idle and busy
  unsigned occupants = 0;    // processes that exist: starting, idle, busy and stopping
  unsigned idle = 0;
  // What admission counts, by MemoryRule. A sandbox that is being stopped does not count where the
  // next one waits for it to be gone (may_start); where it does not wait, a stopped run still does.
  Bytes committed;
  Bytes idle_memory;
  Bytes occupied;  // memory of the processes that exist, stopping ones included
  // MemoryRule::kMoveIdle: what is on the device now, moving memory included; what those admitted
  // will yet bring; and what will go, its sandbox being stopped or its memory on its way out.
  Bytes resident;
  Bytes promised;
  Bytes leaving;
  unsigned without_context = 0;  // of the occupants
  unsigned contexts_wanted = 0;  // once all that is under way is over
  // It is kept for a function that takes several devices together (gang_places.h): it gives none of
  // its tokens to others, and begins nothing of theirs.
  bool reserved = false;

  // D as it is now.
  unsigned tokens() const {
    return concurrency ? concurrency->tokens(tokens_held) : options.tokens;
  }
  // Whether it has a token for anyone; and for whom it is reserved, or who is there already.
  bool has_token() const { return has_token_left() && !reserved; }
  bool has_token_left() const { return tokens_held < tokens(); }
  // Whether it has a token, or one that is held will come back.
  bool gives_tokens() const { return has_token_left() || tokens_held > tokens_hung; }
  // How many of its tokens and start slots are held.
  unsigned load() const { return tokens_held + start_slots_held; }
  bool is_idle() const { return tokens_held == 0 && start_slots_held == 0 && !reserved; }
  // Healthy, and with nothing to do or with no token left.
  bool is_free() const { return healthy && is_idle(); }
  bool is_full() const { return healthy && !has_token(); }
  // What is left for sandboxes.
  Bytes capacity() const { return options.memory - taken; }
  // MemoryRule::kMoveIdle: how much more has to leave than does, so that all admitted find room.
  Bytes memory_short() const { return resident + promised - leaving - capacity(); }
  bool contexts_short() const { return contexts_wanted > options.contexts; }

  void archive(StateArchive& archive);
};

}  // namespace lambent::scheduling
