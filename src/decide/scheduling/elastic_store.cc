#include "decide/scheduling/elastic_store.h"

#include <algorithm>

namespace lambent::scheduling {
namespace {

// What objects take of each device.
std::vector<Bytes> taken_everywhere(const StoreView& view) {
  std::vector<Bytes> taken(view.devices.size());
  for (const StoredObject& object : view.objects) {
    if (object.place != kHost) taken[object.place] += object.size;
  }
  return taken;
}

bool has_room(const StoreOptions& options, const StoreDevice& device, Bytes taken, Bytes size) {
  return size <= room_for_objects(options, device) - taken;
}

// The share of the memory that would be in use.
double pressure(const StoreDevice& device, Bytes taken, Bytes size) {
  const double asked = static_cast<double>(device.needed.count) + static_cast<double>(taken.count) +
                       static_cast<double>(size.count);
  return asked / static_cast<double>(std::max<uint64_t>(1, device.memory.count));
}

bool may_lie_on(const StoredObject& object, uint32_t device) {
  return device < 64 && (object.may_lie >> device & 1) != 0;
}

// Where an object goes that cannot stay on `device`.
uint32_t refuge(const StoreOptions& options, const StoreView& view, const std::vector<Bytes>& taken,
                uint32_t device, const StoredObject& object) {
  uint32_t best = kHost;
  double least = 0;
  const Bytes size = object.size;
  if (!options.adaptive_movement || object.spare) return best;
  for (const uint32_t other : view.devices[device].neighbours) {
    if (other == device || !may_lie_on(object, other)) continue;
    if (!has_room(options, view.devices[other], taken[other], size)) continue;
    const double now = pressure(view.devices[other], taken[other], size);
    if (best != kHost && now >= least) continue;
    best = other;
    least = now;
  }
  return best;
}

}  // namespace

Bytes functions_need(const StoreOptions& options, std::span<const RunningFunction> functions) {
  if (options.aware_of_pressure) return demand_of(functions, options.look_ahead);
  Bytes now;
  for (const RunningFunction& function : functions) {
    const std::vector<KernelMemory>& kernels = function.profile->kernels;
    if (function.kernel < kernels.size()) now += kernels[function.kernel].live;
  }
  return now;
}

Bytes room_for_objects(const StoreOptions& options, const StoreDevice& device) {
  const Bytes idle = device.memory - device.needed;
  const double share = std::clamp(options.share_of_idle, 0.0, 1.0);
  return Bytes(static_cast<uint64_t>(static_cast<double>(idle.count) * share));
}

Bytes taken_by_objects(const StoreView& view, uint32_t device) {
  return taken_everywhere(view)[device];
}

uint32_t place_for_new(const StoreOptions& options, const StoreView& view, uint32_t device,
                       Bytes size) {
  const std::vector<Bytes> taken = taken_everywhere(view);
  if (has_room(options, view.devices[device], taken[device], size)) return device;
  return refuge(options, view, taken, device, {.size = size});
}

std::optional<StoreMove> pull(const StoreOptions& options, const StoreView& view, uint32_t object,
                              uint32_t reader) {
  const StoredObject& wanted = view.objects[object];
  if (!options.adaptive_movement || wanted.place == reader || wanted.in_use) return std::nullopt;
  if (!may_lie_on(wanted, reader)) return std::nullopt;
  const Bytes taken = taken_by_objects(view, reader);
  if (!has_room(options, view.devices[reader], taken, wanted.size)) return std::nullopt;
  return StoreMove{object, wanted.place, reader};
}

std::vector<StoreMove> relieve(const StoreOptions& options, const StoreView& view,
                               uint32_t device) {
  std::vector<StoreMove> moves;
  std::vector<Bytes> taken = taken_everywhere(view);
  const Bytes room = room_for_objects(options, view.devices[device]);
  if (taken[device] <= room) return moves;
  std::vector<uint32_t> candidates;
  for (uint32_t i = 0; i < view.objects.size(); ++i) {
    const StoredObject& object = view.objects[i];
    if (object.place == device && !object.in_use && object.size > Bytes()) candidates.push_back(i);
  }
  std::ranges::stable_sort(candidates, [&](uint32_t a, uint32_t b) {
    const StoredObject &one = view.objects[a], &other = view.objects[b];
    if (one.spare != other.spare) return one.spare;
    return one.size != other.size ? one.size > other.size : one.last_use < other.last_use;
  });
  for (const uint32_t candidate : candidates) {
    if (taken[device] <= room) break;
    const Bytes size = view.objects[candidate].size;
    const uint32_t to = refuge(options, view, taken, device, view.objects[candidate]);
    moves.push_back({candidate, device, to});
    taken[device] -= size;
    if (to != kHost) taken[to] += size;
  }
  return moves;
}

}  // namespace lambent::scheduling
