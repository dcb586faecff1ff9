#include "node/volumes/shown_volumes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lambent::volumes {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr TenantId kTenant{7};
const FunctionName kFunction{kTenant, "f"};
const VolumeName kOld{kTenant, "old"}, kNew{kTenant, "new"};

Instant at(int second) { return Instant::min() + seconds(second); }

TEST(ShownVolumesTest, ASandboxSeesWhatItWasStartedWithAlsoAfterItsFunctionWasChanged) {
  ShownVolumes shown;
  shown.note(kFunction, kOld, at(10));
  shown.note(kFunction, kNew, at(20));
  shown.note(kFunction, kNew, at(30));
  EXPECT_THAT(shown.seen({{kFunction, at(10)}}), ElementsAre(kNew, kOld));
  EXPECT_THAT(shown.seen({{kFunction, at(20)}}), ElementsAre(kNew)) << "the older one has ended";
  EXPECT_THAT(shown.seen({{kFunction, at(10)}}), ElementsAre(kNew)) << "it is forgotten";
}

TEST(ShownVolumesTest, OfFunctionsWithoutSandboxesNothingIsKept) {
  ShownVolumes shown;
  const FunctionName other{kTenant, "other"};
  shown.note(kFunction, kOld, at(10));
  shown.note(other, kOld, at(10));
  EXPECT_THAT(shown.seen({{other, at(5)}}), ElementsAre(kOld));
  EXPECT_EQ(shown.size(), 1u);
  EXPECT_THAT(shown.seen({}), IsEmpty());
  EXPECT_EQ(shown.size(), 0u);
}

}  // namespace
}  // namespace lambent::volumes
