#include "emulated_cuda/copies.h"

#include <algorithm>
#include <cstring>

#include "emulated_cuda/process.h"

namespace lambent::emulated_cuda {

namespace {

// When the copy that may begin at `begin_ns` is through, by the links or the device's own memory.
int64_t modelled_end(Process& process, const Context& context, const Side& to, const Side& from,
                     bool peer, uint64_t bytes, int64_t begin_ns) {
  bool within = to.device == from.device && (!to.device || to.device_index == from.device_index);
  if (within) {
    // Inside the device, or the host, each byte is read and written.
    double seconds = 2.0 * bytes / process.spec(context.device).memory_bytes_per_s;
    return begin_ns + 1000 + static_cast<int64_t>(seconds * 1e9);
  }
  if (to.device && from.device) {
    Way way = process.way_to_peer(from.device_index, to.device_index);
    bool opened = peer || process.peers.opened(from.device_index, to.device_index);
    if (!opened) way = Way::kStaged;
    Node::Guard guard(*process.node);
    return guard.transfer_between(from.device_index, to.device_index, way, bytes, begin_ns,
                                  process.row);
  }
  Node::Guard guard(*process.node);
  bool pinned = to.pinned && from.pinned;
  Direction direction = to.device ? Direction::kHostToDevice : Direction::kDeviceToHost;
  int device = to.device ? to.device_index : from.device_index;
  return guard.transfer(device, direction, bytes, pinned, begin_ns, process.row);
}

constexpr int64_t kLongestSleep_ns = 100'000'000;

// Of managed memory: where it lies by now. Writing makes that the only place.
Side settled(Process& process, Side side, size_t bytes, bool write) {
  if (!side.managed) return side;
  int place = process.managed.place_of(side.address);
  process.managed.touch(side.address, bytes, place, write, 0);
  side.device = place != kHostPlace;
  if (side.device) side.device_index = process.visible[place];
  return side;
}

template <class Element>
void fill_rows(const Fill& fill) {
  size_t count =
      fill.to.backing ? std::min(fill.width, fill.to.backing / sizeof(Element)) : fill.width;
  for (size_t row = 0; row < fill.height; row++) {
    auto* first = reinterpret_cast<Element*>(fill.to.address + row * fill.pitch);
    std::fill(first, first + count, static_cast<Element>(fill.value));
  }
}

}  // namespace

void sleep_to(Process& process, int64_t end_ns) {
  while (process.node->now_ns() < end_ns) process.node->sleep_until(end_ns, kLongestSleep_ns);
}

bool resolve_device(const Process& process, CUdeviceptr address, size_t bytes, Side* side) {
  auto allocation = process.memory.find(address, bytes);
  if (!allocation) return false;
  side->address = address;
  side->access = allocation->access;
  side->pinned = true;
  side->device = allocation->on_device();
  side->managed = allocation->kind == MemoryKind::kManaged;
  side->device_index = allocation->device;
  if (allocation->backing_bytes < allocation->bytes) side->backing = allocation->backing_bytes;
  return true;
}

Side resolve_host(const Process& process, const void* address, size_t bytes) {
  Side side;
  side.address = reinterpret_cast<uintptr_t>(address);
  auto allocation = process.memory.find(side.address, bytes);
  side.pinned = allocation.has_value();
  side.device = allocation && allocation->on_device();
  side.managed = allocation && allocation->kind == MemoryKind::kManaged;
  if (allocation) side.access = allocation->access;
  if (side.device) side.device_index = allocation->device;
  return side;
}

int64_t perform(Process& process, Context& context, const Copy& copy, int64_t begin_ns) {
  const Shape& shape = copy.shape;
  Side to = settled(process, copy.to, shape.to_bytes(), true);
  Side from = settled(process, copy.from, shape.from_bytes(), false);
  int64_t end_ns =
      modelled_end(process, context, to, from, copy.peer, shape.width * shape.height, begin_ns);
  ThreadClock::hold(end_ns);  // where the next operation may begin
  size_t limit = std::max(copy.to.backing, copy.from.backing);  // contents are undefined beyond
  size_t width = limit ? std::min(shape.width, limit) : shape.width;
  for (size_t row = 0; row < shape.height; row++) {
    std::memmove(reinterpret_cast<char*>(copy.to.address) + row * shape.to_pitch,
                 reinterpret_cast<const char*>(copy.from.address) + row * shape.from_pitch, width);
  }
  sleep_to(process, end_ns);
  return end_ns;
}

int64_t perform(Process& process, Context& context, const Fill& fill, int64_t begin_ns) {
  if (fill.to.managed) {  // as a kernel does it
    size_t touched = (fill.height - 1) * fill.pitch + fill.width * fill.element_bytes;
    begin_ns = process.managed.touch(fill.to.address, touched, context.ordinal, true, begin_ns);
  }
  switch (fill.element_bytes) {
    case 1:
      fill_rows<uint8_t>(fill);
      break;
    case 2:
      fill_rows<uint16_t>(fill);
      break;
    default:
      fill_rows<uint32_t>(fill);
      break;
  }
  double bytes = static_cast<double>(fill.width) * fill.element_bytes * fill.height;
  double seconds = bytes / process.spec(context.device).memory_bytes_per_s;
  int64_t end_ns = begin_ns + 1000 + static_cast<int64_t>(seconds * 1e9);
  ThreadClock::hold(end_ns);
  sleep_to(process, end_ns);
  return end_ns;
}

}  // namespace lambent::emulated_cuda
