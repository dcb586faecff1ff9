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

CUresult make_copy(const Process& process, const CUDA_MEMCPY3D& r, Copy* copy) {
  if (r.srcMemoryType == CU_MEMORYTYPE_ARRAY || r.dstMemoryType == CU_MEMORYTYPE_ARRAY) {
    log_refusal("copies of arrays", "arrays are not emulated");
    return CUDA_ERROR_NOT_SUPPORTED;
  }
  if (r.srcLOD || r.dstLOD || r.reserved0 || r.reserved1) return CUDA_ERROR_INVALID_VALUE;
  Shape& shape = copy->shape;
  shape = {0, 0, 0, 0};
  if (r.WidthInBytes == 0 || r.Height == 0 || r.Depth == 0) return CUDA_SUCCESS;
  shape.width = r.WidthInBytes;
  shape.height = r.Height;
  shape.depth = r.Depth;
  shape.from_pitch = r.srcPitch ? r.srcPitch : r.WidthInBytes;
  shape.to_pitch = r.dstPitch ? r.dstPitch : r.WidthInBytes;
  bool rows = r.Height > 1 || r.Depth > 1;
  if (rows && (r.srcXInBytes + r.WidthInBytes > shape.from_pitch ||
               r.dstXInBytes + r.WidthInBytes > shape.to_pitch)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  size_t from_rows = r.srcHeight ? r.srcHeight : r.Height;
  size_t to_rows = r.dstHeight ? r.dstHeight : r.Height;
  if (r.Depth > 1 && (r.srcY + r.Height > from_rows || r.dstY + r.Height > to_rows)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  shape.from_layer = shape.from_pitch * from_rows;
  shape.to_layer = shape.to_pitch * to_rows;
  size_t from_offset = r.srcZ * shape.from_layer + r.srcY * shape.from_pitch + r.srcXInBytes;
  size_t to_offset = r.dstZ * shape.to_layer + r.dstY * shape.to_pitch + r.dstXInBytes;
  auto find = [&](CUmemorytype type, const void* host, CUdeviceptr device, size_t offset,
                  size_t bytes, Side* side) {
    if (type == CU_MEMORYTYPE_HOST) {
      *side = resolve_host(process, static_cast<const char*>(host) + offset, bytes);
      return host != nullptr;
    }
    if (type != CU_MEMORYTYPE_DEVICE && type != CU_MEMORYTYPE_UNIFIED) return false;
    if (resolve_device(process, device + offset, bytes, side)) return true;
    if (type == CU_MEMORYTYPE_DEVICE || process.memory.find(device + offset, 1)) return false;
    *side = resolve_host(process, reinterpret_cast<const void*>(device + offset), bytes);
    return device != 0;
  };
  bool found =
      find(r.srcMemoryType, r.srcHost, r.srcDevice, from_offset, shape.from_bytes(), &copy->from) &&
      find(r.dstMemoryType, r.dstHost, r.dstDevice, to_offset, shape.to_bytes(), &copy->to);
  return found ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult make_fill(const Process& process, const CUDA_MEMSET_NODE_PARAMS& r, Fill* fill) {
  if (r.elementSize != 1 && r.elementSize != 2 && r.elementSize != 4) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (r.width == 0 || r.height == 0 || r.width > SIZE_MAX / r.elementSize) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  size_t row_bytes = r.width * r.elementSize;
  if (r.dst % r.elementSize) return CUDA_ERROR_INVALID_VALUE;
  if (r.height > 1 && (r.pitch < row_bytes || r.pitch % r.elementSize)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  *fill = {Side{}, r.pitch, r.value, r.elementSize, r.width, r.height};
  return resolve_device(process, r.dst, (r.height - 1) * r.pitch + row_bytes, &fill->to)
             ? CUDA_SUCCESS
             : CUDA_ERROR_INVALID_VALUE;
}

int64_t perform(Process& process, Context& context, const Copy& copy, int64_t begin_ns) {
  const Shape& shape = copy.shape;
  Side to = settled(process, copy.to, shape.to_bytes(), true);
  Side from = settled(process, copy.from, shape.from_bytes(), false);
  int64_t end_ns = modelled_end(process, context, to, from, copy.peer, shape.bytes(), begin_ns);
  ThreadClock::hold(end_ns);  // where the next operation may begin
  size_t limit = std::max(copy.to.backing, copy.from.backing);  // contents are undefined beyond
  size_t width = limit ? std::min(shape.width, limit) : shape.width;
  for (size_t layer = 0; layer < shape.depth; layer++) {
    for (size_t row = 0; row < shape.height; row++) {
      std::memmove(
          reinterpret_cast<char*>(copy.to.address) + layer * shape.to_layer + row * shape.to_pitch,
          reinterpret_cast<const char*>(copy.from.address) + layer * shape.from_layer +
              row * shape.from_pitch,
          width);
    }
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
