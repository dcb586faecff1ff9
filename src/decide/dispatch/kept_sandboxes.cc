#include "decide/dispatch/kept_sandboxes.h"

#include <algorithm>
#include <bit>

namespace lambent::dispatch {

using scheduling::Device;
using scheduling::Fleet;
using scheduling::Flow;
using scheduling::MemoryPlace;
using scheduling::Place;

void KeptSandboxes::take(const SandboxReady& event) {
  if (event.sandbox != placements_.next_sandbox()) {
    ++log_.counters().ignored_events;
    return;
  }
  // Whatever becomes of it, no other has its number.
  placements_.count_up_to(event.sandbox);
  const auto place = place_of(event);
  if (!place) return;
  const Flow& flow = flows_[event.kept_of.value];
  // No more can be anywhere than there is.
  const Bytes left = std::min(event.left, flow.device_memory);
  const MemoryPlace where{event.memory_is_out, event.deep, left,
                          std::min(event.offloaded, flow.device_memory - left)};
  const bool fits =
      has_room(*place, flow.device_memory, where) &&
      room_.make_room_beside_kept(
          flow.tenant_slot, {.gpu = flow.device_memory * flow.gpu_count, .host = flow.host_memory});
  if (fits) pools_.gpu.keep(event.sandbox, event.kept_of, *place, where);
}

// None: the event makes no sense, or the function has no sandboxes that rest.
std::optional<Place> KeptSandboxes::place_of(const SandboxReady& event) const {
  if (!is_registered(flows_, event.kept_of) || admission_.draining()) return std::nullopt;
  const Flow& flow = flows_[event.kept_of.value];
  if (processor_of(flow) != Processor::kGpu) return std::nullopt;
  if (!pools_.gpu.scheduler().policy().keeps_instances()) return std::nullopt;
  if (1 + static_cast<unsigned>(std::popcount(event.beside)) != flow.gpu_count) return std::nullopt;
  const Fleet& fleet = pools_.gpu.fleet();
  const auto index = fleet.device_index(event.device);
  if (!index) return std::nullopt;
  Place place{*index, scheduling::kNoSandbox};
  bool known = true;
  scheduling::for_each_device_in(event.beside, [&](uint32_t bit) {
    const auto other = fleet.device_index(DeviceId{bit + 1});
    known = known && other && *other != *index && *other < scheduling::kMostDevicesOfGangs;
    if (known) place.beside |= uint64_t{1} << *other;
  });
  const bool leads = event.beside == 0 || *index < scheduling::kMostDevicesOfGangs;
  if (!known || !leads) return std::nullopt;
  return place;
}

bool KeptSandboxes::has_room(const Place& place, Bytes memory, const MemoryPlace& where) const {
  const Fleet& fleet = pools_.gpu.fleet();
  if (fleet.device_table().occupants() >= fleet.options().most_sandboxes) return false;
  // What does not move is on its device.
  const bool moves =
      fleet.memory().moves_idle() && (place.beside == 0 || fleet.options().moves_gangs);
  const auto devices = 1 + static_cast<unsigned>(std::popcount(place.beside));
  if (!moves && (where.is_out || where.offloaded > Bytes(0))) return false;
  if (moves && !fleet.memory().has_host_room(where.on_host(memory, devices))) return false;
  bool fits = has_room_on(fleet.devices()[place.device], memory, where);
  scheduling::for_each_device_in(place.beside, [&](uint32_t index) {
    fits = fits && has_room_on(fleet.devices()[index], memory, where);
  });
  return fits;
}

// Beside the others: no sandbox leaves for one that no call waits for.
bool KeptSandboxes::has_room_on(const Device& device, Bytes memory,
                                const MemoryPlace& where) const {
  if (!device.healthy || device.reserved) return false;
  const bool has_context = !(where.is_out && where.deep);
  if (has_context && device.occupants - device.without_context >= device.options.contexts) {
    return false;
  }
  const bool moves = pools_.gpu.fleet().memory().moves_idle();
  // With those that are being stopped: this one does not wait for their end.
  const Bytes held = moves ? device.resident : std::max(device.committed, device.occupied);
  const Bytes promised = moves ? device.promised : Bytes(0);
  return held + promised + where.on_device(memory) <= device.capacity();
}

}  // namespace lambent::dispatch
