#include "emulator/emulated_cuda/copies.h"

#include <algorithm>
#include <cstring>

#include "emulator/emulated_cuda/arrays.h"
#include "emulator/emulated_cuda/host_pages.h"
#include "emulator/emulated_cuda/process.h"

namespace lambent::emulated_cuda {

namespace {

// Whether mapped memory at this end was opened to the other device, by cuMemSetAccess.
bool is_open_to(const Process& process, const Side& side, int device) {
  unsigned long long flags = CU_MEM_ACCESS_FLAGS_PROT_NONE;
  return process.virtual_memory.access(device, side.address, &flags) == CUDA_SUCCESS &&
         flags != CU_MEM_ACCESS_FLAGS_PROT_NONE;
}

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
    bool opened = peer || process.peers.opened(from.device_index, to.device_index) ||
                  is_open_to(process, from, to.device_index) ||
                  is_open_to(process, to, from.device_index);
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
constexpr size_t kMostOffload_bytes = size_t{64} << 20;
constexpr size_t kLargePart_bytes = size_t{8} << 20;
constexpr size_t kLeastBacking_bytes = 4096;

// Of `other`, the opposite end, may be less memory than it says; then little is copied.
bool host_side_there(const Side& side, const Side& other, size_t bytes, bool write) {
  if (side.pinned || side.device) return true;
  return host_pages_accessible(side.address, other.backing ? std::min(bytes, other.backing) : bytes,
                               write);
}

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

// Of a part of an allocation with less memory behind it than it counts: a large part has its share
// of that memory, or a transfer in many pieces would be of more bytes than there are.
size_t backing_of_part(const Allocation& allocation, size_t bytes) {
  if (bytes < kLargePart_bytes) return allocation.backing_bytes;
  const double share = static_cast<double>(bytes) / static_cast<double>(allocation.bytes);
  const auto backing = static_cast<size_t>(share * static_cast<double>(allocation.backing_bytes));
  return std::max(backing, kLeastBacking_bytes);
}

}  // namespace

bool Copy::permitted() const {
  if (to.access != Access::kReadWrite || from.access == Access::kNone) return false;
  return host_side_there(to, from, shape.to_bytes(), true) &&
         host_side_there(from, to, shape.from_bytes(), false);
}

std::shared_ptr<const void> offload(Copy& copy) {
  if (copy.from.backing || copy.shape.from_bytes() > kMostOffload_bytes) return nullptr;
  auto bytes = std::make_shared_for_overwrite<char[]>(copy.shape.from_bytes());
  std::memcpy(bytes.get(), reinterpret_cast<const void*>(copy.from.address),
              copy.shape.from_bytes());
  copy.from.address = reinterpret_cast<uintptr_t>(bytes.get());
  return {bytes, bytes.get()};
}

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
  if (allocation->backing_bytes < allocation->bytes) {
    side->backing = backing_of_part(*allocation, bytes);
  }
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

namespace {

// One end of a request for a copy of boxes.
struct BoxEnd {
  CUmemorytype type;
  const void* host;
  CUdeviceptr device;
  CUarray array;
  size_t x_bytes, y, z;
  size_t pitch, rows;  // as given; 0: as the box
};

// Where a byte of the box lies beyond its first; false if the numbers are absurd.
bool reach(size_t x_bytes, size_t y, size_t z, size_t pitch, size_t layer, size_t* bytes) {
  size_t rows, layers;
  return !__builtin_mul_overflow(y, pitch, &rows) && !__builtin_mul_overflow(z, layer, &layers) &&
         !__builtin_add_overflow(rows, layers, bytes) &&
         !__builtin_add_overflow(*bytes, x_bytes, bytes);
}

// Checks one end against the box and finds what lies there; tells its pitch and layer.
CUresult find_end(const Process& process, const BoxEnd& end, const Shape& box, Side* side,
                  size_t* pitch, size_t* layer) {
  if (end.type == CU_MEMORYTYPE_ARRAY) {
    auto array = process.arrays.find(end.array);
    if (!array) return CUDA_ERROR_INVALID_HANDLE;
    *pitch = array->row_bytes();
    *layer = array->row_bytes() * array->rows();
    bool inside =
        array_side(*array, end.x_bytes, end.y, end.z, box.width, box.height, box.depth, side);
    return inside ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
  }
  *pitch = end.pitch ? end.pitch : box.width;
  size_t rows = end.rows ? end.rows : box.height;
  size_t offset, last;
  if (__builtin_mul_overflow(*pitch, rows, layer)) return CUDA_ERROR_INVALID_VALUE;
  bool several = box.height > 1 || box.depth > 1;
  bool sane = reach(end.x_bytes, end.y, end.z, *pitch, *layer, &offset) &&
              reach(box.width, box.height - 1, box.depth - 1, *pitch, *layer, &last);
  if (!sane || (several && (end.x_bytes > *pitch || box.width > *pitch - end.x_bytes))) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (box.depth > 1 && (end.y > rows || box.height > rows - end.y)) return CUDA_ERROR_INVALID_VALUE;
  if (end.type == CU_MEMORYTYPE_HOST) {
    *side = resolve_host(process, static_cast<const char*>(end.host) + offset, last);
    return end.host ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
  }
  if (end.type != CU_MEMORYTYPE_DEVICE && end.type != CU_MEMORYTYPE_UNIFIED) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (resolve_device(process, end.device + offset, last, side)) return CUDA_SUCCESS;
  bool runs_over = process.memory.find(end.device + offset, 1).has_value();
  if (end.type == CU_MEMORYTYPE_DEVICE || runs_over || end.device == 0) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  *side = resolve_host(process, reinterpret_cast<const void*>(end.device + offset), last);
  return CUDA_SUCCESS;
}

}  // namespace

CUresult make_copy(const Process& process, const CUDA_MEMCPY3D& r, Copy* copy) {
  if (r.srcLOD || r.dstLOD || r.reserved0 || r.reserved1) return CUDA_ERROR_INVALID_VALUE;
  Shape& shape = copy->shape;
  shape = {0, 0, 0, 0};
  if (r.WidthInBytes == 0 || r.Height == 0 || r.Depth == 0) return CUDA_SUCCESS;
  shape.width = r.WidthInBytes;
  shape.height = r.Height;
  shape.depth = r.Depth;
  BoxEnd from{r.srcMemoryType, r.srcHost, r.srcDevice, r.srcArray, r.srcXInBytes,
              r.srcY,          r.srcZ,    r.srcPitch,  r.srcHeight};
  BoxEnd to{r.dstMemoryType, r.dstHost, r.dstDevice, r.dstArray, r.dstXInBytes,
            r.dstY,          r.dstZ,    r.dstPitch,  r.dstHeight};
  if (CUresult result =
          find_end(process, from, shape, &copy->from, &shape.from_pitch, &shape.from_layer)) {
    return result;
  }
  return find_end(process, to, shape, &copy->to, &shape.to_pitch, &shape.to_layer);
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
  size_t reach;
  bool absurd = __builtin_mul_overflow(r.height - 1, r.pitch, &reach) ||
                __builtin_add_overflow(reach, row_bytes, &reach);
  return !absurd && resolve_device(process, r.dst, reach, &fill->to) ? CUDA_SUCCESS
                                                                     : CUDA_ERROR_INVALID_VALUE;
}

namespace {

// When the copy is through; managed memory at either end stays where it is.
int64_t end_of(Process& process, Context& context, const Copy& copy, int64_t begin_ns) {
  Side to = settled(process, copy.to, copy.shape.to_bytes(), true);
  Side from = settled(process, copy.from, copy.shape.from_bytes(), false);
  return modelled_end(process, context, to, from, copy.peer, copy.shape.bytes(), begin_ns);
}

void move_bytes(const Copy& copy) {
  const Shape& shape = copy.shape;
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
}

}  // namespace

int64_t perform(Process& process, Context& context, const Copy& copy, int64_t begin_ns) {
  int64_t end_ns = end_of(process, context, copy, begin_ns);
  ThreadClock::hold(end_ns);  // where the next operation may begin
  move_bytes(copy);
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

// No order among them: each may begin at once, and the links see to the rest.
int64_t perform(Process& process, Context& context, const CopyBatch& batch, int64_t begin_ns) {
  int64_t end_ns = begin_ns;
  for (const Copy& copy : batch.copies) {
    end_ns = std::max(end_ns, end_of(process, context, copy, begin_ns));
  }
  ThreadClock::hold(end_ns);
  for (const Copy& copy : batch.copies) move_bytes(copy);
  sleep_to(process, end_ns);
  return end_ns;
}

}  // namespace lambent::emulated_cuda
