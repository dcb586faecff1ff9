// Completions: what is to be done once the device has come so far, without waiting for it: looked
// for while there is time, then told by the driver. A resource of a process's thread, but for the
// driver's callback, which only wakes that thread.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "core/base/mutex.h"
#include "gpu/cuda/driver.h"
#include "gpu/cuda/stream.h"

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
  ~Completions() { release(); }
  Completions(const Completions&) = delete;
  Completions& operator=(const Completions&) = delete;

  // `then` is called by poll() when what is queued on the stream is over, or failed.
  void when_done(CUstream stream, Then then);
  // The same for all of these streams.
  void when_all_done(const std::vector<CUstream>& streams, Then then);
  // The same for `stream` and others that have something to do with it, after all that was asked so
  // of `stream` before: however much that is, it takes one stream of the driver's.
  void when_all_done_in_order(CUstream stream, const std::vector<CUstream>& others, Then then);
  // For an event that may be recorded again or destroyed meanwhile.
  void when_done(CUevent event, Then then);

  // How many are still to come.
  size_t size() const { return size_; }
  // How many streams of the driver's it has, used or not.
  size_t notifiers() const;
  // Whether there is nothing to come, not even a word of the driver's.
  bool is_empty() const { return size_ == 0 && told_ == 0; }
  // Calls what is due; true if there was any.
  bool poll();
  // Lets the driver tell of the rest: before the thread goes to sleep.
  void hand_over();
  // Whether poll() would find something that the driver told.
  bool has_mail() const;
  // Forgets all that is to come, and gives back what it has of the driver's.
  void release();

 private:
  struct Pending {
    CUevent event = nullptr;
    Then then;
  };
  // What was asked of one stream, in its order: none is over before the one in front of it. So the
  // driver is asked only about that, and has to tell only of it, however many there are.
  struct Queue {
    std::deque<Pending> pending;
    bool is_notifier = false;  // the stream is one of ours, free again when this is empty
    bool is_told = false;      // the driver is going to tell of the first
  };
  struct Mail {
    CUstream stream = nullptr;    // whose queue it is about
    CUstream notifier = nullptr;  // where the driver called back
  };
  struct Inbox {
    Mutex mutex;
    std::vector<Mail> mails GUARDED_BY(mutex);
    std::function<void()> wake;
  };
  struct Told {
    std::shared_ptr<Inbox> inbox;
    Mail mail;
  };
  static void told(CUstream, CUresult result, void* user_data);

  CUresult take_event(CUevent* event);
  CUresult take_notifier(CUstream* stream);
  // Lets `notifier` wait for what is queued on these.
  CUresult wait_for(CUstream notifier, const std::vector<CUstream>& streams);
  void add(CUstream stream, bool is_notifier, Then then);
  bool take_mails();
  void finish_first(Queue& queue, CUresult result);
  CUresult ask_to_be_told(CUstream stream, Queue& queue);

  const cuda::Driver& driver_;
  std::shared_ptr<Inbox> inbox_;
  std::map<CUstream, Queue> queues_;  // none is empty, but for what the driver still tells
  size_t size_ = 0, told_ = 0;        // pending ones, and queues of which the driver tells
  std::vector<CUevent> free_events_;
  std::vector<CUstream> free_notifiers_;
  std::map<CUstream, CUstream> ordered_;  // notifiers that are used, by the stream in whose order
};

}  // namespace lambent::forward_server
