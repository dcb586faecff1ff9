// A channel's file: making it, telling those who use it that it is at an end, and mapping it. The
// first two are for the worker, which never maps what sandboxes write to.
#pragma once

#include <sys/types.h>

#include <cstdint>

#include "gpu/stage_channel/check.h"
#include "gpu/stage_channel/status.h"

namespace lambent::stage_channel {

// Makes a channel at `path`, where there must be nothing. Its memory is taken as it is used: a
// large slot_bytes costs nothing. It should lie in a file system in memory (tmpfs), where its pages
// can be page-locked. Errors: kInvalid for sizes that cannot be, kSystem.
Status create_channel(const char* path, uint32_t slots, uint64_t slot_bytes, mode_t mode,
                      ErrorText& error);

// A process that waits in the channel, now or later, finds that it has ended: within 20 ms.
Status end_channel(const char* path, ErrorText& error);

enum class Role { kSender, kReceiver };

// One end's view of the file: a mapping, and a lock that says as long as the process lives that
// there is a sender, or a receiver. A resource, of one thread at a time.
//
// The lock is on the open file: a child made by fork, without exec, holds it too.
class ChannelFile {
 public:
  ChannelFile() = default;
  ChannelFile(const ChannelFile&) = delete;
  ChannelFile& operator=(const ChannelFile&) = delete;
  ~ChannelFile() { close(); }

  // kInvalid if it has, or had, an end in this role; kMalformed if it is no channel.
  Status open(const char* path, Role role, ErrorText& error);
  // Says that this end has left, too.
  void close();

  const Geometry& geometry() const { return geometry_; }
  Header& header() const { return *reinterpret_cast<Header*>(base_); }
  SlotHeader& slot(uint64_t index) const {
    return *reinterpret_cast<SlotHeader*>(base_ + geometry_.slot_header(index));
  }
  char* data(uint64_t slot) const { return base_ + geometry_.slot_data(slot); }

  // Asks the kernel. A peer that has not come yet is not gone.
  bool peer_is_gone() const;
  bool has_ended() const { return header().ended.load(std::memory_order_acquire) != 0; }

 private:
  int fd_ = -1;
  Role role_ = Role::kSender;
  char* base_ = nullptr;
  Geometry geometry_;
};

}  // namespace lambent::stage_channel
