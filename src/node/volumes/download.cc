#include "node/volumes/download.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "core/base/fd.h"
#include "node/volumes/on_disk.h"

namespace lambent::volumes {
namespace {

class Download final : public VolumeDownload {
 public:
  Download(VolumeFile file, OwnedFd fd, Disk disk, std::shared_ptr<size_t> lease)
      : file_(std::move(file)),
        fd_(std::make_shared<OwnedFd>(std::move(fd))),
        disk_(std::move(disk)),
        lease_(std::move(lease)) {}

  const VolumeFile& file() const override { return file_; }
  void read(Bytes offset, Bytes count, std::function<void(Result<std::string>)> done) override {
    run_on_disk<std::string>(
        disk_, alive_,
        [fd = fd_, offset, count]() -> Result<std::string> {
          std::string bytes(count.count, '\0');
          ssize_t got = 0;
          do {
            got = pread(fd->get(), bytes.data(), bytes.size(), static_cast<off_t>(offset.count));
          } while (got < 0 && errno == EINTR);
          if (got < 0) return error_from_errno("read a file of a volume", errno);
          bytes.resize(static_cast<size_t>(got));
          return bytes;
        },
        std::move(done));
  }

 private:
  const VolumeFile file_;
  const std::shared_ptr<OwnedFd> fd_;  // shared with reads under way
  const Disk disk_;
  const std::shared_ptr<size_t> lease_;
  const std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace

void open_download(const Disk& disk, const std::weak_ptr<bool>& owner, const std::string& place,
                   VolumeFile file, std::shared_ptr<size_t> lease,
                   std::function<void(Result<std::shared_ptr<VolumeDownload>>)> done) {
  run_on_disk<std::shared_ptr<OwnedFd>>(
      disk, owner,
      [place]() -> Result<std::shared_ptr<OwnedFd>> {
        auto fd =
            std::make_shared<OwnedFd>(::open(place.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC));
        if (!fd->valid()) return error_from_errno("read a file of a volume", errno);
        return fd;
      },
      [disk, lease = std::move(lease), file = std::move(file),
       done = std::move(done)](Result<std::shared_ptr<OwnedFd>> fd) {
        if (!fd.ok()) return done(fd.error());
        done(std::shared_ptr<VolumeDownload>(
            std::make_shared<Download>(file, std::move(**fd), disk, lease)));
      });
}

}  // namespace lambent::volumes
