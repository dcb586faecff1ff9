// RequestRate: how many requests a tenant may send: a token bucket that holds one second's worth.
// Pure; owned by node/tenants, on the loop thread.
#pragma once

#include <optional>

#include "core/base/time.h"

namespace lambent::access {

class RequestRate {
 public:
  // Above 0; none: there is no limit. What is in the bucket stays, up to the new size.
  void set(std::optional<double> per_second, Instant now);

  // Takes a request if one is left; otherwise how long it takes until one is.
  std::optional<Duration> take(Instant now);

 private:
  double size() const;
  void fill(Instant now);

  std::optional<double> per_second_;
  double left_ = 0;
  Instant filled_{};
};

}  // namespace lambent::access
