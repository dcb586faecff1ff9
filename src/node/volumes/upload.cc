#include "node/volumes/upload.h"

#include <utility>

#include "core/domain/limits.h"
#include "node/volumes/limits.h"
#include "node/volumes/on_disk.h"
#include "node/volumes/volume_folder.h"

namespace lambent::volumes {

Upload::Upload(VolumeStore& store, Place place, std::shared_ptr<UnfinishedFile> file)
    : store_(store),
      store_alive_(store.alive_),
      place_(std::move(place)),
      file_(std::move(file)),
      taken_(place_.offset) {
  ++store_.transfers_;
}

Upload::~Upload() {
  if (store_alive_.expired()) return;
  --store_.transfers_;
  const auto* unfinished = store_.find_unfinished(place_.key, place_.name);
  if (unfinished == nullptr || unfinished->active != this) return;
  if (!failure_ && !buffer_.empty()) flush();
  store_.upload_dropped(place_.key, place_.name, taken_);
}

void Upload::fail(Error error) {
  if (failure_) return;
  failure_ = std::move(error);
  buffer_.clear();
  if (on_room_) on_room_();
}

bool Upload::write(std::string_view bytes) {
  if (failure_ || bytes.empty()) return true;
  if (store_alive_.expired()) return true;
  const Bytes after = taken_ + Bytes(bytes.size());
  const auto& size = place_.key.size;
  if (size && after > *size) {
    fail({ErrorCode::kInvalidArgument,
          "more came than the " + std::to_string(size->count) + " bytes that the file has"});
    return true;
  }
  if (!size) {
    if (const auto room = store_.check_room(place_.key.tenant, Bytes(bytes.size())); !room.ok()) {
      fail(room.error());
      return true;
    }
    if (auto* counted = store_.find_unfinished(place_.key, place_.name)) counted->counted = after;
  }
  taken_ = after;
  buffer_.append(bytes);
  if (Bytes(buffer_.size()) >= limits::kVolumePiece) flush();
  held_ = waiting_ >= limits::kVolumeAhead;
  return !held_;
}

void Upload::flush() {
  auto bytes = std::make_shared<const std::string>(std::exchange(buffer_, {}));
  const Bytes count(bytes->size());
  waiting_ += count;
  run_on_disk<void>(
      store_.disk_, store_.alive_, [file = file_, bytes] { return file->append(*bytes); },
      [weak = weak_from_this(), count](const Result<void>& result) {
        if (const auto self = weak.lock()) self->flushed(count, result);
      });
}

void Upload::flushed(Bytes bytes, const Result<void>& result) {
  waiting_ -= bytes;
  if (!result.ok()) return fail(result.error());
  if (!held_ || waiting_ * 2 > limits::kVolumeAhead) return;
  held_ = false;
  if (on_room_) on_room_();
}

Result<UploadStatus> Upload::complete(const Place& place, UnfinishedFile* file) {
  const UploadKey& key = place.key;
  std::string digest = key.sha256;
  const Bytes size = file == nullptr ? *key.size : file->size();
  if (file != nullptr) {
    ASSIGN_OR_RETURN(digest, file->finish());
    if (key.size && size < *key.size) return UploadStatus{.offset = size, .file = {}};
    if (!key.sha256.empty() && digest != key.sha256) {
      file->remove();
      return Error{ErrorCode::kAborted, "what came of '" + key.path + "' has the sha256 " + digest +
                                            " and not " + key.sha256 +
                                            "; it is dropped: put the file again"};
    }
  }
  RETURN_IF_ERROR(publish(place.folder, place.name, digest, key.path));
  return UploadStatus{.offset = size,
                      .complete = true,
                      .file = {.path = key.path, .size = size, .sha256 = std::move(digest)}};
}

void Upload::finish(std::function<void(Result<UploadStatus>)> done) {
  if (failure_) return done(*failure_);
  if (store_alive_.expired()) return;
  if (!buffer_.empty()) flush();
  // The store learns of it also if its client is gone.
  run_on_disk<UploadStatus>(
      store_.disk_, store_.alive_,
      [place = place_, file = file_] { return complete(place, file.get()); },
      [&store = store_, place = place_, self = shared_from_this(),
       done = std::move(done)](Result<UploadStatus> status) {
        if (status.ok() && status->complete) {
          store.published(place.key, place.name, status->file);
        } else if (!status.ok() && status.error().code == ErrorCode::kAborted) {
          self->taken_ = Bytes();
        }
        done(self->failure_ && !status.ok() ? *self->failure_ : std::move(status));
      });
}

}  // namespace lambent::volumes
