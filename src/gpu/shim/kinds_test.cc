// Every kind of allocation, over the fake driver: what is counted, and when it is given back.
#include <gtest/gtest.h>

#include "core/base/testing/testing.h"
#include "gpu/ledger/ledger.h"
#include "gpu/shim/testing/run.h"

namespace lambent::shim {
namespace {

// One run of the probe serves all cases.
class Kinds : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    const TemporaryFolder place;
    auto reader = ledger::create_ledger(place / "ledger", Bytes::mib(64));
    ASSERT_TRUE(reader.ok());
    Running probe({KINDS_PROBE}, {{"LD_PRELOAD", SHIM_LIBRARY},
                                  {"LD_LIBRARY_PATH", FAKE_FOLDER},
                                  {"LAMBENT_SHIM_DRIVER", FAKE_FOLDER "/libcuda.so.1"},
                                  {"LAMBENT_SHIM_LEDGER", place / "ledger"}});
    ASSERT_TRUE(probe.wait_for("host"));
    readings_ = *reader->read();
    run_ = probe.finish();
  }
  static std::string used(const std::string& step) {
    const auto found = run_.values.find(step);
    return found == run_.values.end() ? "missing" : found->second;
  }

  static inline Finished run_;
  static inline ledger::LedgerReadings readings_;
};

TEST_F(Kinds, TheProbeEndsWell) { EXPECT_EQ(run_.exit_code, 0) << run_.output; }

TEST_F(Kinds, ManagedAndPitchedMemoryIsCounted) {
  EXPECT_EQ(used("managed"), "8");
  EXPECT_EQ(used("pitched"), "4") << "rows of 1,000 bytes take 1,024";
  EXPECT_EQ(used("pitched_freed"), "0");
}

TEST_F(Kinds, DoubleFreesForeignPointersAndAbsurdSizesLeaveTheCountAlone) {
  EXPECT_EQ(used("freed_twice"), "0");
  EXPECT_EQ(used("petabyte"), "2");
  EXPECT_EQ(used("nothing"), "1") << "the driver's own answer";
  EXPECT_EQ(used("nowhere"), "1") << "the driver's own answer";
  EXPECT_EQ(used("after_nonsense"), "0");
}

TEST_F(Kinds, StreamOrderedMemoryIsCountedUnlessAGraphIsCaptured) {
  EXPECT_EQ(used("async"), "8");
  EXPECT_EQ(used("async_ptsz"), "8");
  EXPECT_EQ(used("async_freed"), "0");
  EXPECT_EQ(used("captured"), "0");
}

TEST_F(Kinds, ArraysAreCountedByTheirElements) {
  EXPECT_EQ(used("array"), "16");
  EXPECT_EQ(used("array_destroyed"), "0");
}

TEST_F(Kinds, PhysicalMemoryLivesAsLongAsAHandleOrAMapping) {
  EXPECT_EQ(used("created"), "16");
  EXPECT_EQ(used("released_while_mapped"), "16");
  EXPECT_EQ(used("half_unmapped"), "16");
  EXPECT_EQ(used("retained"), "16");
  EXPECT_EQ(used("gone"), "0");
  EXPECT_EQ(used("physical_too_much"), "2");
  EXPECT_EQ(used("on_host"), "0");
}

TEST_F(Kinds, WhatTheDriverRefusesDoesNotStayCounted) {
  EXPECT_EQ(used("refused_one"), "12");
  EXPECT_EQ(used("refused_none"), "0");
}

TEST_F(Kinds, AContextTakesItsMemoryWithIt) {
  EXPECT_EQ(used("context_destroyed"), "0");
  EXPECT_EQ(used("primary_released_once"), "8");
  EXPECT_EQ(used("primary_released"), "0");
}

TEST_F(Kinds, CodeBelongsToTheContextAndLeavesTheLimitToTheProgram) {
  EXPECT_EQ(used("module"), "0");
}

TEST_F(Kinds, GraphsThatAllocateAreCountedFromTheirLaunchUntilTheyAreTrimmed) {
  EXPECT_EQ(used("graph_described"), "0");
  EXPECT_EQ(used("graph_launched"), "12");
  EXPECT_EQ(used("graph_trimmed"), "0");
}

TEST_F(Kinds, PageLockedHostMemoryIsCountedAndNotLimited) {
  EXPECT_EQ(used("host"), "0");
  EXPECT_EQ(readings_.pinned_host, Bytes::mib(2));
  EXPECT_FALSE(readings_.tampered);
}

}  // namespace
}  // namespace lambent::shim
