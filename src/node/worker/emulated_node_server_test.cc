#include "node/worker/emulated_node_server.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "core/base/packet.h"
#include "core/base/testing/testing.h"

namespace lambent::worker {
namespace {

class EmulatedNode : public testing::Test {
 protected:
  void SetUp() override {
    std::ofstream(folder_ / "image") << std::string(8192, 'x');
    auto opened = EmulatedNodeServer::open(loop_, log_, folder_ / "image", folder_ / "node");
    ASSERT_TRUE(opened.ok()) << opened.error().message;
    server_ = std::move(*opened);
  }
  OwnedFd call() {
    OwnedFd fd(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    strncpy(address.sun_path, (folder_ / "node").c_str(), sizeof(address.sun_path) - 1);
    EXPECT_EQ(connect(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
    return fd;
  }
  std::vector<OwnedFd> files() {
    const OwnedFd socket = call();
    for (int turn = 0; turn < 1000; ++turn) {
      loop_.run_once(milliseconds(10));
      char word = 0;
      auto packet = receive_packet(socket.get(), {&word, 1});
      if (!packet.ok()) break;
      if (packet->has_value()) return std::move((*packet)->fds);
    }
    return {};
  }

  const TemporaryFolder folder_;
  SystemClock clock_;
  NullLogSink log_;
  loop::EventLoop loop_{clock_};
  std::unique_ptr<EmulatedNodeServer> server_;
};

TEST_F(EmulatedNode, IsHandedToEachWhoConnectsAsAnOpenFileOfItsOwn) {
  EXPECT_FALSE(std::filesystem::exists(folder_ / "image"));
  const auto first = files(), second = files();
  ASSERT_EQ(first.size(), 2u);
  ASSERT_EQ(second.size(), 2u);
  ASSERT_EQ(pwrite(first[0].get(), "y", 1, 100), 1);
  char seen = 0;
  ASSERT_EQ(pread(second[0].get(), &seen, 1, 100), 1);
  EXPECT_EQ(seen, 'y');
  ASSERT_EQ(pread(second[1].get(), &seen, 1, 100), 1);
  EXPECT_EQ(seen, 'x') << "what it was";
  struct flock lock {};
  lock.l_type = F_WRLCK;
  lock.l_len = 1;
  ASSERT_EQ(fcntl(first[0].get(), F_OFD_SETLK, &lock), 0);
  EXPECT_NE(fcntl(second[0].get(), F_OFD_SETLK, &lock), 0) << "a lock is its holder's own";
}

TEST_F(EmulatedNode, TakesNoMemoryForWhatItDoesNotHave) {
  constexpr size_t kSize = 1 << 20;
  std::string image(kSize, '\0');
  image[kSize / 2] = 'x';
  server_.reset();  // it takes its path along
  std::ofstream(folder_ / "image") << image;
  auto opened = EmulatedNodeServer::open(loop_, log_, folder_ / "image", folder_ / "node");
  ASSERT_TRUE(opened.ok()) << opened.error().message;
  server_ = std::move(*opened);
  const auto given = files();
  ASSERT_EQ(given.size(), 2u);
  for (const OwnedFd& fd : given) {
    struct stat facts {};
    ASSERT_EQ(fstat(fd.get(), &facts), 0);
    EXPECT_EQ(facts.st_size, static_cast<off_t>(kSize));
    EXPECT_LE(facts.st_blocks * 512, 8192);
    std::string content(kSize, 'y');
    ASSERT_EQ(pread(fd.get(), content.data(), kSize, 0), static_cast<ssize_t>(kSize));
    EXPECT_EQ(content, image);
  }
}

TEST_F(EmulatedNode, NoProcessChangesItsSizeOrWhatItWas) {
  const auto given = files();
  ASSERT_EQ(given.size(), 2u);
  const std::string self = "/proc/self/fd/" + std::to_string(given[1].get());
  const OwnedFd again(open(self.c_str(), O_RDWR | O_CLOEXEC));
  for (const int fd : {given[0].get(), given[1].get(), again.get()}) {
    EXPECT_NE(ftruncate(fd, 0), 0);
    EXPECT_NE(ftruncate(fd, 1 << 20), 0);
    EXPECT_NE(pwrite(fd, "y", 1, 8192), 1);
    EXPECT_NE(fallocate(fd, 0, 8192, 4096), 0);
    struct stat facts {};
    ASSERT_EQ(fstat(fd, &facts), 0);
    EXPECT_EQ(facts.st_size, 8192);
  }
  for (const int fd : {given[1].get(), again.get()}) {
    EXPECT_NE(pwrite(fd, "y", 1, 0), 1);
    EXPECT_EQ(mmap(nullptr, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0), MAP_FAILED);
  }
}

TEST_F(EmulatedNode, ManyWhoConnectAndSayNothingHoldUpNoOther) {
  std::vector<OwnedFd> idle;
  for (int i = 0; i < 200; ++i) idle.push_back(call());
  EXPECT_EQ(files().size(), 2u);
}

TEST_F(EmulatedNode, AnotherProgramGoesOnWithItAndWithThoseWhoWait) {
  const auto before = files();
  ASSERT_EQ(before.size(), 2u);
  ASSERT_EQ(pwrite(before[0].get(), "y", 1, 100), 1);
  auto kept = server_->hand_over();
  server_.reset();
  const OwnedFd waits = call();
  server_ = std::make_unique<EmulatedNodeServer>(loop_, log_, std::move(kept), folder_ / "node");
  const auto after = files();
  ASSERT_EQ(after.size(), 2u);
  char seen = 0;
  ASSERT_EQ(pread(after[0].get(), &seen, 1, 100), 1);
  EXPECT_EQ(seen, 'y');
  char word = 0;
  const auto packet = receive_packet(waits.get(), {&word, 1});
  ASSERT_TRUE(packet.ok());
  ASSERT_TRUE(packet->has_value());
  EXPECT_EQ((*packet)->fds.size(), 2u);
  server_.reset();
  EXPECT_FALSE(std::filesystem::exists(folder_ / "node"));
}

}  // namespace
}  // namespace lambent::worker
