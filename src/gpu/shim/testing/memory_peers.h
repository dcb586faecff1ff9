// The two sides that the shim's agent talks to, played by a test: the worker, and lambent-device.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "core/base/fd.h"
#include "core/protocol/memory_message.h"

namespace lambent::shim {

// A socket of the protocol's kind that listens at a path.
class MemoryListener {
 public:
  explicit MemoryListener(const std::string& path);
  // The next connection; waits for it.
  OwnedFd accept();
  int get() const { return fd_.get(); }
  // Connections until no more are taken in.
  std::vector<OwnedFd> fill() const;

 private:
  std::string path_;
  OwnedFd fd_;
};

// The next message of a connection, or nothing once that has ended.
std::optional<protocol::MemoryMessage> next_message(int fd);

// Waits until it is so, for half a minute at most: what a process gives back to lambent-device it
// tells, and waits for no answer. False if it is not so even then.
template <typename Condition>
[[nodiscard]] bool comes_true(Condition condition) {
  const auto give_up = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (!condition()) {
    if (std::chrono::steady_clock::now() > give_up) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

// One process's connection, seen from the worker. Used on the test's thread; what the process says
// is read on another, which grants what it asks for unless it was told otherwise.
class WorkerSide {
 public:
  // Waits for the process and for its hello.
  explicit WorkerSide(MemoryListener& listener);
  ~WorkerSide();
  WorkerSide(const WorkerSide&) = delete;
  WorkerSide& operator=(const WorkerSide&) = delete;
  const protocol::MemoryMessage& hello() const { return hello_; }

  void command(protocol::MemoryMessageKind kind,
               protocol::MemoryMoveDepth depth = protocol::MemoryMoveDepth::kMemory);
  // The answer to the last command; its status is kFailed if the connection ended instead.
  protocol::MemoryMessage answer();
  protocol::MemoryMessage move_out();
  protocol::MemoryMessage move_out_with_context();
  protocol::MemoryMessage move_in();
  void hang_up();

  enum class Grants { kAll, kNothing, kLater };
  void set_grants(Grants grants) { grants_ = grants; }
  // With kLater: waits until the process asks, and says for how much; then the answer.
  uint64_t wait_for_want();
  void grant(uint64_t bytes);
  // All that it has asked for so far.
  uint64_t wanted_bytes() const { return wanted_bytes_; }
  int wants() const { return wants_; }

 private:
  void read_all();
  std::optional<protocol::MemoryMessage> next();

  OwnedFd fd_;
  protocol::MemoryMessage hello_;
  uint64_t sequence_ = 0;
  std::atomic<Grants> grants_ = Grants::kAll;
  std::atomic<uint64_t> wanted_bytes_ = 0;
  std::atomic<int> wants_ = 0;
  std::mutex mutex_;  // guards all below
  std::condition_variable changed_;
  std::deque<protocol::MemoryMessage> said_;
  std::deque<uint64_t> open_wants_;
  bool is_over_ = false;
  std::thread reader_;
};

// lambent-device, on a thread of its own until it is destroyed: one turn at a time, in order.
class DeviceSide {
 public:
  struct Options {
    bool gives_leases = true;
    bool grants_offloaded_pieces = true;
    bool grants_turns = true;  // else it never answers
    uint64_t largest_lease = UINT64_MAX;
    uint64_t budget = UINT64_MAX;  // of leases and what is offloaded together
  };
  DeviceSide(const std::string& path, Options options);
  ~DeviceSide();

  uint64_t leased_bytes() const { return leased_bytes_; }
  uint64_t offloaded_bytes() const { return offloaded_bytes_; }
  // What the last process that came said that it has of a daemon before.
  uint64_t claimed_bytes() const { return claimed_bytes_; }
  // The same, once it is what is expected, or never comes to be.
  uint64_t offloaded_bytes_once(uint64_t expected) const {
    (void)comes_true([&] { return offloaded_bytes_ == expected; });
    return offloaded_bytes_;
  }
  int leases() const { return leases_; }
  int wishes() const { return wished_; }  // for turns
  // Wishes stay unanswered until it is false again.
  void hold_turns(bool holds) { holds_turns_ = holds; }
  int connections() const { return connected_; }
  int turns() const { return turns_; }
  // Turns that were granted and not given back.
  int turns_out() const { return turns_out_; }
  // For copies of this device, by the program's numbers, in both directions.
  uint64_t bytes_on_link(unsigned device) const { return bytes_on_link_[device]; }
  uint64_t bytes_to_host() const { return bytes_[1]; }
  uint64_t bytes_to_device() const { return bytes_[0]; }

 private:
  void serve();
  void take(int fd, const protocol::MemoryMessage& message);
  void give_lease(int fd, uint64_t bytes);
  void grant_next();

  Options options_;
  MemoryListener listener_;
  OwnedFd stop_read_;
  OwnedFd stop_write_;
  std::vector<OwnedFd> connections_;
  struct Wish {
    int fd;
    protocol::MemoryMessage message;
  };
  std::deque<Wish> wishes_;
  std::atomic<uint64_t> leased_bytes_ = 0;
  std::atomic<uint64_t> offloaded_bytes_ = 0;
  std::atomic<uint64_t> claimed_bytes_ = 0;
  std::atomic<uint64_t> bytes_[2] = {};
  std::atomic<uint64_t> bytes_on_link_[protocol::kMostDevicesOfSandbox] = {};
  std::atomic<int> leases_ = 0;
  std::atomic<int> wished_ = 0;
  std::atomic<bool> holds_turns_ = false;
  std::atomic<int> connected_ = 0;
  std::atomic<int> turns_ = 0;
  std::atomic<int> turns_out_ = 0;
  std::thread thread_;
};

}  // namespace lambent::shim
