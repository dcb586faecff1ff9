// The verbs of emulated-gpu that change a node: MIG, MPS, faults and resets.
#include "emulator/emulated_node/emulated_gpu.h"

#include <cstdio>
#include <cstring>

namespace lambent::emulated_node {

namespace {

int fail(const std::string& why) {
  std::fprintf(stderr, "emulated-gpu: %s\n", why.c_str());
  return 1;
}

int answer(MigResult result) {
  switch (result) {
    case MigResult::kDone:
      return 0;
    case MigResult::kNotSupported:
      return fail("the device has no MIG, or is not in MIG mode ('mig on')");
    case MigResult::kInvalid:
      return fail("there is no such profile or start");
    case MigResult::kNotFound:
      return fail("there is no such instance");
    case MigResult::kNoRoom:
      return fail("there is no room for it beside the other instances");
    case MigResult::kInUse:
      return fail("it is in use");
  }
  return 1;
}

int list(Node& node, Node::Guard& guard, int device) {
  for (int partition : guard.partitions()) {
    int slot = slot_of_partition(partition);
    if (slot < 0 || device_of_partition(partition) != device) continue;
    const MigState& mig = guard->devices[device].mig;
    const GpuInstance& gpu = mig.gpu[mig.compute[slot].gpu_slot];
    char raw[16];
    std::printf("%s  %s  GPU instance %u at slice %d, compute instance %u\n",
                node.device_uuid(partition, raw).c_str(), guard.spec_of(partition).name, gpu.id,
                gpu.start, mig.compute[slot].id);
  }
  return 0;
}

int layouts(const MigFamily& family) {
  for (const auto& layout : full_layouts(family, true)) {
    std::string text;
    for (const Placement& placement : layout) {
      text += (text.empty() ? "" : " ") + std::string(placement.profile->name) + "@" +
              std::to_string(placement.start);
    }
    std::printf("%s\n", text.c_str());
  }
  return 0;
}

int create(Node& node, Node::Guard& guard, int device, const std::string& text) {
  Placement placement;
  if (!parse_placement(*node.mig_family(), text, &placement)) return answer(MigResult::kInvalid);
  int slot = -1;
  MigResult result = guard.add_mig_device(device, placement.profile->id, placement.start, &slot);
  if (result != MigResult::kDone) return answer(result);
  char raw[16];
  std::printf("%s\n", node.device_uuid(partition_of(device, slot), raw).c_str());
  return 0;
}

// With the compute instance goes its GPU instance, if it was the last in it.
int destroy(Node& node, Node::Guard& guard, const std::string& uuid) {
  for (int partition : guard.partitions()) {
    char raw[16];
    int device = device_of_partition(partition), slot = slot_of_partition(partition);
    if (slot < 0 || node.device_uuid(partition, raw) != uuid) continue;
    MigState& mig = guard->devices[device].mig;
    int gpu_slot = static_cast<int>(mig.compute[slot].gpu_slot);
    MigResult result = guard.remove_compute_instance(device, slot);
    if (result == MigResult::kDone) destroy_gpu_instance(mig, gpu_slot);
    return answer(result);
  }
  return answer(MigResult::kNotFound);
}

std::optional<int> change_mig(Node& node, const Arguments& arguments) {
  const auto& words = arguments.words;
  std::string what = words.empty() ? "" : words[0];
  const MigFamily* family = node.mig_family();
  if (!family) return answer(MigResult::kNotSupported);
  if (what == "layouts" && words.size() == 1) return layouts(*family);
  Node::Guard guard(node);
  int device = arguments.device;
  if (what == "on" && words.size() == 1) return answer(guard.set_mig_mode(device, true));
  if (what == "off" && words.size() == 1) return answer(guard.set_mig_mode(device, false));
  if (what == "list" && words.size() == 1) return list(node, guard, device);
  if (what == "create" && words.size() == 2) return create(node, guard, device, words[1]);
  if (what == "destroy" && words.size() == 2) return destroy(node, guard, words[1]);
  return std::nullopt;
}

// Faults of devices strike at once; those of calls are for the processes that start from now on.
int plan_faults(Node& node, const std::string& text) {
  std::vector<Fault> plan;
  std::string error, kept;
  if (text != "none" && !parse_fault_plan(text, &plan, &error)) return fail(error);
  Node::Guard guard(node);
  if (text == "none") {
    guard->fault_plan[0] = '\0';
    return 0;
  }
  for (const Fault& fault : plan) {
    if (fault.call.empty() && !guard.strike(fault)) {
      return fail("there is no device " + std::to_string(fault.device));
    }
  }
  bool calls = false;
  for (const Fault& fault : plan) calls = calls || !fault.call.empty();
  if (!calls) return 0;
  kept = std::string(guard->fault_plan) + text + "\n";
  for (const Fault& fault : plan) {
    if (fault.call.empty()) return fail("a plan strikes devices at once or calls, not both");
  }
  if (kept.size() > kMaxFaultPlanBytes) return fail("the plan of the node is full");
  std::snprintf(guard->fault_plan, sizeof guard->fault_plan, "%s", kept.c_str());
  return 0;
}

}  // namespace

std::optional<int> change(const Arguments& arguments) {
  bool known = false;
  for (const char* verb : {"mig", "mps", "fault", "reset"}) known = known || arguments.verb == verb;
  if (!known) return std::nullopt;
  auto node = open_existing(arguments);
  if (!node) return 1;
  if (arguments.device >= node->spec().device_count) return fail("there is no such device");
  const auto& words = arguments.words;
  if (arguments.verb == "mig") return change_mig(*node, arguments);
  if (arguments.verb == "mps" && words.size() == 1 && (words[0] == "on" || words[0] == "off")) {
    Node::Guard(*node)->mps_enabled = words[0] == "on";
    return 0;
  }
  if (arguments.verb == "fault" && words.size() == 1) return plan_faults(*node, words[0]);
  if (arguments.verb == "reset" && words.empty()) {
    Fault reset;
    reset.action = FaultAction::kReset;
    reset.device = arguments.device;
    return Node::Guard(*node).strike(reset) ? 0 : 1;
  }
  return std::nullopt;
}

}  // namespace lambent::emulated_node
