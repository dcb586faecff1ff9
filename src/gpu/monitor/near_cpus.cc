#include "gpu/monitor/near_cpus.h"

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <limits>

#include "core/base/fd.h"

namespace lambent::monitor {
namespace {

constexpr size_t kMostOfFile = 4096;
constexpr size_t kDomainDigits = 4;  // the kernel's; NVML writes eight

std::string first_line(const std::string& path) {
  const auto text = read_file(path, kMostOfFile);
  return text.ok() ? text->substr(0, text->find('\n')) : "";
}

}  // namespace

std::string cpu_list_of(std::span<const unsigned long> set) {
  constexpr size_t kBits = std::numeric_limits<unsigned long>::digits;
  const auto has = [&](size_t processor) {
    return processor < set.size() * kBits &&
           (set[processor / kBits] >> (processor % kBits) & 1) != 0;
  };
  std::string list;
  for (size_t first = 0; first < set.size() * kBits; ++first) {
    if (!has(first)) continue;
    size_t last = first;
    while (has(last + 1)) ++last;
    list += (list.empty() ? "" : ",") + std::to_string(first);
    if (last > first) list += "-" + std::to_string(last);
    first = last;
  }
  return list;
}

std::string near_cpus_by_sysfs(const std::string& sysfs, const std::string& bus_id) {
  const size_t colon = bus_id.find(':');
  if (colon == std::string::npos || bus_id.find('/') != std::string::npos) return "";
  std::string name = bus_id.substr(colon > kDomainDigits ? colon - kDomainDigits : 0);
  std::transform(name.begin(), name.end(), name.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  const std::string folder = sysfs + "/bus/pci/devices/" + name;
  const std::string node = first_line(folder + "/numa_node");
  if (node.empty() || node.starts_with('-')) return "";
  return first_line(folder + "/local_cpulist");
}

}  // namespace lambent::monitor
