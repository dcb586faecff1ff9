#include "emulator/emulated_cuda/managed.h"

#include <algorithm>
#include <cstring>

#include "emulator/emulated_cuda/kernel_launch.h"
#include "emulator/emulated_cuda/process.h"

namespace lambent::emulated_cuda {

Managed::Managed(Process& process)
    : process_(process),
      managed_residency_({[this](int device, uint64_t bytes) {
                            return process_.count_bytes(process_.visible[device], bytes);
                          },
                          [this](int device, uint64_t bytes) {
                            process_.uncount_bytes(process_.visible[device], bytes);
                          }}) {}

CUresult Managed::allocate(Context& context, size_t bytes, unsigned flags, CUdeviceptr* address) {
  auto allocation =
      process_.memory.allocate_host(bytes, flags, context.device, &context, MemoryKind::kManaged);
  if (!allocation) return CUDA_ERROR_OUT_OF_MEMORY;
  const MutexLock lock(mutex_);
  managed_residency_.add(allocation->base, bytes);
  ranges_[allocation->base] = {bytes, &context};
  count_++;
  process_.node->note_managed(process_.row, 1);
  *address = allocation->base;
  return CUDA_SUCCESS;
}

bool Managed::free(uintptr_t address) {
  const MutexLock lock(mutex_);
  if (ranges_.erase(address) == 0) return false;
  managed_residency_.remove(address);
  count_--;
  process_.node->note_managed(process_.row, -1);
  return process_.memory.release(address, MemoryKind::kManaged).has_value();
}

void Managed::forget(const void* context) {
  const MutexLock lock(mutex_);
  for (auto it = ranges_.begin(); it != ranges_.end();) {
    if (it->second.context != context) {
      ++it;
      continue;
    }
    managed_residency_.remove(it->first);
    it = ranges_.erase(it);
    count_--;
    process_.node->note_managed(process_.row, -1);
  }
}

bool Managed::covers(uintptr_t address, size_t bytes) const {
  const MutexLock lock(mutex_);
  return managed_residency_.covers(address, bytes);
}

int64_t Managed::before_kernel(const Context& context, const KernelLaunch& launch,
                               int64_t begin_ns) {
  if (!any()) return begin_ns;
  const emulated_kernel& kernel = *launch.function->kernel;
  const MutexLock lock(mutex_);
  std::set<uintptr_t> touched;
  for (uint32_t i = 0; i < kernel.parameter_count; i++) {
    // Pointers may lie inside structures too.
    auto* parameter = static_cast<const unsigned char*>(launch.parameters->pointers[i]);
    for (uint32_t at = 0; at + sizeof(uintptr_t) <= kernel.parameter_sizes[i];
         at += sizeof(uintptr_t)) {
      uintptr_t address;
      std::memcpy(&address, parameter + at, sizeof address);
      auto it = ranges_.upper_bound(address);
      if (it == ranges_.begin()) continue;
      --it;
      if (address - it->first < it->second.bytes) touched.insert(it->first);
    }
  }
  for (uintptr_t base : touched) {
    size_t bytes = ranges_[base].bytes;
    // What is mostly read it is taken to read, the rest to write.
    bool write = !managed_residency_.advice(base, bytes).read_mostly;
    begin_ns = time_of(managed_residency_.touch(base, bytes, context.ordinal, write),
                       context.ordinal, begin_ns);
  }
  return begin_ns;
}

int64_t Managed::touch(uintptr_t address, size_t bytes, int place, bool write, int64_t begin_ns) {
  const MutexLock lock(mutex_);
  return time_of(managed_residency_.touch(address, bytes, place, write), place, begin_ns);
}

int Managed::place_of(uintptr_t address) const {
  const MutexLock lock(mutex_);
  int place = managed_residency_.place_of(address);
  return place == kNoPlace ? kHostPlace : place;
}

int64_t Managed::move(const MemoryMove& move, int64_t begin_ns) {
  const MutexLock lock(mutex_);
  if (move.discard) managed_residency_.discard(move.address, move.bytes);
  if (!move.prefetch) return begin_ns;
  return time_of(managed_residency_.prefetch(move.address, move.bytes, move.place), move.place,
                 begin_ns);
}

bool Managed::make_room(int partition, const std::function<bool()>& fits) {
  const int ordinal = process_.ordinal_of(partition);
  if (!any() || ordinal < 0) return false;
  Traffic traffic;
  bool fitted = false;
  int64_t end_ns = 0;
  {
    const MutexLock lock(mutex_);
    bool more = true;
    while (more && !(fitted = fits())) more = managed_residency_.release(ordinal, traffic);
    end_ns = time_of(traffic, kHostPlace, process_.node->now_ns());
  }
  sleep_to(process_, end_ns);
  return fitted;
}

void Managed::advise(uintptr_t address, size_t bytes, const std::function<void(Advice&)>& change) {
  const MutexLock lock(mutex_);
  managed_residency_.advise(address, bytes, change);
}

Advice Managed::advice(uintptr_t address, size_t bytes) const {
  const MutexLock lock(mutex_);
  return managed_residency_.advice(address, bytes);
}

// Movements queue on the links; faults take their latency and their own, lower rate.
int64_t Managed::time_of(const Traffic& traffic, int place, int64_t begin_ns) const {
  if (traffic.movements.empty() && traffic.remote_bytes == 0 && traffic.faults == 0) {
    return begin_ns;
  }
  const DeviceSpec& spec = process_.node->spec().device;
  int64_t end_ns = begin_ns;
  uint64_t moved = 0;
  Node::Guard guard(*process_.node);
  auto transfer = [&](int device, Direction direction, uint64_t bytes, int64_t from_ns) {
    return guard.transfer(process_.visible[device], direction, bytes, true, from_ns, process_.row);
  };
  for (const Movement& movement : traffic.movements) {
    int64_t through_ns = begin_ns;
    if (movement.from != kHostPlace && movement.to != kHostPlace) {
      int from = process_.visible[movement.from], to = process_.visible[movement.to];
      through_ns = guard.transfer_between(from, to, process_.way_to_peer(from, to), movement.bytes,
                                          begin_ns, process_.row);
    } else if (movement.from != kHostPlace) {
      through_ns = transfer(movement.from, Direction::kDeviceToHost, movement.bytes, through_ns);
    } else {
      through_ns = transfer(movement.to, Direction::kHostToDevice, movement.bytes, through_ns);
    }
    end_ns = std::max(end_ns, through_ns);
    moved += movement.bytes;
  }
  if (traffic.remote_bytes && place != kHostPlace) {
    end_ns =
        std::max(end_ns, transfer(place, Direction::kHostToDevice, traffic.remote_bytes, begin_ns));
  }
  if (traffic.faults == 0) return end_ns;
  double carrying_s = static_cast<double>(moved) / spec.fault_bytes_per_s;
  int64_t faulting_ns =
      static_cast<int64_t>(traffic.faults) * spec.fault_ns + static_cast<int64_t>(carrying_s * 1e9);
  return std::max(end_ns, begin_ns + faulting_ns);
}

}  // namespace lambent::emulated_cuda
