// fetch_lines(): asks the processor for what will be read soon, so that its lines of the cache are
// on their way meanwhile. It changes nothing and waits for nothing; any address will do.
#pragma once

#include <cstddef>

namespace lambent {

constexpr size_t kCacheLine = 64;

// So many bytes of it, from its beginning.
template <typename Value>
inline void fetch_lines(const Value& value, size_t bytes = sizeof(Value)) {
  const auto* begin = reinterpret_cast<const char*>(&value);
  for (size_t at = 0; at < bytes; at += kCacheLine) __builtin_prefetch(begin + at, 1);
  // It may begin in the middle of a line.
  if (bytes > kCacheLine) __builtin_prefetch(begin + bytes - 1, 1);
}

}  // namespace lambent
