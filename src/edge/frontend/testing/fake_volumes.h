// A VolumeService in memory for the frontend's tests. Included by tests only; one thread.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/domain/volume.h"

namespace lambent::frontend {

class FakeVolumes final : public VolumeService {
 public:
  // Of the default tenant's and others' volumes: contents by path.
  std::map<std::pair<TenantId, std::string>, std::map<std::string, std::string>> volumes;
  std::optional<Error> write_failure;  // of an upload's bytes
  UploadKey last_key = {};
  Bytes last_offset;
  bool holds_transfers = false;  // until go_on()
  int live_transfers = 0;

  void go_on() {
    for (auto& held : std::exchange(held_, {})) held();
  }

  void create_volume(TenantId tenant, const std::string& name,
                     Callback<VolumeStatus> done) override {
    if (!volumes.emplace(std::pair(tenant, name), std::map<std::string, std::string>()).second) {
      return done(Error{ErrorCode::kAlreadyExists, "it is there"});
    }
    done(VolumeStatus{.name = name});
  }
  void remove_volume(TenantId tenant, const std::string& name,
                     Callback<VolumeStatus> done) override {
    if (volumes.erase({tenant, name}) == 0) return done(missing());
    done(VolumeStatus{.name = name});
  }
  std::vector<VolumeStatus> list_volumes(TenantId tenant) const override {
    std::vector<VolumeStatus> list;
    for (const auto& [key, files] : volumes) {
      if (key.first == tenant) list.push_back({.name = key.second, .files = files.size()});
    }
    return list;
  }
  Result<std::vector<VolumeFile>> list_files(TenantId tenant, const std::string& volume,
                                             const std::string& prefix, const std::string& after,
                                             size_t limit) const override {
    const auto found = volumes.find({tenant, volume});
    if (found == volumes.end()) return missing();
    std::vector<VolumeFile> list;
    for (const auto& [path, content] : found->second) {
      if (path > after && path.starts_with(prefix) && list.size() < limit) {
        list.push_back(file_of(path, content));
      }
    }
    return list;
  }
  void remove_files(TenantId tenant, const std::string& volume, const std::string& path,
                    Callback<RemovedFiles> done) override {
    const auto found = volumes.find({tenant, volume});
    if (found == volumes.end() || found->second.erase(path) == 0) return done(missing());
    done(RemovedFiles{1});
  }
  void find_upload(UploadKey key, Callback<UploadStatus> done) override {
    last_key = std::move(key);
    done(UploadStatus{.offset = Bytes(3), .file = {}});
  }
  void begin_upload(UploadKey key, Bytes offset,
                    Callback<std::shared_ptr<VolumeUpload>> done) override {
    last_key = key;
    last_offset = offset;
    const auto found = volumes.find({key.tenant, key.volume});
    if (found == volumes.end()) return done(missing());
    begin(std::move(done), std::make_shared<Upload>(key.path, found->second[key.path],
                                                    write_failure, live_transfers));
  }
  void open_file(TenantId tenant, const std::string& volume, const std::string& path,
                 Callback<std::shared_ptr<VolumeDownload>> done) override {
    const auto found = volumes.find({tenant, volume});
    if (found == volumes.end() || !found->second.contains(path)) return done(missing());
    begin(std::move(done), std::make_shared<Download>(file_of(path, found->second[path]),
                                                      found->second[path], live_transfers));
  }

 private:
  template <typename Transfer, typename Made>
  void begin(Callback<std::shared_ptr<Transfer>> done, std::shared_ptr<Made> made) {
    auto give = [done = std::move(done), transfer = std::shared_ptr<Transfer>(std::move(made))] {
      done(transfer);
    };
    if (holds_transfers) return held_.push_back(std::move(give));
    give();
  }

  class Upload final : public VolumeUpload {
   public:
    Upload(std::string path, std::string& content, const std::optional<Error>& failure, int& live)
        : path_(std::move(path)), content_(content), later_(failure), live_(live) {
      content_.clear();
      ++live_;
    }
    ~Upload() override { --live_; }
    bool write(std::string_view bytes) override {
      content_ += bytes;
      failure_ = later_;
      return true;
    }
    void on_room(std::function<void()>) override {}
    const std::optional<Error>& failure() const override { return failure_; }
    void finish(std::function<void(Result<UploadStatus>)> done) override {
      done(UploadStatus{
          .offset = Bytes(content_.size()), .complete = true, .file = file_of(path_, content_)});
    }

   private:
    const std::string path_;
    std::string& content_;
    const std::optional<Error> later_;
    std::optional<Error> failure_;
    int& live_;
  };

  class Download final : public VolumeDownload {
   public:
    Download(VolumeFile file, std::string content, int& live)
        : file_(std::move(file)), content_(std::move(content)), live_(live) {
      ++live_;
    }
    ~Download() override { --live_; }
    const VolumeFile& file() const override { return file_; }
    void read(Bytes offset, Bytes count, std::function<void(Result<std::string>)> done) override {
      done(content_.substr(offset.count, count.count));
    }

   private:
    const VolumeFile file_;
    const std::string content_;
    int& live_;
  };

  static VolumeFile file_of(const std::string& path, const std::string& content) {
    return {.path = path, .size = Bytes(content.size()), .sha256 = "digest of " + content};
  }
  std::vector<std::function<void()>> held_;

  static Error missing() { return {ErrorCode::kNotFound, "it is not there"}; }
};

}  // namespace lambent::frontend
