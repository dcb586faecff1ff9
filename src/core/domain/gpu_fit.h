// GpuFit: whether GPUs have what a function takes of them. Pure.
#pragma once

#include <algorithm>
#include <vector>

#include "core/base/units.h"

namespace lambent {

// `gpus`: what each has for a function. Whether `count` of them have `memory` each.
inline bool have_room(const std::vector<Bytes>& gpus, Bytes memory, unsigned count) {
  return std::ranges::count_if(gpus, [memory](Bytes gpu) { return memory <= gpu; }) >=
         static_cast<int64_t>(count);
}

}  // namespace lambent
