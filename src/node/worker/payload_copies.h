// PayloadCopies: what kernel functions are called with and what they answer, on its way between the
// worker's memory and memory that executors share. Long ones are copied by another thread, so that
// other requests do not wait meanwhile. Values of ExecutorHost, on the loop thread.
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "core/base/fd.h"
#include "core/base/result.h"
#include "core/base/units.h"
#include "core/protocol/executor_message.h"

namespace lambent::worker {

// A request's payload, taken out of the request, and the memory that its executor reads. The thread
// that copies has it too until then, and what both have is not changed.
class RequestCopy {
 public:
  explicit RequestCopy(std::string bytes) : bytes_(std::move(bytes)) {}

  Bytes size() const { return Bytes(bytes_.size()); }
  bool is_made() const { return is_made_; }

  // On any thread.
  void make();
  // On the loop thread, after make(): what it made.
  Result<OwnedFd> take_memory();
  // The bytes, for a request that is to be delivered again. Before take_memory() they are still
  // read, and copied here.
  std::string take_bytes() { return is_made_ ? std::move(bytes_) : bytes_; }

 private:
  std::string bytes_;
  Result<OwnedFd> memory_ = OwnedFd();
  bool is_made_ = false;  // of the loop thread
};

// An executor's answer, whose payload lies in its message or in memory that cannot change.
class AnswerCopy {
 public:
  explicit AnswerCopy(protocol::Finished message) : message_(std::move(message)) {}

  const protocol::Finished& message() const { return message_; }
  // Takes the payload's memory out of `fds`, whose rest is of the objects; the error of one that
  // failed, or that cannot be read.
  Result<void> take(std::vector<OwnedFd>& fds);
  // What has to be copied; nothing if the message has it.
  Bytes size() const { return size_; }
  // The payload, once take() went well. On any thread; only reads where there is memory.
  Result<std::string> read();

 private:
  protocol::Finished message_;
  OwnedFd memory_;
  Bytes size_;
};

class PayloadCopies {
 public:
  // Does work on another thread and then its completion on the loop; false if it cannot take more.
  using Run = std::function<bool(std::function<void()> work, std::function<void()> completion)>;

  // To copy more takes longer than the loop may.
  static constexpr Bytes kAtOnce = Bytes::kib(256);

  // Without `run` all are made at once.
  explicit PayloadCopies(Run run) : run_(std::move(run)) {}

  // Does `work`, which copies so much, and then `completion`: before it returns if that is short,
  // or if too many wait.
  void start(Bytes size, std::function<void()> work, std::function<void()> completion) const;

 private:
  const Run run_;
};

}  // namespace lambent::worker
