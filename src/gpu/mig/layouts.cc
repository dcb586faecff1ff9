#include "gpu/mig/layouts.h"

#include <algorithm>
#include <cstdlib>

namespace lambent::mig {

namespace {

constexpr uint32_t starts(std::initializer_list<int> list) {
  uint32_t bits = 0;
  for (int start : list) bits |= 1u << start;
  return bits;
}

constexpr uint32_t kOne = starts({0, 1, 2, 3, 4, 5, 6}), kPair = starts({0, 2, 4, 6}),
                   kTwo = starts({0, 2, 4}), kThree = starts({0, 4}), kFront = starts({0});

// Columns: id, kind, name, slices, memory slices, multiprocessors, MiB, copy engines, decoders,
// encoders, JPEG, OFA, most, starts, media extensions.
const MigFamily kFamilies[] = {
    {"a100-40gb",
     14,
     {{19, 0, "1g.5gb", 1, 1, 14, 4864, 1, 0, 0, 0, 0, 7, kOne, false},
      {20, 7, "1g.5gb+me", 1, 1, 14, 4864, 1, 1, 0, 1, 1, 1, kOne, true},
      {15, 9, "1g.10gb", 1, 2, 14, 9984, 1, 1, 0, 0, 0, 4, kPair, false},
      {14, 1, "2g.10gb", 2, 2, 28, 9984, 2, 1, 0, 0, 0, 3, kTwo, false},
      {9, 2, "3g.20gb", 3, 4, 42, 20096, 3, 2, 0, 0, 0, 2, kThree, false},
      {5, 3, "4g.20gb", 4, 4, 56, 20096, 4, 2, 0, 0, 0, 1, kFront, false},
      {0, 4, "7g.40gb", 7, 8, 98, 40448, 7, 5, 0, 1, 1, 1, kFront, false}}},
    {"a100-80gb",
     14,
     {{19, 0, "1g.10gb", 1, 1, 14, 9728, 1, 0, 0, 0, 0, 7, kOne, false},
      {20, 7, "1g.10gb+me", 1, 1, 14, 9728, 1, 1, 0, 1, 1, 1, kOne, true},
      {15, 9, "1g.20gb", 1, 2, 14, 19968, 1, 1, 0, 0, 0, 4, kPair, false},
      {14, 1, "2g.20gb", 2, 2, 28, 19968, 2, 1, 0, 0, 0, 3, kTwo, false},
      {9, 2, "3g.40gb", 3, 4, 42, 40192, 3, 2, 0, 0, 0, 2, kThree, false},
      {5, 3, "4g.40gb", 4, 4, 56, 40192, 4, 2, 0, 0, 0, 1, kFront, false},
      {0, 4, "7g.80gb", 7, 8, 98, 80640, 7, 5, 0, 1, 1, 1, kFront, false}}},
    {"h100-80gb",
     16,
     {{19, 0, "1g.10gb", 1, 1, 16, 9984, 1, 1, 0, 1, 0, 7, kOne, false},
      {20, 7, "1g.10gb+me", 1, 1, 16, 9984, 1, 1, 0, 1, 1, 1, kOne, true},
      {15, 9, "1g.20gb", 1, 2, 26, 20096, 1, 1, 0, 1, 0, 4, kPair, false},
      {14, 1, "2g.20gb", 2, 2, 32, 20096, 2, 2, 0, 2, 0, 3, kTwo, false},
      {9, 2, "3g.40gb", 3, 4, 60, 40448, 3, 3, 0, 3, 0, 2, kThree, false},
      {5, 3, "4g.40gb", 4, 4, 64, 40448, 4, 4, 0, 4, 0, 1, kFront, false},
      {0, 4, "7g.80gb", 7, 8, 132, 81152, 8, 7, 0, 7, 1, 1, kFront, false}}},
    // The memory of an H200's instances is its eighths less what each keeps back: near the guide's
    // figures, not taken from a device.
    {"h200",
     16,
     {{19, 0, "1g.18gb", 1, 1, 16, 16384, 1, 1, 0, 1, 0, 7, kOne, false},
      {20, 7, "1g.18gb+me", 1, 1, 16, 16384, 1, 1, 0, 1, 1, 1, kOne, true},
      {15, 9, "1g.35gb", 1, 2, 26, 33280, 1, 1, 0, 1, 0, 4, kPair, false},
      {14, 1, "2g.35gb", 2, 2, 32, 33280, 2, 2, 0, 2, 0, 3, kTwo, false},
      {9, 2, "3g.71gb", 3, 4, 60, 71424, 3, 3, 0, 3, 0, 2, kThree, false},
      {5, 3, "4g.71gb", 4, 4, 64, 71424, 4, 4, 0, 4, 0, 1, kFront, false},
      {0, 4, "7g.141gb", 7, 8, 132, 143104, 8, 7, 0, 7, 1, 1, kFront, false}}},
};

uint32_t slices_of(const Placement& placement) {
  return ((1u << placement.profile->memory_slices) - 1) << placement.start;
}

bool fits(const std::vector<Placement>& layout, const Placement& one) {
  uint32_t taken = 0;
  int same = 1, slices = one.profile->slices;
  bool extensions = false;
  for (const Placement& other : layout) {
    taken |= slices_of(other);
    same += other.profile == one.profile;
    slices += other.profile->slices;
    extensions = extensions || other.profile->media_extensions;
  }
  bool may_start =
      one.start >= 0 && one.start < kMemorySlices && (one.profile->starts & (1u << one.start));
  return may_start && !(taken & slices_of(one)) && same <= one.profile->most &&
         slices <= kComputeSlices && !(extensions && one.profile->media_extensions);
}

// Adds every layout that has `layout` and, behind it, profiles at later slices.
void extend(const MigFamily& family, std::vector<Placement>& layout, int from,
            std::vector<std::vector<Placement>>* out) {
  for (int start = from; start < kMemorySlices; start++) {
    for (const MigProfile& profile : family.profiles) {
      Placement next{&profile, start};
      if (!fits(layout, next)) continue;
      layout.push_back(next);
      out->push_back(layout);
      extend(family, layout, start + 1, out);
      layout.pop_back();
    }
  }
}

bool is_basic(const MigProfile& profile) { return !profile.media_extensions && profile.kind != 9; }

}  // namespace

const MigFamily* find_mig_family(std::string_view name) {
  for (const MigFamily& family : kFamilies) {
    if (name == family.name) return &family;
  }
  return nullptr;
}

const MigProfile* find_profile(const MigFamily& family, int id) {
  for (const MigProfile& profile : family.profiles) {
    if (profile.id == id) return &profile;
  }
  return nullptr;
}

const MigProfile* find_profile(const MigFamily& family, std::string_view name) {
  for (const MigProfile& profile : family.profiles) {
    if (name == profile.name) return &profile;
  }
  return nullptr;
}

bool valid_layout(const MigFamily&, const std::vector<Placement>& layout) {
  std::vector<Placement> placed;
  for (const Placement& placement : layout) {
    if (!fits(placed, placement)) return false;
    placed.push_back(placement);
  }
  return true;
}

std::vector<int> free_starts(const MigFamily&, const std::vector<Placement>& layout,
                             const MigProfile& profile) {
  std::vector<int> found;
  for (int start = 0; start < kMemorySlices; start++) {
    if (fits(layout, {&profile, start})) found.push_back(start);
  }
  return found;
}

std::vector<std::vector<Placement>> all_layouts(const MigFamily& family) {
  std::vector<std::vector<Placement>> layouts;
  std::vector<Placement> layout;
  extend(family, layout, 0, &layouts);
  return layouts;
}

std::vector<std::vector<Placement>> full_layouts(const MigFamily& family, bool basic) {
  std::vector<std::vector<Placement>> layouts = all_layouts(family);
  auto counts = [&](const MigProfile& profile) { return !basic || is_basic(profile); };
  std::erase_if(layouts, [&](const std::vector<Placement>& layout) {
    for (const Placement& placement : layout) {
      if (!counts(*placement.profile)) return true;
    }
    for (const MigProfile& profile : family.profiles) {
      if (counts(profile) && !free_starts(family, layout, profile).empty()) return true;
    }
    return false;
  });
  return layouts;
}

bool parse_placement(const MigFamily& family, std::string_view text, Placement* placement) {
  size_t at = text.find('@');
  placement->profile = find_profile(family, text.substr(0, at));
  placement->start = -1;
  if (at == text.npos) return placement->profile != nullptr;
  std::string_view start = text.substr(at + 1);
  if (start.size() != 1 || start[0] < '0' || start[0] > '7') return false;
  placement->start = start[0] - '0';
  return placement->profile != nullptr && (placement->profile->starts & (1u << placement->start));
}

}  // namespace lambent::mig
