// Receiver: the end of a channel that reads values, one job after the other, each block as soon as
// it is there. A resource of one thread at a time; throws and logs nothing.
#pragma once

#include <cstdint>

#include "gpu/stage_channel/channel_file.h"
#include "gpu/stage_channel/device_copy.h"
#include "gpu/stage_channel/waiting.h"

namespace lambent::stage_channel {

class Receiver {
 public:
  Receiver() : copier_(file_) {}

  Status open(const char* path) { return file_.open(path, Role::kReceiver, error_); }

  // Waits for the next job's value for at most timeout_ms (negative: for ever): what it consists of
  // is in arrival() then; its bytes may still be on their way. Asked again before release(), it
  // answers the same. kPeerGone and kEnded only when nothing is left to be read; after kMalformed
  // nothing can be read any more.
  Status receive(int64_t timeout_ms);
  const Arrival& arrival() const { return arrival_; }

  // Copies the bytes of an entry to `address`, in this process or on its device, and returns when
  // they are there. What lies on the device is written after what is in `stream` now. kFailed: the
  // sender gave up; error() is its reason.
  Status take(uint32_t entry, uint64_t address, bool on_device, uint64_t stream,
              int64_t timeout_ms);
  // Gives the slot back, whether or not anything was taken. There is an arrival.
  Status release();

  uint64_t slot_bytes() const { return file_.geometry().slot_bytes; }
  const char* error() const { return error_.text; }
  const char* note() const { return copier_.note(); }

 private:
  Status wait_for_bytes(SlotHeader& slot, uint64_t end, const Deadline& deadline);
  Status copy_to_device(SlotHeader& slot, const Entry& entry, uint64_t address, uint64_t stream,
                        const Deadline& deadline);
  uint64_t slot_index() const { return received_ % file_.geometry().slots; }

  ChannelFile file_;
  DeviceCopier copier_;
  forward_ring::SpinBudget budget_;
  ErrorText error_;
  Arrival arrival_;
  bool has_arrival_ = false, is_malformed_ = false;
  uint64_t received_ = 0;
};

}  // namespace lambent::stage_channel
