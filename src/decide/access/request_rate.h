// RequestRate: how many requests a tenant may send: a token bucket that holds one second's worth.
// Pure; owned by node/tenants, on the loop thread.
#pragma once

#include <cstdint>
#include <optional>

#include "core/base/time.h"

namespace lambent::access {

// Since the start: those that came, and those that were taken.
struct RequestCounts {
  uint64_t asked = 0;
  uint64_t taken = 0;
};

class RequestRate {
 public:
  // Above 0; none: there is no limit. What is in the bucket stays, up to the new size.
  void set(std::optional<double> per_second, Instant now);

  // Takes a request if one is left; otherwise how long it takes until one is.
  std::optional<Duration> take(Instant now);
  // While there is a limit.
  const RequestCounts& counts() const { return counts_; }

 private:
  double size() const;
  void fill(Instant now);

  std::optional<double> per_second_;
  double left_ = 0;
  Instant filled_{};
  RequestCounts counts_;
};

}  // namespace lambent::access
