// Undestroyed: a static object that is made before the program begins and never ends, for hooks may
// run on other threads until the very end of the process.
#pragma once

#include <new>

namespace lambent::shim {

template <typename Type>
union Undestroyed {
  constexpr Undestroyed() : value() {}
  ~Undestroyed() {}
  Undestroyed(const Undestroyed&) = delete;
  Undestroyed& operator=(const Undestroyed&) = delete;

  Type* operator->() { return &value; }
  // In a forked child: the thread that changed it may be gone. What it had is not given back.
  void start_afresh() { new (&value) Type(); }

  Type value;
};

}  // namespace lambent::shim
