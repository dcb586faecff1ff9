// The virtual clock of paper-streambox: what happens when, in order. One thread.
#pragma once

#include <functional>
#include <queue>
#include <vector>

namespace lambent::paper_streambox {

class Events {
 public:
  double now() const { return now_; }
  void at(double moment_s, std::function<void()> action) {
    queue_.push({moment_s < now_ ? now_ : moment_s, ++count_, std::move(action)});
  }
  void after(double delay_s, std::function<void()> action) {
    at(now_ + delay_s, std::move(action));
  }
  bool empty() const { return queue_.empty(); }
  double next() const { return queue_.top().moment_s; }
  void run_next() {
    // The top is const for its order alone, which does not look at the action.
    Event event = std::move(const_cast<Event&>(queue_.top()));
    queue_.pop();
    now_ = event.moment_s;
    event.action();
  }

 private:
  struct Event {
    double moment_s;
    unsigned long count;
    std::function<void()> action;
    bool operator<(const Event& other) const {
      return moment_s != other.moment_s ? moment_s > other.moment_s : count > other.count;
    }
  };
  std::priority_queue<Event> queue_;
  unsigned long count_ = 0;
  double now_ = 0;
};

}  // namespace lambent::paper_streambox
