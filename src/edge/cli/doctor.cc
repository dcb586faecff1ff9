#include "edge/cli/doctor.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <sstream>

namespace lambent::cli {
namespace {

using Json = nlohmann::ordered_json;

// A worker needs some for functions, their packages and results.
constexpr Bytes kLittleDisk = Bytes::gib(2);
constexpr std::string_view kWeaker = "weaker: ";

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

// What follows "NAME: " in a line of the probe; empty if there is none.
std::string value_in(const std::string& probe, const std::string& name) {
  for (const std::string& line : lines_of(probe)) {
    if (line.starts_with(name + ": ")) return line.substr(name.size() + 2);
  }
  return "";
}

void find_sandboxes(const MachineFacts& facts, std::vector<Finding>& found) {
  if (!facts.sandboxes.ok()) {
    found.push_back({Health::kBad, "sandboxes",
                     "could not be tried: " + facts.sandboxes.error().message,
                     "lambent-launcher belongs beside lambent: install the whole package"});
    return;
  }
  if (!facts.sandboxes_possible) {
    found.push_back({Health::kBad, "sandboxes", value_in(*facts.sandboxes, "sandboxes"),
                     "sysctl user.max_user_namespaces has to be above 0; Ubuntu 24.04 needs an "
                     "AppArmor profile, which the Debian package installs"});
    return;
  }
  found.push_back({Health::kGood, "sandboxes",
                   "can be made, with the rights of " + value_in(*facts.sandboxes, "rights"), ""});
  const size_t before = found.size();
  for (const std::string& line : lines_of(*facts.sandboxes)) {
    if (!line.starts_with(kWeaker)) continue;
    const std::string says = line.substr(kWeaker.size());
    const bool of_cgroups = says.find("cgroup") != std::string::npos;
    found.push_back(
        {Health::kWeaker, "limits", says,
         of_cgroups ? "run the worker as a service with Delegate=yes, or as root" : ""});
  }
  if (found.size() == before) {
    found.push_back(
        {Health::kGood, "limits",
         "memory, processes and CPU are held by cgroup " + value_in(*facts.sandboxes, "cgroup"),
         ""});
  }
}

// What lambent serve takes by itself.
void find_gpus(const MachineFacts& facts, std::vector<Finding>& found) {
  const NvidiaJudgement nvidia = judge(facts.nvidia);
  switch (nvidia.state) {
    case NvidiaState::kUsable:
      found.push_back({Health::kGood, "GPU", nvidia.says, "lambent serve uses them"});
      return;
    case NvidiaState::kAbsent:
      found.push_back({Health::kGood, "GPU", nvidia.says + ": lambent serve uses an emulated one",
                       nvidia.remedy.empty()
                           ? "lambent serve --gpu none is for functions without a GPU"
                           : nvidia.remedy});
      return;
    case NvidiaState::kBroken:
      found.push_back({Health::kBad, "GPU", nvidia.says, nvidia.remedy});
      return;
  }
}

void find_disk(const MachineFacts& facts, std::vector<Finding>& found) {
  if (!facts.state_free.ok()) {
    found.push_back({Health::kBad, "state",
                     facts.state_folder + ": " + facts.state_free.error().message,
                     "choose a folder that you can write to with --state"});
    return;
  }
  const bool is_little = *facts.state_free < kLittleDisk;
  found.push_back({is_little ? Health::kWeaker : Health::kGood, "state",
                   facts.state_folder + " has " + to_string(*facts.state_free) + " free",
                   is_little ? "packages of functions take gigabytes: choose another disk with "
                               "--state"
                             : ""});
}

void find_program(const std::optional<std::string>& version, const std::string& subject,
                  const std::string& lacks, const std::string& remedy,
                  std::vector<Finding>& found) {
  if (version) {
    found.push_back({Health::kGood, subject, *version, ""});
  } else {
    found.push_back({Health::kWeaker, subject, lacks, remedy});
  }
}

// PTX is what a GPU runs that has no machine code in a program; the driver compiles it, and takes
// none that is newer than itself.
void find_ptx(const MachineFacts& facts, std::vector<Finding>& found) {
  if (!facts.nvidia.cuda) return;
  const CudaVersion known = ptx_of(*facts.nvidia.cuda);
  const std::string takes = "the driver takes PTX up to " + to_string(known) + " (CUDA " +
                            to_string(*facts.nvidia.cuda) + ")";
  CudaVersion wanted;
  std::string newer;
  for (const auto& [name, version] : facts.kernel_ptx) {
    wanted = std::max(wanted, version);
    if (version > known) newer += (newer.empty() ? "" : ", ") + name;
  }
  if (facts.kernel_ptx.empty()) {
    found.push_back({Health::kGood, "PTX", takes, ""});
  } else if (newer.empty()) {
    found.push_back(
        {Health::kGood, "PTX", takes + "; Lambent's own kernels need " + to_string(wanted), ""});
  } else {
    found.push_back({Health::kWeaker, "PTX",
                     takes + "; these kernels of Lambent need more: " + newer,
                     "a newer driver; GPUs for which they have machine code run them anyway"});
  }
  const auto nvcc = facts.nvcc ? cuda_version_of(*facts.nvcc) : std::nullopt;
  if (nvcc && ptx_of(*nvcc) > known) {
    found.push_back({Health::kWeaker, "PTX of nvcc",
                     "nvcc " + to_string(*nvcc) + " states " + to_string(ptx_of(*nvcc)) +
                         ", which this driver refuses",
                     "have nvcc make machine code for the GPU, as with -arch=native, or install a "
                     "newer driver"});
  }
}

void find_worker(const MachineFacts& facts, std::vector<Finding>& found) {
  if (facts.worker) {
    found.push_back({Health::kGood, "worker", *facts.worker + " answers at " + facts.endpoint, ""});
  } else if (facts.other_one) {
    found.push_back({Health::kWeaker, "worker",
                     "something else answers at " + facts.endpoint + ": " + *facts.other_one,
                     "start one elsewhere with lambent serve --listen 127.0.0.1:PORT"});
  } else {
    found.push_back(
        {Health::kGood, "worker", "none runs at " + facts.endpoint, "lambent serve starts one"});
  }
}

}  // namespace

std::string_view name_of(Health health) {
  switch (health) {
    case Health::kGood:
      return "good";
    case Health::kWeaker:
      return "weaker";
    case Health::kBad:
      return "bad";
  }
  return "bad";
}

std::vector<Finding> findings_of(const MachineFacts& facts) {
  std::vector<Finding> found;
  find_sandboxes(facts, found);
  find_gpus(facts, found);
  find_disk(facts, found);
  find_program(facts.python, "python3", "is not there: Python functions do not start",
               "apt install python3", found);
  find_program(facts.uv, "uv", "is not there: [python] requirements and models are refused",
               "pip install uv, in a virtual environment: docs/get-started/install.md#uv", found);
  find_program(facts.compiler, "compiler", "is not there: kernels are not compiled",
               "apt install clang", found);
  if (!facts.nvidia.device_files.empty()) {
    find_program(facts.nvcc, "nvcc", "is not there: kernels are compiled for the emulator only",
                 "install NVIDIA's CUDA toolkit", found);
  }
  find_ptx(facts, found);
  find_worker(facts, found);
  return found;
}

int show_findings(Console& console, const std::vector<Finding>& findings) {
  const bool can_run = std::none_of(findings.begin(), findings.end(), [](const Finding& each) {
    return each.health == Health::kBad;
  });
  if (console.json) {
    Json json = {{"can_run", can_run}, {"findings", Json::array()}};
    for (const Finding& each : findings) {
      json["findings"].push_back({{"health", name_of(each.health)},
                                  {"subject", each.subject},
                                  {"says", each.says},
                                  {"remedy", each.remedy}});
    }
    console.out << json.dump(2, ' ', false, Json::error_handler_t::replace) << "\n";
  } else {
    for (const Finding& each : findings) {
      std::string line = std::string(name_of(each.health)) + ": ";
      line.resize(std::max<size_t>(line.size(), 8), ' ');
      console.out << line << each.subject << ": " << each.says << "\n";
      if (!each.remedy.empty()) console.out << "        -> " << each.remedy << "\n";
    }
  }
  return can_run ? 0 : exit_code_of(ErrorCode::kFailedPrecondition);
}

}  // namespace lambent::cli
