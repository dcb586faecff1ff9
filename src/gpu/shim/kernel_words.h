// The words among the parameters of a kernel that may be addresses of memory: whole words, also
// inside structures, at the places that the driver tells of and that are remembered while the code
// is loaded. Any thread.
#pragma once

#include <pthread.h>

#include "gpu/shim/parameter_layouts.h"
#include "gpu/shim/passed_types.h"

namespace lambent::shim {

// Calls `act` with every whole word of that many bytes.
template <typename Act>
void for_each_word(const void* from, size_t bytes, Act act) {
  const char* at = static_cast<const char*>(from);
  for (size_t offset = 0; offset + sizeof(Address) <= bytes; offset += sizeof(Address)) {
    Address word = 0;
    __builtin_memcpy(&word, at + offset, sizeof(word));
    act(word);
  }
}

// The places of a kernel's wide parameters, asked of the driver at the first use. They cannot be
// forgotten while this lives, for it holds the lock; nothing that it is used for calls the driver.
class KnownLayout {
 public:
  // `is_kernel`: it is known to be a CUkernel. A handle that the program got for one is so anyway.
  explicit KnownLayout(Handle function, bool is_kernel = false);
  ~KnownLayout();
  KnownLayout(const KnownLayout&) = delete;
  KnownLayout& operator=(const KnownLayout&) = delete;

  // Null: the driver does not say.
  const ParameterLayout* get() const { return layout_; }

 private:
  const ParameterLayout* layout_ = nullptr;
};

// CU_LAUNCH_PARAM_*
inline void* const kLaunchEnd = nullptr;
inline void* const kLaunchBuffer = reinterpret_cast<void*>(1);
inline void* const kLaunchBufferSize = reinterpret_cast<void*>(2);

// The form in which the parameters lie in one buffer. False: there is more than is known of.
template <typename Act>
bool for_each_word_in_buffer(void** extra, Act act) {
  const void* buffer = nullptr;
  const size_t* bytes = nullptr;
  for (; extra[0] == kLaunchBuffer || extra[0] == kLaunchBufferSize; extra += 2) {
    if (extra[0] == kLaunchBuffer) buffer = extra[1];
    if (extra[0] == kLaunchBufferSize) bytes = static_cast<const size_t*>(extra[1]);
  }
  if (buffer != nullptr && bytes != nullptr) for_each_word(buffer, *bytes, act);
  return extra[0] == kLaunchEnd;
}

// A launch's parameters in either form. False: not all of the words are known.
template <typename Act>
bool for_each_parameter_word(Handle function, bool is_kernel, void** parameters, void** extra,
                             Act act) {
  if (parameters == nullptr) return extra == nullptr || for_each_word_in_buffer(extra, act);
  const KnownLayout known(function, is_kernel);
  const ParameterLayout* layout = known.get();
  if (layout == nullptr) return false;
  for (uint32_t i = 0; i < layout->count; ++i) {
    const WideParameter& wide = layout->wide[i];
    for_each_word(parameters[wide.index], wide.bytes, act);
  }
  return true;
}

// Code goes with its context: what is known of its kernels is forgotten, before the driver can give
// their handles to others.
void forget_code();

}  // namespace lambent::shim
