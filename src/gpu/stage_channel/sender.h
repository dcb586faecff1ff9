// Sender: the end of a channel that writes values, one job after the other, block by block, so that
// the receiver reads the first while the last are still on their way. A resource of one thread at a
// time; throws and logs nothing.
#pragma once

#include <cstdint>

#include "gpu/stage_channel/channel_file.h"
#include "gpu/stage_channel/device_copy.h"
#include "gpu/stage_channel/waiting.h"

namespace lambent::stage_channel {

// One entry to be sent: its `offset` is chosen by send().
struct Outgoing {
  Entry entry;
  uint64_t address = 0;  // of entry.bytes, in this process or on its device
  bool on_device = false;
};

class Sender {
 public:
  Sender() : copier_(file_) {}

  Status open(const char* path) { return file_.open(path, Role::kSender, error_); }

  // Sends a job's value, and returns when the memory at `outgoing` may be used again. Waits for a
  // free slot for at most timeout_ms (negative: for ever), and in the copies as long as they take.
  // What lies on the device is copied after what is in `stream` (a CUstream) now.
  //
  // kTimedOut, kPeerGone, kEnded: the job was not sent. kTooLarge, kInvalid: nor was it, and the
  // next can be. kDevice: the receiver finds that this job's value failed.
  Status send(uint64_t job, uint32_t requests, const Outgoing* outgoing, uint32_t count,
              uint64_t stream, int64_t timeout_ms);

  uint64_t slot_bytes() const { return file_.geometry().slot_bytes; }
  // Of the last operation that was not kDone.
  const char* error() const { return error_.text; }
  const char* note() const { return copier_.note(); }

 private:
  Status wait_for_slot(int64_t timeout_ms);
  static uint64_t place(uint64_t end);
  Status check(uint64_t job, uint32_t requests, const Outgoing* outgoing, uint32_t count,
               uint64_t& total);
  static void write_header(SlotHeader& slot, uint64_t job, uint32_t requests,
                           const Outgoing* outgoing, uint32_t count);
  Status copy(SlotHeader& slot, const Outgoing* outgoing, uint32_t count, uint64_t stream);
  Status copy_from_device(SlotHeader& slot, const Entry& entry, uint64_t address, uint64_t piece);
  Status publish_oldest(SlotHeader& slot);
  Status drain(SlotHeader& slot);
  void publish(SlotHeader& slot, uint64_t ready);

  ChannelFile file_;
  DeviceCopier copier_;
  forward_ring::SpinBudget budget_;
  ErrorText error_;
  uint64_t sent_ = 0;
  // Where the copies under way end, oldest first.
  uint64_t ends_[DeviceCopier::kMostUnderWay] = {};
  uint64_t ends_begun_ = 0, ends_done_ = 0;
};

}  // namespace lambent::stage_channel
