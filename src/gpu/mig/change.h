// Change: from the slices that a device has to those that are wanted, with as few of them destroyed
// as can be. A pure function, any thread.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "gpu/mig/layouts.h"

namespace lambent::mig {

struct Change {
  std::vector<Placement> keep, destroy, create;  // ascending by start

  bool operator==(const Change&) const = default;
};

// None: no layout of the family has the wanted profiles beside each other.
std::optional<Change> plan_change(const MigFamily& family, const std::vector<Placement>& current,
                                  std::vector<const MigProfile*> wanted);

// "4g.40gb@0 2g.20gb@4".
std::string text_of(const std::vector<Placement>& layout);

}  // namespace lambent::mig
