// VolumeFetch: makes this node's copy of a volume as the volume is at its keeper: asks for the list
// of files, removes what is gone, and brings in parts what is not here. What came stays when it
// fails, and the next one goes on there. Owned by VolumeCopies; on the loop thread.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/domain/volume_source.h"
#include "core/loop/event_loop.h"
#include "node/volumes/volume_store.h"

namespace lambent::volumes {

class VolumeFetch : public std::enable_shared_from_this<VolumeFetch> {
 public:
  // All outlive it.
  struct Uses {
    loop::EventLoop& loop;
    VolumeSource& source;
    VolumeStore& copies;
    // RESOURCE_EXHAUSTED if this node may not, or cannot, keep so much more.
    std::function<Result<void>(Bytes more)> room;
  };
  using Done = std::function<void(Result<void>)>;

  // So often in a row a part is asked for, and the list of files while it changes.
  static constexpr unsigned kTries = 5;

  VolumeFetch(Uses uses, VolumeName volume, Done done)
      : uses_(std::move(uses)), volume_(std::move(volume)), done_(std::move(done)) {}
  ~VolumeFetch() { uses_.loop.cancel(timer_); }
  VolumeFetch(const VolumeFetch&) = delete;
  VolumeFetch& operator=(const VolumeFetch&) = delete;

  // Calls `done` once, unless it is destroyed before: the copy has the files that the volume had at
  // one moment after this, or why not.
  void start();
  // Of contents, in this attempt; what was here before counts as neither.
  Bytes brought() const { return brought_; }

 private:
  // What to do with a value, if this is still there and has not ended then.
  template <typename Value>
  std::function<void(Result<Value>)> then(void (VolumeFetch::*step)(Result<Value>)) {
    return [weak = weak_from_this(), step](Result<Value> value) {
      const auto self = weak.lock();
      if (self != nullptr && self->done_) ((*self).*step)(std::move(value));
    };
  }
  void after_pause(void (VolumeFetch::*step)());

  void ask_for_list();
  void listed(Result<std::vector<VolumeFile>> files);
  void compare();
  void compared(std::vector<VolumeFile> files);
  void remove_next();
  void removed(Result<RemovedFiles> removed);
  void next_file();
  void find_file();
  void found(Result<UploadStatus> status);
  void begun(Result<std::shared_ptr<VolumeUpload>> upload);
  void next_part();
  void came(Result<std::string> bytes);
  void finished(Result<UploadStatus> status);
  void list_again(const Error& why);
  void end(Result<void> result);

  const Uses uses_;
  const VolumeName volume_;
  Done done_;  // empty: it has ended
  std::vector<VolumeFile> files_;
  std::deque<std::string> gone_;
  std::deque<VolumeFile> missing_;  // the first one is on its way
  std::shared_ptr<VolumeUpload> upload_;
  Bytes offset_;
  Bytes brought_;
  Bytes wanted_;
  unsigned lists_ = 0;     // that were asked for
  unsigned failures_ = 0;  // in a row
  unsigned spoilt_ = 0;    // files that came whole with another digest, in a row
  loop::TimerId timer_;
};

}  // namespace lambent::volumes
