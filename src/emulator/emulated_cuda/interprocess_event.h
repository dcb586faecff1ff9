// The state of an event that several processes share: how often it was recorded, and which of its
// records have been reached. It lies in a file of one page that every process maps. Any thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

namespace lambent::emulated_cuda {

// What an interprocess handle of an event holds. It is found through /proc, as memory is.
struct EventTicket {
  uint64_t magic;       // changed by the node, so that another node's handle is none
  uint64_t generation;  // of the process that made it
  uint64_t file;        // the inode behind the descriptor
  int32_t pid, descriptor;
  int32_t device;
  uint32_t reserved[7];
};
static_assert(sizeof(EventTicket) == 64);

class InterprocessEvent {
 public:
  // The process that records, as the node has it.
  struct Recorder {
    uint32_t row;
    uint64_t generation;
  };

  // A new one; null: the system has no descriptor or memory left.
  static std::unique_ptr<InterprocessEvent> create();
  // Another process's; null if that has gone, or cannot be seen here.
  static std::unique_ptr<InterprocessEvent> open(const EventTicket& ticket);
  ~InterprocessEvent();
  InterprocessEvent(const InterprocessEvent&) = delete;
  InterprocessEvent& operator=(const InterprocessEvent&) = delete;

  // Fills in where the page is; false where this process did not make it.
  bool tell(EventTicket* ticket) const;

  // Numbers the next record, and says when it has been reached.
  uint64_t begin(Recorder recorder);
  void finish(uint64_t number, int64_t at_ns);
  uint64_t latest() const;  // 0: never recorded
  // Exact while fewer than kSlots records are under way at once: else the wait for one may last
  // until a later one.
  bool reached(uint64_t number) const;
  int64_t reached_ns(uint64_t number) const;
  // False while that is not known, or no more: kSlots later records hide it.
  bool recorder_of(uint64_t number, Recorder* recorder) const;

  static constexpr uint64_t kSlots = 100;

 private:
  struct Slot {
    std::atomic<uint64_t> finished;
    std::atomic<int64_t> at_ns;
    std::atomic<uint64_t> begun;
    std::atomic<uint64_t> generation;
    std::atomic<uint64_t> row;
  };
  struct Page {
    std::atomic<uint64_t> latest;
    Slot slots[kSlots];
  };
  static_assert(sizeof(Page) <= 4096);
  static_assert(std::atomic<uint64_t>::is_always_lock_free);

  InterprocessEvent() = default;
  bool map(int descriptor);
  Slot& slot(uint64_t number) const { return page_->slots[number % kSlots]; }

  int descriptor_ = -1;  // of the process that made it
  Page* page_ = nullptr;
};

}  // namespace lambent::emulated_cuda
