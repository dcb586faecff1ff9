#include "gpu/shim/copier.h"

#include "driver_slots.h"
#include "gpu/shim/managed_memory.h"

namespace lambent::shim {
namespace {

using device_memory::HostPiece;
using protocol::LinkDirection;

// Large enough that asking for turns costs nothing beside it, small enough that others wait less
// than a millisecond on today's links.
constexpr uint64_t kQuantumBytes = uint64_t{32} << 20;
constexpr unsigned kNonBlocking = 1;       // CU_STREAM_NON_BLOCKING
constexpr unsigned kEventWithoutTime = 2;  // CU_EVENT_DISABLE_TIMING
// How long to look for a turn before looking whether the quantum before has arrived.
constexpr int64_t kLookNs = 50'000;

}  // namespace

Copier::Copier(Device device, LinkDirection direction, uint64_t bytes, DeviceLink& link,
               const device_memory::HostArena& arena)
    : direction_(direction), link_(link), arena_(arena), unasked_bytes_(bytes) {
  for (Quantum& quantum : quanta_) {
    if (status_ == kSuccess) {
      status_ = REAL(cuStreamCreate, Handle*, unsigned)(&quantum.stream, kNonBlocking);
    }
    if (status_ == kSuccess) {
      status_ = REAL(cuEventCreate, Handle*, unsigned)(&quantum.event, kEventWithoutTime);
    }
  }
  link_.begin(device);
  want_next();
}

Copier::~Copier() {
  finish();
  for (Quantum& quantum : quanta_) {
    if (quantum.event != nullptr) REAL(cuEventDestroy_v2, Handle)(quantum.event);
    if (quantum.stream != nullptr) REAL(cuStreamDestroy_v2, Handle)(quantum.stream);
  }
}

void Copier::want_next() {
  asked_bytes_ = unasked_bytes_ < kQuantumBytes ? unasked_bytes_ : kQuantumBytes;
  unasked_bytes_ -= asked_bytes_;
  if (asked_bytes_ > 0) link_.want(direction_, asked_bytes_);
}

template <typename Piece>
Status Copier::carry(uint64_t bytes, Piece piece) {
  for (uint64_t offset = 0; offset < bytes && status_ == kSuccess;) {
    if (left_in_quantum_ == 0) status_ = next_quantum();
    if (status_ != kSuccess) break;
    uint64_t taken = bytes - offset < left_in_quantum_ ? bytes - offset : left_in_quantum_;
    status_ = piece(offset, quanta_[current_].stream, &taken);
    offset += taken;
    left_in_quantum_ -= taken;
  }
  return status_;
}

Status Copier::copy(Address address, uint64_t position, uint64_t bytes) {
  return carry(bytes, [&](uint64_t offset, Handle stream, uint64_t* taken) {
    const HostPiece piece = arena_.piece(position + offset, *taken);
    *taken = piece.bytes;
    if (piece.bytes == 0) return kInvalidValue;  // there is no room for it: it was not asked for
    if (direction_ == LinkDirection::kToHost) {
      return REAL(cuMemcpyDtoHAsync_v2, void*, Address, size_t, Handle)(
          piece.begin, address + offset, piece.bytes, stream);
    }
    return REAL(cuMemcpyHtoDAsync_v2, Address, const void*, size_t, Handle)(
        address + offset, piece.begin, piece.bytes, stream);
  });
}

Status Copier::copy_across(Address to, Address from, uint64_t bytes) {
  return carry(bytes, [&](uint64_t offset, Handle stream, uint64_t* taken) {
    return REAL(cuMemcpyDtoDAsync_v2, Address, Address, size_t, Handle)(to + offset, from + offset,
                                                                        *taken, stream);
  });
}

Status Copier::prefetch(Address address, uint64_t bytes, Device place) {
  return carry(bytes, [&](uint64_t offset, Handle stream, uint64_t* taken) {
    return prefetch_managed(address + offset, *taken, place, stream);
  });
}

// The turn after this one is asked for as soon as this one is there, so that the link has something
// to do while the answer is on its way.
Status Copier::next_quantum() {
  Status status = hand_over(quanta_[current_]);
  if (status != kSuccess) return status;
  Quantum& before = quanta_[current_];
  current_ ^= 1;
  Quantum& now = quanta_[current_];
  status = complete(now);
  Turn turn = link_.await_turn(0);
  while (turn == Turn::kNotYet && status == kSuccess) {
    // A turn that is over is given back at once: others wait for it.
    if (before.bytes > 0 && is_done(before)) status = complete(before);
    turn = link_.await_turn(kLookNs);
  }
  now.bytes = asked_bytes_;
  now.is_granted = turn == Turn::kGranted;
  left_in_quantum_ = asked_bytes_;
  want_next();
  return left_in_quantum_ > 0 ? status : kInvalidValue;  // more than was announced
}

Status Copier::hand_over(const Quantum& quantum) {
  if (quantum.bytes == 0) return kSuccess;
  return REAL(cuEventRecord, Handle, Handle)(quantum.event, quantum.stream);
}

bool Copier::is_done(const Quantum& quantum) {
  return REAL(cuEventQuery, Handle)(quantum.event) != kNotReady;
}

Status Copier::complete(Quantum& quantum) {
  if (quantum.bytes == 0) return kSuccess;
  const Status status = REAL(cuStreamSynchronize, Handle)(quantum.stream);
  if (quantum.is_granted) link_.done(direction_, quantum.bytes);
  quantum.bytes = 0;
  return status;
}

Status Copier::finish() {
  for (Quantum& quantum : quanta_) {
    const Status status = complete(quantum);
    if (status_ == kSuccess) status_ = status;
  }
  // A turn that was asked for and is not needed any more, because something failed.
  while (asked_bytes_ > 0) {
    const Turn turn = link_.await_turn(kLookNs);
    if (turn == Turn::kNotYet) continue;
    if (turn == Turn::kGranted) link_.done(direction_, asked_bytes_);
    asked_bytes_ = 0;
  }
  return status_;
}

}  // namespace lambent::shim
