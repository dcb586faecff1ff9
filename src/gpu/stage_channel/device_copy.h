// DeviceCopier: copies between a device and a channel's memory, through the CUDA driver of the
// process if there is one. A resource, of one thread at a time and one context.
#pragma once

#include <cstddef>
#include <cstdint>

#include "gpu/stage_channel/channel_file.h"
#include "gpu/stage_channel/status.h"

namespace lambent::stage_channel {

struct Driver;

// For a stream that copies are to follow: no work that is under way uses their memory.
inline constexpr uint64_t kNoStream = UINT64_MAX;

class DeviceCopier {
 public:
  // So many copies may be under way.
  static constexpr uint32_t kMostUnderWay = 8;

  explicit DeviceCopier(const ChannelFile& file) : file_(file) {}
  DeviceCopier(const DeviceCopier&) = delete;
  DeviceCopier& operator=(const DeviceCopier&) = delete;
  // Waits for its copies and releases page-locked memory.
  ~DeviceCopier();

  // Copies that follow are made in this thread's current context, after what is in `stream` now
  // (kNoStream: after nothing).
  Status follow(uint64_t stream, ErrorText& error);
  // Begins a copy of bytes that lie in one block of a slot. There is room for it (is_full).
  Status begin_to_host(uint64_t slot, uint64_t offset, uint64_t device, size_t bytes,
                       ErrorText& error);
  Status begin_to_device(uint64_t slot, uint64_t offset, uint64_t device, size_t bytes,
                         ErrorText& error);
  bool is_full() const { return begun_ - ended_ == kMostUnderWay; }
  bool is_idle() const { return begun_ == ended_; }
  // Waits for the oldest copy.
  Status wait_for_oldest(ErrorText& error);
  // After a failure: nothing that was begun touches the memory any more.
  void abandon();

  // Why copies are slower than they could be; empty if they are not.
  const char* note() const { return note_.text; }

 private:
  struct Block;

  Status failed(const char* call, int code, ErrorText& error);
  Status prepare(ErrorText& error);
  // Page-locks the block, once; goes on without where that cannot be.
  void lock_block(uint64_t slot, uint64_t offset);
  Status after_begin(ErrorText& error);

  const ChannelFile& file_;
  const Driver* driver_ = nullptr;
  void* context_ = nullptr;
  void* stream_ = nullptr;
  void* ordered_ = nullptr;  // the event that joins the caller's stream and ours
  void* events_[kMostUnderWay] = {};
  uint64_t begun_ = 0, ended_ = 0;
  char* is_locked_ = nullptr;  // by block of all slots
  bool locks_ = true;
  ErrorText note_;
};

}  // namespace lambent::stage_channel
