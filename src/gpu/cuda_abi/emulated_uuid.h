// By which an emulated device is told from a GPU: how its UUID begins, as no GPU's does. Its name
// is the configuration's, often that of a real GPU. Any thread.
#pragma once

#include <cstring>

namespace lambent::cuda_abi {

inline constexpr unsigned char kEmulatedUuidBegin[] = {'E', 'm', 'u', 'l', 'a', 't', 0x40, 'd'};

// Of the 16 bytes of a device's UUID.
inline bool is_emulated_uuid(const void* uuid) {
  return std::memcmp(uuid, kEmulatedUuidBegin, sizeof kEmulatedUuidBegin) == 0;
}

}  // namespace lambent::cuda_abi
