#include "decide/scheduling/fleet_options.h"

namespace lambent::scheduling {
namespace {

void archive_device_options(StateArchive& archive, DeviceOptions& device) {
  archive.field(device.id);
  archive.field(device.memory);
  archive.field(device.tokens);
  archive.field(device.contexts);
  archive.field(device.memory_moves);
  bool by_utilisation = device.by_utilisation.has_value();
  archive.field(by_utilisation);
  if (archive.reading() && by_utilisation) device.by_utilisation.emplace();
  if (!device.by_utilisation) return;
  archive.field(device.by_utilisation->threshold);
  archive.field(device.by_utilisation->most);
}

}  // namespace

void archive(StateArchive& archive, FleetOptions& options) {
  archive.list(options.devices,
               [&](DeviceOptions& device) { archive_device_options(archive, device); });
  archive.field(options.most_sandboxes);
  archive.choice(options.memory_rule, MemoryRule::kMoveEarly);
  archive.field(options.prefetch);
  archive.field(options.host_memory);
  archive.choice(options.eviction, EvictionRule::kWorth);
  archive.field(options.guesses.gap);
  archive.field(options.guesses.cold_start);
  archive.field(options.starts_outside_tokens);
  archive.field(options.move_grace_period);
  archive.field(options.second_grace_period);
}

void archive(StateArchive& archive, ForesightOptions& options) {
  archive.field(options.starts_ahead);
  archive.field(options.window);
  archive.field(options.horizon);
  archive.field(options.look_again);
}

}  // namespace lambent::scheduling
