#include "sim/workload/phases.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>

namespace lambent::workload {
namespace {

enum Column { kHost, kIn, kKernel, kOut, kRounds, kOccupancy, kDevice, kLink, kSource, kCount };
constexpr std::array<const char*, kCount> kNames = {
    "host_s",    "copy_in_mib",   "kernel_s",      "copy_out_mib", "rounds",
    "occupancy", "phases_device", "link_gb_per_s", "phases_source"};

constexpr double kMostSeconds = 1e6;
constexpr double kMostMib = 1 << 20;
constexpr double kMostRounds = 10'000;
// By how much the phases may differ from the time of the whole: what rounding in a table makes.
constexpr double kRoundingShare = 0.01;
constexpr double kRounding_s = 0.001;

std::string number_text(double number) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.4g", number);
  return text;
}

std::string seconds_text(double seconds) { return number_text(seconds) + " s"; }

Bytes mib_of(double mib) { return Bytes(static_cast<uint64_t>(std::llround(mib * (1 << 20)))); }

}  // namespace

Phases Phases::with_kernels(double times) const {
  Phases changed = *this;
  changed.kernel_s = std::min(kernel_s * times, total_s() - copies_s());
  changed.host_s = std::max(0.0, total_s() - copies_s() - changed.kernel_s);
  return changed;
}

Result<void> check_device(const Phases& phases, const std::string& function,
                          std::string_view device_name) {
  if (device_name.find(phases.device) != std::string_view::npos) return {};
  return Error{ErrorCode::kFailedPrecondition,
               "the phases of '" + function + "' are of a " + phases.device +
                   " and say nothing of a " + std::string(device_name) +
                   "; name a catalogue with phases of this device (--functions), or run without "
                   "--phases"};
}

Result<PhaseColumns> PhaseColumns::of(const RowReader& rows, const std::string& file) {
  PhaseColumns columns;
  std::string missing;
  for (const char* name : kNames) {
    if (const auto at = rows.column(name)) {
      columns.at_.push_back(*at);
    } else if (missing.empty()) {
      missing = name;
    }
  }
  if (columns.at_.empty() || columns.at_.size() == kCount) return columns;
  return Error{ErrorCode::kInvalidArgument, file + " has columns of phases, but not '" + missing +
                                                "'; give all of them or none"};
}

Result<std::optional<Phases>> PhaseColumns::parse(const std::vector<std::string_view>& fields,
                                                  double warm_s) const {
  const auto field = [&](Column column) { return fields[at_[column]]; };
  if (at_.empty() || std::ranges::all_of(at_, [&](size_t at) { return fields[at].empty(); })) {
    return std::optional<Phases>();
  }
  std::string wrong;
  const auto number = [&](Column column, double least, double most) {
    const auto value = number_of(field(column));
    // Written so that NaN fails too.
    if (value && *value >= least && *value <= most) return *value;
    if (wrong.empty()) {
      wrong = std::string(kNames[column]) + " is '" + std::string(field(column).substr(0, 40)) +
              "', not a number from " + number_text(least) + " to " + number_text(most);
    }
    return least;
  };
  Phases phases{.host_s = number(kHost, 0, kMostSeconds),
                .copy_in = mib_of(number(kIn, 0, kMostMib)),
                .kernel_s = number(kKernel, 0, kMostSeconds),
                .copy_out = mib_of(number(kOut, 0, kMostMib)),
                .rounds = static_cast<unsigned>(number(kRounds, 1, kMostRounds)),
                .occupancy = number(kOccupancy, 1e-3, 1),
                .device = std::string(field(kDevice)),
                .link_bytes_per_second = 1e9 * number(kLink, 1e-3, 1e6),
                .source = std::string(field(kSource))};
  if (wrong.empty() && phases.device.empty()) wrong = "phases_device is empty";
  if (wrong.empty() &&
      std::abs(phases.total_s() - warm_s) > std::max(kRounding_s, kRoundingShare * warm_s)) {
    wrong = "the phases add up to " + seconds_text(phases.total_s()) + " (host " +
            seconds_text(phases.host_s) + ", copies " + seconds_text(phases.copies_s()) +
            ", kernels " + seconds_text(phases.kernel_s) + ") and gpu_warm_s is " +
            seconds_text(warm_s) + ": make them parts of it";
  }
  if (!wrong.empty()) return Error{ErrorCode::kInvalidArgument, wrong};
  return std::optional(phases);
}

}  // namespace lambent::workload
