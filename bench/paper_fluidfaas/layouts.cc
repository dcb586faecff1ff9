#include "bench/paper_fluidfaas/layouts.h"

#include <algorithm>

#include "bench/paper_fluidfaas/applications.h"
#include "core/base/check.h"

namespace lambent::paper_fluidfaas {
namespace {

using Gpu = std::vector<std::string>;

std::vector<Layout> make_layouts() {
  const Gpu p1 = {"4g.40gb", "2g.20gb", "1g.10gb"};
  const Gpu p2 = {"3g.40gb", "2g.20gb", "2g.20gb"};
  std::vector<Gpu> hybrid = {Gpu(7, "1g.10gb")};
  hybrid.insert(hybrid.end(), 2, {"2g.20gb", "2g.20gb", "2g.20gb", "1g.10gb"});
  hybrid.insert(hybrid.end(), 4, {"3g.40gb", "4g.40gb"});
  hybrid.push_back(p1);
  return {{"P1", std::vector<Gpu>(8, p1)}, {"P2", std::vector<Gpu>(8, p2)}, {"Hybrid", hybrid}};
}

}  // namespace

std::span<const Layout> layouts() {
  static const std::vector<Layout> kLayouts = make_layouts();
  return kLayouts;
}

const Layout& layout_named(const std::string& name) {
  const auto found = std::ranges::find(layouts(), name, &Layout::name);
  CHECK(found != layouts().end(), "no layout of the paper has this name");
  return *found;
}

std::vector<Slice> slices_of(const Layout& layout, unsigned nodes) {
  std::vector<Slice> slices;
  for (uint32_t node = 0; node < nodes; ++node) {
    for (uint32_t gpu = 0; gpu < layout.gpus.size(); ++gpu) {
      for (const std::string& name : layout.gpus[gpu]) {
        Slice slice;
        slice.id = DeviceId(static_cast<uint32_t>(slices.size()));
        slice.node = node;
        slice.gpu = gpu;
        slice.shape = shape_of(name);
        slices.push_back(std::move(slice));
      }
    }
  }
  return slices;
}

}  // namespace lambent::paper_fluidfaas
