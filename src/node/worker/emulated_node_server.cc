#include "node/worker/emulated_node_server.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string_view>

#include "core/base/packet.h"
#include "core/base/units.h"
#include "node/worker/sandbox_socket.h"

namespace lambent::worker {
namespace {

constexpr size_t kMostNode = Bytes::mib(64).count;
constexpr size_t kPage = 4096;
constexpr int kAcceptsPerTurn = 16;
constexpr int kSameSize = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

// Leaves pages of zeros out: what the node does not have takes no memory.
Result<void> write_sparse(int fd, std::string_view content) {
  static constexpr char kZeros[kPage] = {};
  if (ftruncate(fd, static_cast<off_t>(content.size())) != 0) {
    return error_from_errno("ftruncate", errno);
  }
  for (size_t at = 0; at < content.size(); at += kPage) {
    const std::string_view page = content.substr(at, kPage);
    if (std::memcmp(page.data(), kZeros, page.size()) == 0) continue;
    if (lseek(fd, static_cast<off_t>(at), SEEK_SET) < 0) return error_from_errno("lseek", errno);
    RETURN_IF_ERROR(write_all(fd, page));
  }
  return {};
}

// A file in memory that is and stays as large as `content`.
Result<OwnedFd> sealed_file(const char* name, const std::string& content, int seals) {
  OwnedFd fd(memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!fd.valid()) return error_from_errno("memfd_create", errno);
  RETURN_IF_ERROR(write_sparse(fd.get(), content));
  // Other users than ours open it by the descriptor that they are sent.
  if (fchmod(fd.get(), 0666) != 0) return error_from_errno("fchmod", errno);
  if (fcntl(fd.get(), F_ADD_SEALS, seals) != 0) return error_from_errno("F_ADD_SEALS", errno);
  return fd;
}

}  // namespace

Result<std::unique_ptr<EmulatedNodeServer>> EmulatedNodeServer::open(loop::EventLoop& loop,
                                                                     LogSink& log,
                                                                     const std::string& image,
                                                                     const std::string& path) {
  ASSIGN_OR_RETURN(const std::string content, read_file(image, kMostNode));
  unlink(image.c_str());
  ASSIGN_OR_RETURN(OwnedFd live, sealed_file("gpu-node", content, kSameSize));
  ASSIGN_OR_RETURN(OwnedFd pristine,
                   sealed_file("gpu-node-pristine", content, kSameSize | F_SEAL_WRITE));
  ASSIGN_OR_RETURN(OwnedFd listener, listen_to_sandbox(path));
  return std::make_unique<EmulatedNodeServer>(
      loop, log, Files{std::move(live), std::move(pristine), std::move(listener)}, path);
}

EmulatedNodeServer::EmulatedNodeServer(loop::EventLoop& loop, LogSink& log, Files files,
                                       std::string path)
    : log_(log),
      files_(std::move(files)),
      path_(std::move(path)),
      watch_(loop.watch(files_.listener.get(), true, false,
                        [this](loop::Readiness) { hand_out(); })) {}

EmulatedNodeServer::~EmulatedNodeServer() {
  if (files_.listener.valid()) unlink(path_.c_str());
}

EmulatedNodeServer::Files EmulatedNodeServer::hand_over() {
  watch_.reset();
  return std::move(files_);
}

// Nothing is read of who connects, and nothing of it is kept.
void EmulatedNodeServer::hand_out() {
  for (int count = 0; count < kAcceptsPerTurn; ++count) {
    const OwnedFd socket(
        accept4(files_.listener.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!socket.valid()) return;
    // Locks belong to an open file, so each process gets one of its own.
    const std::string self = "/proc/self/fd/" + std::to_string(files_.live.get());
    const OwnedFd own(::open(self.c_str(), O_RDWR | O_CLOEXEC));
    if (!own.valid()) {
      log_.warning("gpu_node_not_given",
                   {{"error", to_string(error_from_errno("open " + self, errno))}});
      continue;
    }
    const int fds[] = {own.get(), files_.pristine.get()};
    (void)send_packet(socket.get(), "N", fds);  // who is gone already needs none
  }
}

}  // namespace lambent::worker
