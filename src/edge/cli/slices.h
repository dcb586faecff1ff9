// lambent slices: what is shown of devices and of how they could be cut. Pure functions from values
// to text or JSON; the program lambent-slices reads and changes the devices.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "gpu/mig/change.h"
#include "gpu/mig/state.h"

namespace lambent::cli {

// All devices with their slices. `isolates` is false for emulated ones, which only look alike.
std::string slices_text(const std::vector<mig::GpuState>& gpus, bool isolates);
std::string slices_json(const std::vector<mig::GpuState>& gpus, bool isolates);

// Every full layout of the family, with where each slice begins.
std::string layouts_text(const mig::MigFamily& family);
std::string layouts_json(const mig::MigFamily& family);

// What a change does to a device, line by line; `turn_on`: MIG mode is turned on first.
std::string change_text(const mig::Change& change, bool turn_on);
std::string change_json(const mig::Change& change, bool turn_on);

// Why the wanted slices fit no layout: "no layout of a100-80gb has 2*4g.40gb beside each other;
// 'lambent slices plan --family a100-80gb' shows all".
std::string no_layout(const mig::MigFamily& family,
                      const std::vector<const mig::MigProfile*>& wanted);

}  // namespace lambent::cli
