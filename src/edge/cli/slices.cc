#include "edge/cli/slices.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "core/base/json_text.h"
#include "core/base/units.h"
#include "edge/cli/slice_names.h"
#include "edge/cli/text_table.h"

namespace lambent::cli {
namespace {

using Json = nlohmann::ordered_json;
using mig::GpuState;
using mig::InstanceState;
using mig::Placement;

std::string mode_of(const GpuState& gpu) {
  if (!gpu.can) return "none";
  if (gpu.enabled != gpu.pending) return gpu.pending ? "on after a reset" : "off after a reset";
  return gpu.enabled ? "on" : "off";
}

std::string joined(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : " ") + word;
  return text;
}

// What is known of an instance's profile: by the family, else by the device itself.
SliceShape shape_of_instance(const GpuState& gpu, const InstanceState& instance) {
  const mig::MigFamily* family = mig::family_of(gpu.profiles);
  const mig::MigProfile* profile =
      family ? mig::find_profile(*family, instance.profile_id) : nullptr;
  if (profile) return shape_of(*profile);
  SliceShape shape{.name = "profile " + std::to_string(instance.profile_id)};
  for (const mig::ProfileFacts& facts : gpu.profiles) {
    if (facts.id != instance.profile_id) continue;
    shape.multiprocessors = static_cast<unsigned>(facts.multiprocessors);
    shape.memory = Bytes::mib(static_cast<uint64_t>(facts.memory_mib));
  }
  return shape;
}

// How several have one device or one slice at once. No layout tells of these: they come and go with
// who uses it, and only some functions can have them.
struct Sharing {
  const char* name;
  bool memory_isolated, fault_isolated, runs_concurrently;
  const char* used_by;
};
constexpr Sharing kSharing[] = {
    {"processes in turns", true, false, false, "functions with a process of their own"},
    {"clients of MPS", true, false, true, "no function: Lambent starts no MPS"},
    {"green shares", false, false, true,
     "one executor's kernel functions and clients, by gpu.share"},
};

std::string promise(bool memory, bool faults, bool time) {
  std::string text;
  for (const auto& [keeps, name] :
       {std::pair(memory, "memory"), std::pair(faults, "faults"), std::pair(time, "time")}) {
    if (keeps) text += (text.empty() ? "" : ", ") + std::string(name);
  }
  return text.empty() ? "nothing" : text;
}
// Of a slice; of a whole device, which takes turns between the processes that share it.
std::string promise(bool whole, bool isolates) {
  if (!isolates) return "nothing: emulated";
  return promise(true, !whole, !whole);
}

std::string sharing_text(bool isolates) {
  TextTable table({"several on one of them", "keeps apart", "used by"});
  for (const Sharing& each : kSharing) {
    table.add({each.name,
               promise(isolates && each.memory_isolated, isolates && each.fault_isolated,
                       each.runs_concurrently),
               each.used_by});
  }
  return table.str();
}

Json sharing_json(bool isolates) {
  Json list = Json::array();
  for (const Sharing& each : kSharing) {
    list.push_back({{"sharing", each.name},
                    {"memory_isolated", isolates && each.memory_isolated},
                    {"fault_isolated", isolates && each.fault_isolated},
                    {"runs_concurrently", each.runs_concurrently}});
  }
  return list;
}

Json json_of(const std::vector<Placement>& layout) {
  Json list = Json::array();
  for (const Placement& each : layout) {
    list.push_back({{"profile", each.profile->name}, {"start", each.start}});
  }
  return list;
}

// "4g.40gb + 2*1g.10gb", in the order of the list.
std::string counted(const std::vector<const mig::MigProfile*>& profiles) {
  std::string text;
  for (size_t i = 0; i < profiles.size();) {
    size_t end = i;
    while (end < profiles.size() && profiles[end] == profiles[i]) ++end;
    text += text.empty() ? "" : " + ";
    text += (end - i > 1 ? std::to_string(end - i) + "*" : "") + profiles[i]->name;
    i = end;
  }
  return text;
}

}  // namespace

std::string slices_text(const std::vector<GpuState>& gpus, bool isolates) {
  if (gpus.empty()) return "no devices\n";
  TextTable table({"GPU", "slice", "at", ">multiprocessors", ">memory", "keeps apart", "uuid"});
  std::string notes;
  for (const GpuState& gpu : gpus) {
    const std::string number = std::to_string(gpu.index);
    if (!gpu.enabled) {
      table.add({number, gpu.name.empty() ? "(does not answer)" : gpu.name, "", "",
                 to_string(Bytes::mib(gpu.memory_mib)), promise(true, isolates), gpu.uuid});
    }
    for (const InstanceState& instance : gpu.instances) {
      const SliceShape shape = shape_of_instance(gpu, instance);
      table.add({number, shape.name, std::to_string(instance.start),
                 std::to_string(shape.multiprocessors), to_string(shape.memory),
                 promise(false, isolates),
                 instance.uuids.empty() ? "(no compute instance)" : joined(instance.uuids)});
    }
    notes += "GPU " + number + ": MIG " + mode_of(gpu);
    if (gpu.enabled && gpu.instances.empty()) notes += ", not cut: nothing can run on it";
    if (const mig::MigFamily* family = mig::family_of(gpu.profiles)) {
      notes += std::string(", layouts of ") + family->name;
    } else if (gpu.can) {
      notes += ", of a family that is not known here";
    }
    if (!gpu.processes.empty()) {
      std::vector<std::string> pids;
      for (const uint32_t pid : gpu.processes) pids.push_back(std::to_string(pid));
      notes += ", in use by process " + joined(pids);
    }
    notes += "\n";
  }
  return table.str() + "\n" + notes + "\n" + sharing_text(isolates);
}

std::string slices_json(const std::vector<GpuState>& gpus, bool isolates) {
  Json list = Json::array();
  for (const GpuState& gpu : gpus) {
    const mig::MigFamily* family = mig::family_of(gpu.profiles);
    Json slices = Json::array();
    for (const InstanceState& instance : gpu.instances) {
      const SliceShape shape = shape_of_instance(gpu, instance);
      slices.push_back({{"shape", shape.name},
                        {"start", instance.start},
                        {"multiprocessors", shape.multiprocessors},
                        {"memory_bytes", shape.memory.count},
                        {"uuids", instance.uuids},
                        {"memory_isolated", isolates},
                        {"fault_isolated", isolates},
                        {"runs_concurrently", true}});
    }
    Json object = {{"gpu", gpu.index},
                   {"uuid", gpu.uuid},
                   {"name", gpu.name},
                   {"memory_bytes", Bytes::mib(gpu.memory_mib).count},
                   {"mig", mode_of(gpu)},
                   {"family", nullptr},
                   {"processes", gpu.processes},
                   {"slices", slices},
                   {"sharing", sharing_json(isolates)}};
    if (family) object["family"] = family->name;
    list.push_back(std::move(object));
  }
  return json_text(list) + "\n";
}

std::string layouts_text(const mig::MigFamily& family) {
  TextTable table({">#", "slices", "where they begin", ">multiprocessors"});
  size_t number = 0;
  for (const std::vector<Placement>& layout : mig::full_layouts(family, true)) {
    std::vector<const mig::MigProfile*> profiles;
    int multiprocessors = 0;
    for (const Placement& each : layout) {
      profiles.push_back(each.profile);
      multiprocessors += each.profile->multiprocessors;
    }
    table.add({std::to_string(++number), counted(profiles), mig::text_of(layout),
               std::to_string(multiprocessors)});
  }
  return table.str();
}

std::string layouts_json(const mig::MigFamily& family) {
  Json list = Json::array();
  for (const auto& layout : mig::full_layouts(family, true)) list.push_back(json_of(layout));
  return list.dump() + "\n";
}

std::string change_text(const mig::Change& change, bool turn_on) {
  std::string text = turn_on ? "turn on   MIG mode\n" : "";
  const auto tell = [&](const char* what, const std::vector<Placement>& layout) {
    for (const Placement& each : layout) text += what + mig::text_of({each}) + "\n";
  };
  tell("keep      ", change.keep);
  tell("destroy   ", change.destroy);
  tell("create    ", change.create);
  return text.empty() ? "nothing to do\n" : text;
}

std::string change_json(const mig::Change& change, bool turn_on) {
  return Json({{"turn_on", turn_on},
               {"keep", json_of(change.keep)},
               {"destroy", json_of(change.destroy)},
               {"create", json_of(change.create)}})
             .dump() +
         "\n";
}

std::string no_layout(const mig::MigFamily& family,
                      const std::vector<const mig::MigProfile*>& wanted) {
  return std::string("no layout of ") + family.name + " has " + counted(wanted) +
         " beside each other; 'lambent slices plan --family " + family.name + "' shows all";
}

}  // namespace lambent::cli
