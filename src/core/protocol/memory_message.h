// What the shim inside a function says to the worker (moves of its device memory) and to
// lambent-device (its turn on the link, leases of host memory): one plain message of fixed size for
// both sockets. Values; shared with the shim, so nothing of the C++ library is needed to use them.
#pragma once

#include <stddef.h>
#include <stdint.h>

namespace lambent::protocol {

constexpr uint32_t kMemoryProtocolMagic = 0x4d454d4c;  // "LMEM"
constexpr uint16_t kMemoryProtocolVersion = 3;

enum class MemoryMessageKind : uint16_t {
  // Between the shim and the worker. A process says hello when it first uses the driver and is
  // answered with where its memory belongs now: kMoveIn or kMoveOut, which it answers as any other.
  // To lambent-device it also says what it has of earlier connections: bytes leased,
  // offloaded_bytes.
  kHello = 1,  // to the worker and to lambent-device; process, mode
  kMoveOut,    // from the worker; sequence, depth
  kMoveIn,     // from the worker; sequence
  // Ahead of a kMoveOut that is to be expected: lease and register the host memory for it.
  kPrepare,  // from the worker; sequence; has no answer
  kMoved,    // the answer to kMoveOut and kMoveIn: sequence, status, bytes, left_bytes,
             // offloaded_bytes, duration_ns. Memory of all devices has moved, or of none
  // A process has come to need memory that is offloaded, and asks for room on the device. It asks
  // again only after the answer.
  kWantMemory,   // to the worker; bytes
  kGrantMemory,  // from the worker; bytes: so much may come in; 0: none

  // Between the shim and lambent-device.
  kWantLink = 32,  // direction, device, bytes: the next quantum that it would like to copy
  kGrantLink,      // direction, device, bytes: its turn; kLinkDone follows when the copy has ended
  kLinkDone,       // direction, device, bytes
  kWantLease,      // bytes of host memory
  kLease,          // bytes, and a descriptor of a memfd of that size comes with the message
  kNoLease,        // the node's budget, or the sandbox's share of it, is used up
  kReturnLeases,   // all that it was given: it has released them
  // Host memory of the driver's own making, for what is offloaded; counted like leases.
  kWantOffloaded,     // bytes, more than before; answered by kOffloadedGranted or kNoLease
  kOffloadedGranted,  // bytes
  kReturnOffloaded,   // bytes of it are free again

  // From the worker to lambent-device; sequence is the sandbox's id.
  kServeSandbox =
      64,  // bytes: the most that it may lease, process: its device's index; a listening
           // socket, at which its processes will call, comes with the message
  kForgetSandbox,
  // Ahead of kServeSandbox, for each but the first of a sandbox on several devices, in the order of
  // its program's numbers; sequence, process: as there.
  kServeOnDeviceToo,
};

enum class MemoryMode : uint32_t {
  kOff = 0,  // plain device memory, counted and limited, never moved
  kVmm,      // mapped by the shim; moved by copies at the speed of the link
  kManaged,  // managed memory ("uvm"), moved by prefetches
};

enum class MemoryMoveStatus : uint32_t {
  kDone = 0,
  kNoHostMemory,    // not moved out: no lease to be had; the memory is where it was
  kNoDeviceMemory,  // not moved in: the device is full; the memory is where it was
  kBusy,            // not moved out: the program did not come to rest in time
  kFailed,          // the driver failed in the middle: the process is of no use any more
  kNotSupported,    // not moved that deep: the driver has no checkpoint, or none of this process
};

enum class LinkDirection : uint32_t { kToDevice = 0, kToHost = 1 };

constexpr uint32_t kMostDevicesOfSandbox = 64;

// How far out.
enum class MemoryMoveDepth : uint32_t {
  kMemory = 0,   // allocations
  kContext = 1,  // and then all that is left, context and code, by the driver's checkpoint
};

// Fields that a kind does not name are zero.
struct MemoryMessage {
  uint32_t magic = kMemoryProtocolMagic;
  uint16_t version = kMemoryProtocolVersion;
  MemoryMessageKind kind = MemoryMessageKind::kHello;
  uint64_t sequence = 0;  // of the command that is answered; counts up per sandbox
  uint64_t bytes = 0;     // moved, wanted or granted
  // Counted memory that stayed on the device after a kMoveOut; of several, the most that did.
  uint64_t left_bytes = 0;
  // Counted memory that is on the host, and reached from there while the rest is on the device;
  // after a kMoveOut what will stay there at the next kMoveIn.
  uint64_t offloaded_bytes = 0;
  uint64_t duration_ns = 0;
  uint32_t status = 0;     // MemoryMoveStatus
  uint32_t direction = 0;  // LinkDirection
  uint32_t depth = 0;      // MemoryMoveDepth
  uint32_t mode = 0;       // MemoryMode
  uint32_t process = 0;    // as the process sees its own id; for people only
  uint32_t device = 0;     // of the sandbox's, as its program numbers them
};
static_assert(sizeof(MemoryMessage) == 72);

// Whether these bytes, which may come from anyone, are one whole message of this version with every
// number inside its enumeration.
inline bool is_memory_message(const void* data, size_t size) {
  if (size != sizeof(MemoryMessage)) return false;
  MemoryMessage message;
  __builtin_memcpy(&message, data, sizeof message);
  const uint16_t kind = static_cast<uint16_t>(message.kind);
  const bool known = (kind >= static_cast<uint16_t>(MemoryMessageKind::kHello) &&
                      kind <= static_cast<uint16_t>(MemoryMessageKind::kGrantMemory)) ||
                     (kind >= static_cast<uint16_t>(MemoryMessageKind::kWantLink) &&
                      kind <= static_cast<uint16_t>(MemoryMessageKind::kReturnOffloaded)) ||
                     (kind >= static_cast<uint16_t>(MemoryMessageKind::kServeSandbox) &&
                      kind <= static_cast<uint16_t>(MemoryMessageKind::kServeOnDeviceToo));
  return known && message.magic == kMemoryProtocolMagic &&
         message.version == kMemoryProtocolVersion &&
         message.status <= static_cast<uint32_t>(MemoryMoveStatus::kNotSupported) &&
         message.direction <= static_cast<uint32_t>(LinkDirection::kToHost) &&
         message.depth <= static_cast<uint32_t>(MemoryMoveDepth::kContext) &&
         message.mode <= static_cast<uint32_t>(MemoryMode::kManaged) &&
         message.device < kMostDevicesOfSandbox;
}

}  // namespace lambent::protocol
