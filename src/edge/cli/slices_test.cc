// lambent slices: what is said of devices and of what shares them.
#include "edge/cli/slices.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

namespace lambent::cli {
namespace {

using testing::HasSubstr;
using Json = nlohmann::json;

TEST(Slices, TellWhatSeveralOnOneDeviceAreKeptFrom) {
  const mig::GpuState gpu{.uuid = "GPU-1", .name = "A100", .memory_mib = 81'920};
  const Json told = Json::parse(slices_json({gpu}, true))[0]["sharing"];
  const auto flags = [&](const std::string& name) -> std::vector<bool> {
    for (const Json& each : told) {
      if (each["sharing"] != name) continue;
      return {each["memory_isolated"], each["fault_isolated"], each["runs_concurrently"]};
    }
    return {};
  };
  EXPECT_EQ(flags("processes in turns"), (std::vector{true, false, false}));
  EXPECT_EQ(flags("clients of MPS"), (std::vector{true, false, true}));
  EXPECT_EQ(flags("green shares"), (std::vector{false, false, true}));
  const std::string text = slices_text({gpu}, true);
  EXPECT_THAT(text, HasSubstr("clients of MPS          memory, time"));
  EXPECT_THAT(text, HasSubstr("green shares            time"));
}

}  // namespace
}  // namespace lambent::cli
