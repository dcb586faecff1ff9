#include "node/volumes/volume_fetch.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "core/domain/limits.h"

namespace lambent::volumes {
namespace {

constexpr Duration kPause = milliseconds(100);

UploadKey key_of(const VolumeName& volume, const VolumeFile& file) {
  return {.tenant = volume.tenant,
          .volume = volume.name,
          .path = file.path,
          .size = file.size,
          .sha256 = file.sha256};
}

bool is_gone(const Error& error) {
  return error.code == ErrorCode::kAborted || error.code == ErrorCode::kNotFound;
}

}  // namespace

void VolumeFetch::start() { ask_for_list(); }

void VolumeFetch::end(Result<void> result) {
  if (!done_) return;
  upload_.reset();
  // It may destroy this.
  const auto self = shared_from_this();
  std::exchange(done_, nullptr)(std::move(result));
}

// Longer after each failure in a row.
void VolumeFetch::after_pause(void (VolumeFetch::*step)()) {
  const Duration pause = kPause * (int64_t{1} << std::min(failures_, kTries));
  uses_.loop.cancel(timer_);
  timer_ = uses_.loop.call_after(pause, [this, step] {
    const auto self = shared_from_this();
    if (done_) (this->*step)();
  });
}

// ---- The list of files

void VolumeFetch::ask_for_list() {
  ++lists_;
  uses_.source.list_files(volume_, then(&VolumeFetch::listed));
}

void VolumeFetch::list_again(const Error& why) {
  if (lists_ >= kTries) {
    return end(Error{ErrorCode::kUnavailable,
                     "the volume changes faster than it is copied: " + why.message});
  }
  upload_.reset();
  after_pause(&VolumeFetch::ask_for_list);
}

void VolumeFetch::listed(Result<std::vector<VolumeFile>> files) {
  if (!files.ok()) {
    if (!is_retryable(files.error().code) || ++failures_ >= kTries) return end(files.error());
    return after_pause(&VolumeFetch::ask_for_list);
  }
  failures_ = 0;
  files_ = *std::move(files);
  if (uses_.copies.find_volume(volume_.tenant, volume_.name).ok()) return compare();
  uses_.copies.create_volume(volume_.tenant, volume_.name,
                             [weak = weak_from_this()](const Result<VolumeStatus>& made) {
                               const auto self = weak.lock();
                               if (self == nullptr || !self->done_) return;
                               if (!made.ok()) return self->end(made.error());
                               self->compare();
                             });
}

void VolumeFetch::compare() {
  std::map<std::string, VolumeFile> here;
  std::set<std::string> contents;
  std::string after;
  for (;;) {
    auto page = uses_.copies.list_files(volume_.tenant, volume_.name, "", after,
                                        limits::kVolumeFilesPerPage);
    if (!page.ok()) return end(page.error());
    if (page->empty()) break;
    after = page->back().path;
    for (VolumeFile& file : *page) {
      contents.insert(file.sha256);
      here.emplace(file.path, std::move(file));
    }
  }
  missing_.clear();
  gone_.clear();
  Bytes more;
  for (VolumeFile& file : files_) {
    const auto found = here.find(file.path);
    const bool is_same = found != here.end() && found->second == file;
    if (found != here.end()) here.erase(found);
    if (is_same) continue;
    if (contents.insert(file.sha256).second) more += file.size;
    missing_.push_back(std::move(file));
  }
  files_.clear();
  for (const auto& [path, file] : here) gone_.push_back(path);
  brought_ = Bytes();
  wanted_ = more;
  remove_next();
}

// First, so that a folder may come in place of a file.
void VolumeFetch::remove_next() {
  if (!gone_.empty()) {
    return uses_.copies.remove_files(volume_.tenant, volume_.name, gone_.front(),
                                     then(&VolumeFetch::removed));
  }
  // What an earlier attempt brought of a file is on the disk already.
  const auto status = uses_.copies.find_volume(volume_.tenant, volume_.name);
  const Bytes before = status.ok() ? status->unfinished : Bytes();
  if (const auto room = uses_.room(wanted_ - std::min(before, wanted_)); !room.ok()) {
    return end(room.error());
  }
  next_file();
}

void VolumeFetch::removed(Result<RemovedFiles> removed) {
  if (!removed.ok() && removed.error().code != ErrorCode::kNotFound) return end(removed.error());
  gone_.pop_front();
  remove_next();
}

// ---- One file after the other

void VolumeFetch::next_file() {
  upload_.reset();
  if (missing_.empty()) return end({});
  find_file();
}

void VolumeFetch::find_file() {
  uses_.copies.find_upload(key_of(volume_, missing_.front()), then(&VolumeFetch::found));
}

void VolumeFetch::found(Result<UploadStatus> status) {
  if (!status.ok()) return end(status.error());
  if (status->complete) {
    missing_.pop_front();
    return next_file();
  }
  offset_ = status->offset;
  uses_.copies.begin_upload(key_of(volume_, missing_.front()), offset_, then(&VolumeFetch::begun));
}

void VolumeFetch::begun(Result<std::shared_ptr<VolumeUpload>> upload) {
  if (!upload.ok()) return end(upload.error());
  upload_ = *std::move(upload);
  upload_->on_room([weak = weak_from_this()] {
    const auto self = weak.lock();
    if (self == nullptr || !self->done_ || self->upload_ == nullptr) return;
    if (self->upload_->failure()) return self->end(*self->upload_->failure());
    self->next_part();
  });
  next_part();
}

void VolumeFetch::next_part() {
  const VolumeFile& file = missing_.front();
  if (offset_ == file.size) return upload_->finish(then(&VolumeFetch::finished));
  uses_.source.read(volume_, file, offset_, std::min(kVolumePart, file.size - offset_),
                    then(&VolumeFetch::came));
}

void VolumeFetch::came(Result<std::string> bytes) {
  if (upload_ == nullptr) return;
  if (!bytes.ok() && is_gone(bytes.error())) return list_again(bytes.error());
  const VolumeFile& file = missing_.front();
  const bool fits = bytes.ok() && !bytes->empty() && Bytes(bytes->size()) <= file.size - offset_;
  if (!fits) {
    Error error =
        bytes.ok() ? Error{ErrorCode::kDataLoss, "another number of bytes came"} : bytes.error();
    const bool may_help = is_retryable(error.code) || error.code == ErrorCode::kDataLoss;
    if (!may_help || ++failures_ >= kTries) return end(error.with_context(file.path));
    return after_pause(&VolumeFetch::next_part);
  }
  failures_ = 0;
  const Bytes count(bytes->size());
  offset_ += count;
  brought_ += count;
  const bool has_room = upload_->write(*bytes);
  if (!done_ || upload_ == nullptr) return;
  if (upload_->failure()) return end(*upload_->failure());
  if (has_room) next_part();
}

void VolumeFetch::finished(Result<UploadStatus> status) {
  // Each part was as it was sent, and all together are another file than was said; or the disk has
  // less than was written.
  const bool is_spoilt =
      status.ok() ? !status->complete : status.error().code == ErrorCode::kAborted;
  if (is_spoilt) {
    const std::string why = status.ok() ? "less is there than came" : status.error().message;
    if (++spoilt_ >= 2) {
      return end(Error{ErrorCode::kDataLoss, missing_.front().path + ": " + why});
    }
    upload_.reset();
    return find_file();
  }
  if (!status.ok()) return end(status.error());
  spoilt_ = 0;
  missing_.pop_front();
  next_file();
}

}  // namespace lambent::volumes
