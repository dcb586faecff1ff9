// ShareTable: which groups of multiprocessors each function's kernels use, when it may use only a
// share of the device. Pure; of the executor's loop thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

namespace lambent::executor {

class ShareTable {
 public:
  // Of so many multiprocessors, `groups` groups of `group_size`; the rest are in none.
  ShareTable(unsigned multiprocessors, unsigned group_size, size_t groups)
      : multiprocessors_(multiprocessors), group_size_(group_size), users_(groups, 0) {}

  struct Part {
    std::vector<uint32_t> groups;  // none: the whole device
    unsigned multiprocessors = 0;
    bool operator==(const Part&) const = default;
  };
  // In place of what `user` had: `share` per cent in whole groups, rounded down, but at least one;
  // those that the fewest others have. All if the device is one group.
  Part give(uint64_t user, uint32_t share);
  void take_back(uint64_t user);

 private:
  const unsigned multiprocessors_, group_size_;
  std::vector<unsigned> users_;  // of each group
  std::map<uint64_t, std::vector<uint32_t>> given_;
};

}  // namespace lambent::executor
