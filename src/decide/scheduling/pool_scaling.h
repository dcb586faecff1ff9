// How large the pool for temporaries of a shared GPU runtime should be, from what the functions
// that run there will need next. Pure; used by executors and by the model of the evaluation.
//
// Algorithm 1 of the StreamBox paper by its meaning; its listing errs three times. Line 7 takes the
// maximum with a kernel that it does not name, where the kernel of the loop is meant. m_next is set
// to zero once for all functions, where each has its own maximum, to be added up. And line 11's
// difference is negative when the pool must grow; here growing and shrinking have names.
#pragma once

#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "core/domain/memory_profile.h"

namespace lambent::scheduling {

// Profiles of one model, by the batch and the bytes of one input.
class ProfileTable {
 public:
  // One with the same batch and input is replaced.
  void add(uint32_t batch, Bytes input, MemoryProfile profile);
  // The smallest batch, then the smallest input, that hold what is asked for; null if none does.
  const MemoryProfile* find(uint32_t batch, Bytes input) const;

 private:
  struct Entry {
    uint32_t batch;
    Bytes input;
    MemoryProfile profile;
  };
  std::vector<Entry> entries_;  // ascending
};

enum class PoolRule : uint8_t {
  kResilient,    // grows ahead of the demand and shrinks with it
  kFineGrained,  // as the first, but what it has once it keeps
  kStatic,       // all of a function's variables at once, and what it has once it keeps
};
std::string_view name_of(PoolRule rule);  // "resilient", "fine-grained", "static"

struct PoolOptions {
  PoolRule rule = PoolRule::kResilient;
  // Between two looks at the demand twice this passes at most; see scaling_interval().
  Duration interval = milliseconds(10);
  // Sizes are multiples of it, as the driver gives memory out.
  Bytes granule = Bytes::mib(2);
  // The pool is never smaller than `least`, to begin with too, and never larger than `most`.
  Bytes least;
  Bytes most = Bytes(UINT64_MAX);
};

// T_interval of the paper: what it costs to allocate 200 MB and to free them, both measured where
// the pool is. Not less than a millisecond, for who looks more often has no time for anything else.
Duration scaling_interval(Duration allocate_200_mb, Duration free_200_mb);
// Between two looks lies half of the interval, so that growing is done when it is needed.
constexpr Duration scaling_period(Duration interval) { return interval / 2; }

// A request in its run.
struct RunningFunction {
  const MemoryProfile* profile = nullptr;  // not null; outlives the call
  // The kernel that runs or runs next; past the last one: it has ended and needs nothing.
  size_t kernel = 0;
  Duration elapsed{};  // since that kernel began; zero if it is not known
};

// What one function needs from now until `ahead` has passed, at the most: kernels take as long as
// profiled or longer, so those that could begin until then are among the profile's next ones.
Bytes demand_of(const RunningFunction& function, Duration ahead);
// The sum over functions: never less than what they need together at any moment of that time.
Bytes demand_of(std::span<const RunningFunction> functions, Duration ahead);

// One of the two is zero.
struct PoolStep {
  Bytes grow;
  Bytes shrink;

  bool operator==(const PoolStep&) const = default;
};
// What to do with a pool of `size`, of which `in_use` cannot be given back now.
PoolStep scale_pool(const PoolOptions& options, Bytes size, Bytes in_use,
                    std::span<const RunningFunction> functions);

}  // namespace lambent::scheduling
