// Links: copies between hosts and GPUs that share what links give. Virtual time; used by the
// simulated machine, one thread.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "core/base/time.h"
#include "core/base/units.h"

namespace lambent::slice_simulator {

class Links {
 public:
  using PortId = size_t;
  using CopyId = uint64_t;

  // A place that several copies go through; they get equal shares of its rate (above 0).
  PortId add_port(double gb_per_s);

  // A copy through these ports that never goes faster than `gb_per_s`. It is as fast as the
  // narrowest of its shares allows; what it leaves of the others is not given to anybody.
  CopyId start(Bytes bytes, double gb_per_s, std::vector<PortId> ports, Instant now);
  void cancel(CopyId copy, Instant now);

  // When the next copy is done if nothing changes; none: there is no copy.
  std::optional<Instant> next() const { return next_; }
  // Those that are done by `now`, by id; they are gone. `now` never runs backwards.
  std::vector<CopyId> finished(Instant now);

 private:
  struct Port {
    double bytes_per_s = 0;
    size_t copies = 0;
  };
  struct Copy {
    double left_bytes = 0;
    double most_bytes_per_s = 0;
    double bytes_per_s = 0;
    std::vector<PortId> ports;
  };
  void advance(Instant now);
  void share();

  std::vector<Port> ports_;
  std::map<CopyId, Copy> copies_;
  CopyId last_ = 0;
  Instant now_{};
  std::optional<Instant> next_;
};

}  // namespace lambent::slice_simulator
