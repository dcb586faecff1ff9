// Sending files of this machine into volumes: what was cut off goes on where it was, and what the
// volume has is not sent. Blocks; used by `lambent volumes put` and by deploy.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "core/base/time.h"
#include "edge/cli/console.h"
#include "edge/cli/transport.h"
#include "edge/cli/volume_files.h"

namespace lambent::cli {

// "/v1/volumes/NAME" and what follows.
std::string volume_target(const std::string& volume, std::string_view rest = "");
// Its parts escaped, the '/' between them as they are.
std::string escaped_path(std::string_view path);

// One line that is written over, on a terminal.
class TransferProgress {
 public:
  TransferProgress(Console& console, std::string name, Bytes total)
      : console_(console), name_(std::move(name)), total_(total) {}
  ~TransferProgress();
  TransferProgress(const TransferProgress&) = delete;
  TransferProgress& operator=(const TransferProgress&) = delete;

  void show(const char* doing, Bytes done);

 private:
  Console& console_;
  const std::string name_;
  const Bytes total_;
  const SystemClock clock_;
  Instant last_{};
  bool shown_ = false;
};

constexpr int kMostTries = 8;
// Tries until it is done, or fails for good, or has failed `most` times without progress.
Result<void> with_tries(const std::function<Result<void>()>& attempt,
                        const std::function<Bytes()>& progress, int most = kMostTries);

class VolumeUpload {
 public:
  VolumeUpload(Transport& transport, Console& console, std::string volume)
      : transport_(transport), console_(console), volume_(std::move(volume)) {}

  struct Put {
    std::string how;  // "sent", "continued" or "unchanged"
    MeasuredFile measured;
  };
  Result<Put> put(const LocalFile& file);
  // Of a file that was measured already.
  Result<std::string> put(const LocalFile& file, const MeasuredFile& measured);

 private:
  Result<void> try_once(const LocalFile& file, const MeasuredFile& measured,
                        TransferProgress& progress);
  Result<void> send(const LocalFile& file, const MeasuredFile& measured, Bytes offset,
                    TransferProgress& progress);

  Transport& transport_;
  Console& console_;
  const std::string volume_;
  std::string query_;
  std::string how_;
  Bytes furthest_;  // that the worker had of it
};

}  // namespace lambent::cli
