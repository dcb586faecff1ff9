// The paper's MIG layouts (its Table 7) for two nodes of eight A100. Values.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "core/domain/slice.h"

namespace lambent::paper_fluidfaas {

struct Layout {
  std::string name;  // "P1", "P2", "Hybrid"
  // Of each of a node's eight GPUs, the names of its slices.
  std::vector<std::vector<std::string>> gpus;
};
std::span<const Layout> layouts();
const Layout& layout_named(const std::string& name);

std::vector<Slice> slices_of(const Layout& layout, unsigned nodes = 2);

}  // namespace lambent::paper_fluidfaas
