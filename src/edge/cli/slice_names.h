// Slices as people name them: "4g.40gb,2*1g.10gb". Pure functions; used by verbs that plan.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.h"
#include "core/domain/slice.h"
#include "gpu/mig/layouts.h"

namespace lambent::cli {

// Profile names of a family of devices, "2*1g.10gb" for two of them; at most 64 in all.
// INVALID_ARGUMENT for a name that the family does not have.
Result<std::vector<const mig::MigProfile*>> parse_profiles(std::string_view text,
                                                           const mig::MigFamily& family);
// The family of that name. INVALID_ARGUMENT, with those that there are.
Result<const mig::MigFamily*> parse_family(std::string_view name);

SliceShape shape_of(const mig::MigProfile& profile);

}  // namespace lambent::cli
