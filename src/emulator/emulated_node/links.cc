#include "emulator/emulated_node/links.h"

#include <algorithm>

namespace lambent::emulated_node {

void initialise(Links& links) {
  for (int i = 0; i < 2; i++) {
    links.host[i] = {0, 0, kNoProcess, 0};
    links.peer[i] = {0, 0, kNoProcess, 0};
  }
}

int64_t occupy(LinkClock& first, LinkClock* second, uint64_t bytes, double bytes_per_s,
               int64_t begin_ns, uint32_t process) {
  int64_t start_ns = std::max(begin_ns, first.free_ns);
  if (second) start_ns = std::max(start_ns, second->free_ns);
  int64_t end_ns = start_ns + static_cast<int64_t>(static_cast<double>(bytes) / bytes_per_s * 1e9);
  for (LinkClock* engine : {&first, second}) {
    if (!engine) continue;
    engine->before_last_ns = engine->free_ns;
    engine->last_process = process;
    engine->free_ns = end_ns;
    engine->bytes += bytes;
  }
  return end_ns;
}

void give_up(Links& links, uint32_t process, int64_t now_ns) {
  for (LinkClock* engine : {&links.host[0], &links.host[1], &links.peer[0], &links.peer[1]}) {
    if (engine->last_process != process) continue;
    engine->free_ns = std::min(engine->free_ns, std::max(now_ns, engine->before_last_ns));
    engine->last_process = kNoProcess;
  }
}

Way way_between(const NodeSpec& spec, int device, int peer) {
  bool devices = device >= 0 && device < spec.device_count && peer >= 0 && peer < spec.device_count;
  if (!devices || device == peer) return Way::kStaged;
  if (spec.topology.nvlink_peers[device] >> peer & 1) return Way::kNvlink;
  return spec.topology.pcie_peers ? Way::kPcie : Way::kStaged;
}

}  // namespace lambent::emulated_node
