// Completions: what is to be done once the device has come so far, without waiting for it: looked
// for while there is time, then told by the driver. A resource of a process's thread, but for the
// driver's callback, which only wakes that thread.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "cuda/driver.h"
#include "cuda/stream.h"

namespace lambent::forward_server {

class Completions {
 public:
  using Then = std::function<void(CUresult)>;

  // `wake` is called on a thread of the driver's when something came; it must not call the driver
  // and may be called after this has gone.
  Completions(const cuda::Driver& driver, std::function<void()> wake)
      : driver_(driver), inbox_(std::make_shared<Inbox>()) {
    inbox_->wake = std::move(wake);
  }
  ~Completions();
  Completions(const Completions&) = delete;
  Completions& operator=(const Completions&) = delete;

  // `then` is called by poll() when what is queued on the stream is over, or failed.
  void when_done(CUstream stream, Then then);
  // The same for all of these streams.
  void when_all_done(const std::vector<CUstream>& streams, Then then);
  // For an event that may be recorded anew or destroyed meanwhile.
  void when_done(CUevent event, Then then);

  // Whether any is still to come.
  bool is_empty() const { return pending_.empty() && handed_ == 0; }
  // Calls what is due; true if there was any.
  bool poll();
  // Lets the driver tell of the rest: before the thread goes to sleep.
  void hand_over();
  // Whether poll() would find something that the driver told.
  bool has_mail() const;

 private:
  struct Pending {
    CUevent event = nullptr;
    CUstream notifier = nullptr;  // one that is used for it alone; null: none yet
    Then then;
  };
  struct Mail {
    Pending pending;
    CUresult result = CUDA_SUCCESS;
  };
  struct Inbox {
    std::mutex mutex;  // guards mails
    std::vector<Mail> mails;
    std::function<void()> wake;
  };
  struct Told {
    std::shared_ptr<Inbox> inbox;
    Pending pending;
  };
  static void told(CUstream, CUresult result, void* user_data);

  CUresult take_event(CUevent* event);
  CUresult take_notifier(CUstream* stream);
  void add(CUstream stream, CUstream notifier, Then then);
  void finish(Pending pending, CUresult result);

  const cuda::Driver& driver_;
  std::shared_ptr<Inbox> inbox_;
  std::vector<Pending> pending_;
  size_t handed_ = 0;
  std::vector<CUevent> free_events_;
  std::vector<CUstream> free_notifiers_;
};

}  // namespace lambent::forward_server
