// Spreading: where inside a minute the arrivals lie of which a trace only tells the number.
// Pure; used by the reader of minute-granular traces.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/random.h"
#include "core/base/time.h"

namespace lambent::workload {

enum class Spreading {
  kUniform,      // each at an instant of its own, uniform over the minute
  kEquidistant,  // a minute / n apart, the first after a random part of that gap
  kPoisson,      // exponential gaps of mean minute / n: the number is right on average only
};
std::optional<Spreading> spreading_from_name(std::string_view name);
std::string_view name_of(Spreading spreading);
// What that means for counts of such an interval, for the user.
std::string words_of(Spreading spreading, Duration interval, uint64_t seed);

// Appends the instants, from the start of the minute and in no order, of `count` arrivals in
// `minute`.
void spread(Spreading how, uint64_t count, Duration minute, Random& random,
            std::vector<Duration>& instants);

// Exponentially distributed with that mean.
double exponential(double mean, Random& random);

}  // namespace lambent::workload
