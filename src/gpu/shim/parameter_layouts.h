// ParameterLayouts: which parameters of a kernel are wide enough for an address, remembered while
// the code that it stands in is loaded. Not synchronised.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "gpu/shim/handle_table.h"
#include "gpu/shim/passed_types.h"

namespace lambent::shim {

struct WideParameter {
  uint32_t index = 0;
  uint32_t bytes = 0;
};

struct ParameterLayout {
  Handle function = nullptr;  // null: nothing is remembered here
  bool is_known = false;      // false: the driver does not say
  uint32_t count = 0;
  WideParameter* wide = nullptr;
};

// As the driver tells it (CUDA 12.4 and newer). Who gets it frees `wide`, or has it remembered.
ParameterLayout ask_for_layout(Handle function, bool is_kernel);

class ParameterLayouts {
 public:
  ParameterLayouts() = default;
  ParameterLayouts(const ParameterLayouts&) = delete;
  ParameterLayouts& operator=(const ParameterLayouts&) = delete;

  // Null if it was not remembered. Until the next call of this object.
  const ParameterLayout* find(Handle function) const;
  // Takes `layout.wide`; null if there is no memory for it.
  const ParameterLayout* remember(const ParameterLayout& layout);

  // A CUkernel, which the driver has other questions for than for a CUfunction.
  void add_kernel(Handle kernel, Handle library);
  bool is_kernel(Handle handle);

  // Code is unloaded: the handles in it may come to mean something else. Null: of a module.
  void forget(Handle library);

 private:
  static constexpr size_t kFirstCapacity = 256;

  ParameterLayout* place_of(Handle function) const;
  bool grow();

  ParameterLayout* table_ = nullptr;  // open addressing; at most half full
  size_t capacity_ = 0;
  size_t size_ = 0;
  HandleTable kernels_;
};

}  // namespace lambent::shim
