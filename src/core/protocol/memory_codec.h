// Memory messages as bytes and back, for those who have the C++ library: the worker and
// lambent-device. Pure; the shim uses only the plain struct.
#pragma once

#include <cstring>
#include <optional>
#include <span>
#include <string_view>

#include "core/protocol/memory_message.h"

namespace lambent::protocol {

// A view of the message itself, which must outlive it.
inline std::string_view bytes_of(const MemoryMessage& message) {
  return {reinterpret_cast<const char*>(&message), sizeof(message)};
}

// None if these bytes, which may come from anyone, are no whole message of this version.
inline std::optional<MemoryMessage> memory_message_from(std::span<const char> bytes) {
  if (!is_memory_message(bytes.data(), bytes.size())) return std::nullopt;
  MemoryMessage message;
  memcpy(&message, bytes.data(), sizeof(message));
  return message;
}

}  // namespace lambent::protocol
