// SpillFolder: the files of objects that left memory, each named by a version that no other has. Of
// the loop thread; what takes long is done elsewhere (Disk).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/base/fd.h"
#include "core/base/log.h"
#include "core/base/result.h"
#include "core/base/units.h"
#include "core/loop/event_loop.h"

namespace lambent::objects {

// Does `work` off the loop thread and then `completion` on it, in the order of asking and never
// before it returns; false if it cannot take more.
using Disk = std::function<bool(std::function<void()> work, std::function<void()> completion)>;

class SpillFolder {
 public:
  // Makes the folder; what an earlier worker left there is removed. An empty path: there is none,
  // and nothing is written. The loop and the disk outlive this.
  SpillFolder(loop::EventLoop& loop, LogSink& log, Disk disk, std::string path);
  ~SpillFolder();
  SpillFolder(const SpillFolder&) = delete;
  SpillFolder& operator=(const SpillFolder&) = delete;

  uint64_t next_version() { return next_version_++; }

  // Writes an object's file; `written` is called later, with its checksum. False, and nothing
  // happens, if the disk cannot take more.
  bool write(uint64_t version, std::shared_ptr<const OwnedFd> memfd, Bytes size,
             std::function<void(Result<uint32_t>)> written);
  // The same for reading it back into a sealed memfd. DATA_LOSS if the file is not what was
  // written.
  bool read(uint64_t version, Bytes size, uint32_t checksum,
            std::function<void(Result<OwnedFd>)> done);
  // If the disk has too much to do, the file stays until it has less.
  void remove(uint64_t version);
  // Gives memory back, if this is the last to have it, off the loop unless the disk is too busy.
  void close(std::shared_ptr<const OwnedFd> memfd);

 private:
  std::string path_of(uint64_t version) const;
  void remove_files();

  loop::EventLoop& loop_;
  const Disk disk_;
  const std::string path_;
  uint64_t next_version_ = 1;
  std::vector<std::string> removals_;  // files that the disk did not take yet
  std::optional<loop::TimerId> removal_timer_;
  // Gone with this: then what the disk did last is reported to none.
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace lambent::objects
