// KeptSandboxes: sandboxes that stay when a worker becomes another program: what is written down of
// them, and the descriptors that it names. A value that is moved; used by SandboxHost and main.
#pragma once

#include <optional>
#include <utility>
#include <vector>

#include "core/base/fd.h"
#include "node/worker/kept_record.h"

namespace lambent::worker {

struct KeptSandboxes {
  KeptRecord record;
  std::vector<OwnedFd> descriptors;

  // Invalid for none.
  OwnedFd take(DescriptorNumber number) { return std::move(descriptors[number]); }
  OwnedFd take(const std::optional<DescriptorNumber>& number) {
    return number ? std::move(descriptors[*number]) : OwnedFd();
  }
  std::vector<OwnedFd> take(const std::vector<DescriptorNumber>& numbers) {
    std::vector<OwnedFd> all;
    for (const DescriptorNumber number : numbers) all.push_back(std::move(descriptors[number]));
    return all;
  }
};

}  // namespace lambent::worker
