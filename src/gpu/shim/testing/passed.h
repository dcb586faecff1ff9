// What a call of a gated function passed: the name and all arguments, byte by byte. Shared by the
// mirror driver, which writes it down, and the probe, which knows what it should be.
#pragma once

#include <string.h>

#include <cstddef>

namespace lambent::shim {

struct Passed {
  const char* name = nullptr;
  size_t size = 0;
  unsigned char bytes[256] = {};
};

template <typename... Argument>
Passed passed(const char* name, const Argument&... arguments) {
  Passed call;
  call.name = name;
  const auto add = [&call](const void* argument, size_t size) {
    memcpy(call.bytes + call.size, argument, size);
    call.size += size;
  };
  (add(&arguments, sizeof arguments), ...);
  return call;
}

}  // namespace lambent::shim
