// Phases: what a warm invocation of a function does one after the other - on the host, over the
// link, on the device - as a catalogue has it. A value and how a row of text is read into it; pure.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.h"
#include "core/base/units.h"
#include "sim/workload/csv.h"

namespace lambent::workload {

// An invocation does so much of each in `rounds` equal rounds: in each it works on the host, copies
// to the device, runs kernels, and copies back.
struct Phases {
  double host_s = 0;
  Bytes copy_in;
  double kernel_s = 0;
  Bytes copy_out;
  unsigned rounds = 1;
  double occupancy = 1;  // share of the device's multiprocessors that its kernels use
  // Where they were measured, or are guessed for: the device by a part of its name, its link.
  std::string device;
  double link_bytes_per_second = 0;
  std::string source;

  double copies_s() const {
    return static_cast<double>(copy_in.count + copy_out.count) / link_bytes_per_second;
  }
  double total_s() const { return host_s + kernel_s + copies_s(); }
  // The share of a run by itself during which kernels run: what NVML calls utilisation.
  double duty() const { return kernel_s / total_s(); }
  // The same invocation with kernels for so many times as long, at most all that the copies leave,
  // and less of the host or more of it: for asking what a guess decides.
  Phases with_kernels(double times) const;

  bool operator==(const Phases&) const = default;
};

// Refuses a device on which these phases say nothing: FAILED_PRECONDITION with the remedy. The name
// is NVML's.
Result<void> check_device(const Phases& phases, const std::string& function,
                          std::string_view device_name);

// The columns of phases in a catalogue, which has all of them or none.
class PhaseColumns {
 public:
  // INVALID_ARGUMENT if the header has some of them only.
  static Result<PhaseColumns> of(const RowReader& rows, const std::string& file);

  // The phases of a row that takes `warm_s`; nothing where the header has no columns for them, or
  // the row leaves all of them empty. INVALID_ARGUMENT says which field is wrong, or by how much
  // the phases do not add up.
  Result<std::optional<Phases>> parse(const std::vector<std::string_view>& fields,
                                      double warm_s) const;

 private:
  std::vector<size_t> at_;  // by the order of their names; empty: the header has none
};

}  // namespace lambent::workload
