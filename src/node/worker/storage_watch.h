// StorageWatch: whether the disk of the state folder takes what is to be durable. Looks once a
// second, and at once when a write had no space; knows again that there is some by itself. On the
// loop thread; the looking happens on a thread of its own, because a disk may hang.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "core/base/log.h"
#include "core/base/result.h"
#include "core/base/units.h"
#include "core/loop/event_loop.h"
#include "core/loop/work_thread.h"

namespace lambent::worker {

// What was found of the disk. Free: as an ordinary user may have it.
struct SpaceReading {
  Bytes free;
  // STORAGE_FULL where a write was tried and had no space; other errors are not of this matter.
  std::optional<Error> refused;
};

// Reads the free space of the folder's disk; if `write`, also writes kLeastSpace there, syncs and
// removes it: quotas show only so. Blocks.
SpaceReading read_space(const std::string& folder, bool write);

class StorageWatch {
 public:
  // With less the disk counts as full: a result of the largest size must fit.
  static constexpr Bytes kLeastSpace = Bytes::mib(8);

  // `read` replaces read_space in tests. Looks from now on.
  using Read = std::function<SpaceReading(bool write)>;
  StorageWatch(loop::EventLoop& loop, LogSink& log, std::string folder, Read read = {});
  ~StorageWatch();
  StorageWatch(const StorageWatch&) = delete;
  StorageWatch& operator=(const StorageWatch&) = delete;

  // A write had no space: looks at once.
  void suspect();
  // Why nothing can be made durable now; nullopt: it can.
  const std::optional<Error>& full() const { return full_; }
  // As it was at the last look.
  Bytes free() const { return free_; }

 private:
  void look();
  void found(const SpaceReading& reading);

  loop::EventLoop& loop_;
  LogSink& log_;
  const std::string folder_;
  const Read read_;
  std::optional<Error> full_;
  Bytes free_;
  bool looking_ = false;
  bool suspected_ = false;  // since the last look began
  loop::TimerId timer_;
  // Last: nothing of this is called once the rest is gone.
  loop::WorkThread thread_;
};

}  // namespace lambent::worker
