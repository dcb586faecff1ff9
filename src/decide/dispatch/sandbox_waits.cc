#include "decide/dispatch/sandbox_waits.h"

#include <algorithm>

namespace lambent::dispatch {

using scheduling::SandboxSlot;

std::optional<SandboxSlot> SandboxWaits::last_planned_on(uint32_t device) const {
  const auto last = std::find_if(planned_.rbegin(), planned_.rend(), [&](SandboxSlot slot) {
    return fleet_.sandbox(slot).is_on(device);
  });
  return last == planned_.rend() ? std::nullopt : std::optional(*last);
}

bool SandboxWaits::waits_to_run(SandboxSlot slot) const {
  return std::find(ready_.begin(), ready_.end(), slot) != ready_.end();
}

void SandboxWaits::archive(StateArchive& archive) {
  const std::vector<SandboxSlot>& all = fleet_.all();
  for (std::vector<SandboxSlot>* list : {&planned_, &ready_}) {
    archive.list(*list);
    for (const SandboxSlot slot : *list) {
      archive.expect(std::find(all.begin(), all.end(), slot) != all.end());
    }
  }
}

}  // namespace lambent::dispatch
