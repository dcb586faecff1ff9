#include "node/objects/spill_folder.h"

#include <unistd.h>

#include <filesystem>
#include <utility>

#include "node/objects/spill_file.h"

namespace lambent::objects {
namespace {

// After the disk could not remove files, it is left to itself for so long.
constexpr Duration kRemovalPause = seconds(1);

}  // namespace

SpillFolder::SpillFolder(loop::EventLoop& loop, LogSink& log, Disk disk, std::string path)
    : loop_(loop), disk_(std::move(disk)), path_(std::move(path)) {
  if (path_.empty()) return;
  std::error_code error;
  std::filesystem::remove_all(path_, error);
  std::filesystem::create_directories(path_, error);
  if (error) log.error("object_folder", {{"folder", path_}, {"error", error.message()}});
}

SpillFolder::~SpillFolder() {
  if (removal_timer_) loop_.cancel(*removal_timer_);
}

bool SpillFolder::write(uint64_t version, std::shared_ptr<const OwnedFd> memfd, Bytes size,
                        std::function<void(Result<uint32_t>)> written) {
  // Shared between the work and its completion.
  auto checksum = std::make_shared<Result<uint32_t>>(0u);
  return disk_([path = path_of(version), memfd = std::move(memfd), size,
                checksum] { *checksum = write_spill_file(path, memfd->get(), size); },
               [alive = std::weak_ptr(alive_), checksum, written = std::move(written)] {
                 if (!alive.expired()) written(*checksum);
               });
}

bool SpillFolder::read(uint64_t version, Bytes size, uint32_t checksum,
                       std::function<void(Result<OwnedFd>)> done) {
  // Shared between the work and its completion.
  auto memfd = std::make_shared<Result<OwnedFd>>(OwnedFd());
  return disk_([path = path_of(version), size, checksum,
                memfd] { *memfd = read_spill_file(path, size, checksum); },
               [alive = std::weak_ptr(alive_), memfd, done = std::move(done)] {
                 if (!alive.expired()) done(std::move(*memfd));
               });
}

void SpillFolder::remove(uint64_t version) {
  removals_.push_back(path_of(version));
  if (!removal_timer_) remove_files();
}

void SpillFolder::remove_files() {
  const bool taken = disk_(
      [paths = removals_] {
        for (const std::string& path : paths) unlink(path.c_str());
      },
      [] {});
  if (taken) return removals_.clear();
  removal_timer_ = loop_.call_after(kRemovalPause, [this] {
    removal_timer_.reset();
    remove_files();
  });
}

void SpillFolder::close(std::shared_ptr<const OwnedFd> memfd) {
  disk_([memfd = std::move(memfd)] {}, [] {});
}

std::string SpillFolder::path_of(uint64_t version) const {
  return path_ + "/" + std::to_string(version);
}

}  // namespace lambent::objects
