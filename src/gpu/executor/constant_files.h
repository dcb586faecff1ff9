// ConstantFiles: the files that constants come from, each content once, whichever functions bring
// it: a model that is there for two batch sizes has one copy of its weights. Of the one thread that
// loads instances.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/base/fd.h"
#include "core/base/result.h"
#include "gpu/executor/device_store.h"

namespace lambent::executor {

// Files of the same identity and time of change have the same content: packages are not changed.
Result<DeviceName> name_of_file(int fd);

class ConstantFiles {
 public:
  struct File {
    DeviceName name;  // of its content on the device
    std::shared_ptr<OwnedFd> file;
  };
  // The file that is known with this content, or this one from now on, for as long as a function
  // has it. Reads both to the end if they look the same.
  Result<File> take(int fd);

 private:
  using Look = std::pair<uint64_t, uint64_t>;  // its size, and a hash of some of its bytes
  static Result<Look> look_of(int fd);
  void forget_unused();

  // By the name that the first file with it gave a content.
  std::unordered_map<DeviceName, std::weak_ptr<OwnedFd>, DeviceNameHash> known_;
  // Other files with a content that is known.
  std::unordered_map<DeviceName, DeviceName, DeviceNameHash> same_as_;
  std::map<Look, std::vector<DeviceName>> by_look_;
};

}  // namespace lambent::executor
