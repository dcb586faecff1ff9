// Where the blocks of managed memory lie: a pure model of migration, duplication and eviction,
// without memory, clock or lock. Used by Managed, which makes time of what it answers.
//
// A block is populated where it is first touched. A device that touches one that lies elsewhere
// moves it over, or duplicates it if it is mostly read, or uses it from afar if it was advised so
// or has no room. A full device releases what was used longest ago.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <vector>

namespace lambent::emulated_cuda {

constexpr size_t kManagedResidencyBlockBytes = size_t{2} << 20;
constexpr int kHostPlace = -1;  // other places are devices, as the program numbers them
constexpr int kNoPlace = -2;
constexpr int kMostPlaces = 32;  // devices

// What has to be carried because of one request, summed up by way.
struct Movement {
  int from, to;
  uint64_t bytes;
};
struct Traffic {
  uint64_t faults = 0;
  std::vector<Movement> movements;
  uint64_t remote_bytes = 0;  // used from afar
};

// What the program has said about a range; of several blocks, what is true of all.
struct Advice {
  bool read_mostly = false;
  int preferred = kNoPlace;
  uint32_t accessed_by = 0;  // a bit for each device; the host is kHostBit
  int prefetched = kNoPlace;
};
constexpr uint32_t kHostBit = uint32_t{1} << (kMostPlaces - 1);

class ManagedResidency {
 public:
  // Room on the devices: `take` counts bytes and is false if there are no more.
  struct Capacity {
    std::function<bool(int device, uint64_t bytes)> take;
    std::function<void(int device, uint64_t bytes)> give;
  };
  explicit ManagedResidency(Capacity capacity) : capacity_(std::move(capacity)) {}

  void add(uintptr_t base, size_t bytes);
  void remove(uintptr_t base);  // gives back what it takes
  // Whether all of a range was added, as one.
  bool covers(uintptr_t address, size_t bytes) const;

  Traffic touch(uintptr_t address, size_t bytes, int place, bool write);
  Traffic prefetch(uintptr_t address, size_t bytes, int place);
  void discard(uintptr_t address, size_t bytes);
  // Lets the device go of the block that it used longest ago; false if it holds none.
  bool release(int device, Traffic& traffic);
  // Where the block lies; kNoPlace before its first touch.
  int place_of(uintptr_t address) const;

  // Changes the advice of every block of a range.
  void advise(uintptr_t address, size_t bytes, const std::function<void(Advice&)>& change);
  Advice advice(uintptr_t address, size_t bytes) const;

 private:
  struct Block {
    uint32_t bytes = 0;
    int place = kNoPlace;
    uint32_t duplicates = 0;  // beside `place`
    bool discarded = true;    // nothing in it that would have to be carried
    uint64_t used = 0;        // by which devices know it in their order of use
    Advice advice;
  };
  using Blocks = std::vector<Block>;

  template <class Visit>
  void each(uintptr_t address, size_t bytes, Visit visit);
  template <class Visit>
  void each(uintptr_t address, size_t bytes, Visit visit) const;
  bool resident(const Block& block, int place) const;
  bool make_room(int device, const Block& wanted, Traffic& traffic);
  void move_out(Block& block, int device, Traffic& traffic);
  void leave(Block& block, int place);
  void settle(Block& block, int place);
  void stamp(Block& block);
  void carry(Block& block, int to, Traffic& traffic);
  void migrate(Block& block, int to, Traffic& traffic);

  Capacity capacity_;
  std::map<uintptr_t, Blocks> ranges_;
  std::map<uint64_t, Block*> by_use_[kMostPlaces];  // of each device, longest ago first
  uint64_t clock_ = 0;
};

}  // namespace lambent::emulated_cuda
