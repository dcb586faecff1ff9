// A node's profile is a file that people edit: it becomes numbers within their limits, which
// survive being written and read again, or an error.
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "sim/workload/node_profile.h"
#include "tests/fuzz/accepted.h"

namespace {
[[maybe_unused]] const bool kTold = lambent::fuzz::tells_what_it_accepts();
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace lambent::workload;
  const auto profile = parse_profile({reinterpret_cast<const char*>(data), size}, "node.toml");
  if (!profile.ok()) return 0;
  lambent::fuzz::accepted.last = true;
  if (profile->contention.empty() || profile->devices == 0) abort();
  if (!(profile->sandbox_s >= 0 && profile->time_scale > 0)) abort();
  if (!parse_profile(text_of(*profile), "again.toml").ok()) abort();
  return 0;
}
