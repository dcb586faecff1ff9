// Where intermediate objects of workflows lie on a node with several devices: they fill the memory
// that running functions leave idle, and leave before those need it. Pure; used by
// workers and by the model of the evaluation.
//
// The three rules of the StreamBox paper, section 6.2: who reads an object from another device gets
// it moved there; the devices are kept even; the larger object goes first.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "core/base/units.h"
#include "decide/scheduling/pool_scaling.h"

namespace lambent::scheduling {

constexpr uint32_t kHost = UINT32_MAX;  // in place of a device: host memory

struct StoreOptions {
  // So far ahead the need of running functions is looked at: moving 200 MB over PCIe takes about
  // as long.
  Duration look_ahead = milliseconds(20);
  // Of what functions leave idle, what objects may take; the rest is for functions that come.
  double share_of_idle = 0.8;
  // Without it, functions get only what they use at this moment, and objects are in their way.
  bool aware_of_pressure = true;
  // Without it, what has to leave a device goes to the host, and a remote reader pulls nothing.
  bool adaptive_movement = true;
};

// What the functions on a device are taken to need: what they use now, or with awareness of
// pressure the most until the look-ahead has passed.
Bytes functions_need(const StoreOptions& options, std::span<const RunningFunction> functions);

struct StoreDevice {
  Bytes memory;
  Bytes needed;  // by functions: functions_need() and whatever else is not for objects
  std::vector<uint32_t> neighbours;  // devices reached without the host
};
struct StoredObject {
  Bytes size;
  uint32_t place = kHost;
  bool in_use = false;    // it is read, written or moved: it stays
  uint64_t last_use = 0;  // larger is later
  // The same object lies on another device too: this copy is evicted first, and need go nowhere.
  bool spare = false;
  // The devices that could take it, a bit each by index; those above 63 never can.
  uint64_t may_lie = ~uint64_t{0};
};
// Indices of devices and objects are those of these lists. Small: a look takes time proportional to
// the objects.
struct StoreView {
  std::span<const StoreDevice> devices;
  std::span<const StoredObject> objects;
};

struct StoreMove {
  uint32_t object = 0;
  uint32_t from = kHost;
  uint32_t to = kHost;

  bool operator==(const StoreMove&) const = default;
};

// What objects may take of this device, and what they take.
Bytes room_for_objects(const StoreOptions& options, const StoreDevice& device);
Bytes taken_by_objects(const StoreView& view, uint32_t device);

// Where an object that is made on `device` goes: there if there is room, else to the neighbour with
// the least pressure that has room, else to the host.
uint32_t place_for_new(const StoreOptions& options, const StoreView& view, uint32_t device,
                       Bytes size);

// Whether an object that a function on `reader` asks for moves there first. None: it is there, is
// in use, or the device has no room; it is then read from where it lies.
std::optional<StoreMove> pull(const StoreOptions& options, const StoreView& view, uint32_t object,
                              uint32_t reader);

// What has to leave the device, in this order, so that the objects left fit. Spare copies go before
// others, the largest first, of equal ones the least recently used; each to the neighbour with the
// least pressure that may take it and has room after the moves before, else to the host, where
// spare copies are taken to be already. What is in use stays, though then it may not be enough.
std::vector<StoreMove> relieve(const StoreOptions& options, const StoreView& view, uint32_t device);

}  // namespace lambent::scheduling
