// Upload: one upload that goes on: pieces to the thread of volumes, no more of them than it keeps
// up with. Made by VolumeStore, which may go before it; on the loop thread.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "core/domain/volume.h"
#include "node/volumes/unfinished_file.h"
#include "node/volumes/volume_store.h"

namespace lambent::volumes {

class Upload final : public VolumeUpload, public std::enable_shared_from_this<Upload> {
 public:
  struct Place {
    UploadKey key;
    std::string name;    // of its file in `uploads`; empty: the volume has the content
    std::string folder;  // of the volume
    Bytes offset;        // where it goes on
  };
  Upload(VolumeStore& store, Place place, std::shared_ptr<UnfinishedFile> file);
  ~Upload() override;

  bool write(std::string_view bytes) override;
  void on_room(std::function<void()> callback) override { on_room_ = std::move(callback); }
  const std::optional<Error>& failure() const override { return failure_; }
  void finish(std::function<void(Result<UploadStatus>)> done) override;
  // So many bytes are there, as it turned out.
  void has(Bytes bytes) { taken_ = bytes; }
  // Nothing more is taken.
  void fail(Error error);

 private:
  // Blocks, on the thread of volumes.
  static Result<UploadStatus> complete(const Place& place, UnfinishedFile* file);
  void flush();
  void flushed(Bytes bytes, const Result<void>& result);

  VolumeStore& store_;
  const std::weak_ptr<bool> store_alive_;
  const Place place_;
  const std::shared_ptr<UnfinishedFile> file_;  // shared with work on the disk
  std::string buffer_;
  Bytes taken_;    // with what was there before
  Bytes waiting_;  // for the disk
  bool held_ = false;
  std::optional<Error> failure_;
  std::function<void()> on_room_;
};

}  // namespace lambent::volumes
