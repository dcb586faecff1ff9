// Modules: the modules that one process has loaded, with their variables, and the calls that find
// functions in them. Their memory counts against the client's limit. A resource of the process's
// thread.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <unordered_map>

#include "core/base/units.h"
#include "gpu/cuda/driver.h"
#include "gpu/forward_ring/calls.h"
#include "gpu/forward_ring/layout.h"
#include "gpu/forward_server/address_ranges.h"
#include "gpu/forward_server/answers.h"
#include "gpu/forward_server/client_memory.h"
#include "gpu/forward_server/functions.h"
#include "gpu/forward_server/handles.h"
#include "gpu/forward_server/image_upload.h"
#include "gpu/forward_server/streams.h"

namespace lambent::forward_server {

class Modules {
 public:
  using Call = forward_ring::Call;

  // All outlive it. Its variables are added to `ranges`, its functions to `functions`.
  Modules(const cuda::Driver& driver, ClientMemory& memory, forward_ring::SharedPages& pages,
          AddressRanges& ranges, ImageUpload& upload, const Streams& streams, Functions& functions,
          Answers& answers)
      : driver_(driver),
        memory_(memory),
        pages_(pages),
        ranges_(ranges),
        upload_(upload),
        streams_(streams),
        functions_(functions),
        answers_(answers) {}
  Modules(const Modules&) = delete;
  Modules& operator=(const Modules&) = delete;

  // False if the call is not one about modules, or if it unloads one: graphs that use it go first.
  bool handle(const Call& call, std::span<const char> data);

  // 0 if there is no such module: no context has that number.
  uint64_t context_of(uint64_t number);
  // Nothing of it runs, and no graph has it any more.
  void unload(uint64_t number);
  void unload_all_of(uint64_t context);

 private:
  struct Module {
    CUmodule module = nullptr;
    uint64_t context = 0;
    Bytes counted;  // device memory
    std::unordered_map<CUfunction, uint64_t> functions;
    std::unordered_map<std::string, CUdeviceptr> globals;
  };
  void load(const Call& call);
  CUresult load_counted(std::string& image, std::string* log, Module* module);
  size_t free_memory() const;
  void find_function(const Call& call, std::span<const char> data);
  void find_global(const Call& call, std::span<const char> data);
  void list_functions(const Call& call);
  CUresult enter_function(uint64_t number, CUfunction function, uint64_t* entered);

  const cuda::Driver& driver_;
  ClientMemory& memory_;
  forward_ring::SharedPages& pages_;
  AddressRanges& ranges_;
  ImageUpload& upload_;
  const Streams& streams_;
  Functions& functions_;
  Answers& answers_;
  HandleTable<Module> table_{&memory_.quotas.modules};
};

}  // namespace lambent::forward_server
