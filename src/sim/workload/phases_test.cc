#include "sim/workload/phases.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sim/workload/catalogue.h"

namespace lambent::workload {
namespace {

using testing::HasSubstr;

constexpr char kHeader[] =
    "name,gpu_warm_s,cpu_warm_s,gpu_cold_s,device_memory_mib,times_source,memory_source,host_s,"
    "copy_in_mib,kernel_s,copy_out_mib,rounds,occupancy,phases_device,link_gb_per_s,phases_"
    "source\n";

// 1.048576 s over a link of 1 GB/s: 500 MiB each way.
Result<Catalogue> read(const std::string& phases) {
  const std::string text = kHeader + ("f,3,5,8,1000,p,g," + phases + "\n");
  return read_catalogue(*lines_of(text), "c.csv");
}

std::string refused(const std::string& phases) {
  const auto catalogue = read(phases);
  return catalogue.ok() ? "accepted" : catalogue.error().message;
}

TEST(Phases, AreReadWithACatalogue) {
  const auto catalogue = read("1,500,0.951,500,4,0.5,V100,1,guess");
  ASSERT_TRUE(catalogue.ok()) << catalogue.error().message;
  const Phases& phases = *catalogue->front().phases;
  EXPECT_EQ(phases.copy_in, Bytes::mib(500));
  EXPECT_EQ(phases.rounds, 4u);
  EXPECT_NEAR(phases.copies_s(), 1.0486, 1e-4);
  EXPECT_NEAR(phases.duty(), 0.317, 1e-3);
  EXPECT_EQ(phases.source, "guess");
}

TEST(Phases, AreNotThereWhereARowLeavesThemEmpty) {
  const auto catalogue = read(",,,,,,,,");
  ASSERT_TRUE(catalogue.ok()) << catalogue.error().message;
  EXPECT_FALSE(catalogue->front().phases.has_value());
}

TEST(Phases, ThatDoNotAddUpAreRefusedWithBothSums) {
  EXPECT_THAT(refused("1,500,2,500,4,0.5,V100,1,guess"),
              HasSubstr("line 2: the phases add up to 4.049 s (host 1 s, copies 1.049 s, kernels "
                        "2 s) and gpu_warm_s is 3 s: make them parts of it"));
  // What rounding makes is none of that.
  EXPECT_EQ(refused("1,500,0.97,500,4,0.5,V100,1,guess"), "accepted");
}

TEST(Phases, OutOfRangeAreRefusedByName) {
  EXPECT_THAT(refused("-1,0,2,0,1,1,V100,1,g"), HasSubstr("host_s is '-1'"));
  EXPECT_THAT(refused("1,0,2,0,0,1,V100,1,g"), HasSubstr("rounds is '0'"));
  EXPECT_THAT(refused("1,0,2,0,1,1.1,V100,1,g"),
              HasSubstr("occupancy is '1.1', not a number from 0.001 to 1"));
  EXPECT_THAT(refused("1,0,nan,0,1,1,V100,1,g"), HasSubstr("kernel_s is 'nan'"));
  EXPECT_THAT(refused("1,0,2,0,1,1,,1,g"), HasSubstr("phases_device is empty"));
}

TEST(Phases, HaveAllTheirColumnsOrNone) {
  const std::string text =
      "name,gpu_warm_s,cpu_warm_s,gpu_cold_s,device_memory_mib,times_source,memory_source,host_s\n"
      "f,3,5,8,1000,p,g,1\n";
  const auto catalogue = read_catalogue(*lines_of(text), "c.csv");
  ASSERT_FALSE(catalogue.ok());
  EXPECT_THAT(catalogue.error().message, HasSubstr("but not 'copy_in_mib'; give all of them"));
}

TEST(Phases, OfAnotherDeviceAreRefusedWithTheRemedy) {
  const Phases phases{.device = "V100"};
  EXPECT_TRUE(check_device(phases, "f", "Tesla V100-SXM2-16GB").ok());
  const auto checked = check_device(phases, "f", "NVIDIA H100 80GB HBM3");
  ASSERT_FALSE(checked.ok());
  EXPECT_EQ(checked.error().code, ErrorCode::kFailedPrecondition);
  EXPECT_THAT(checked.error().message, HasSubstr("--functions"));
}

TEST(Phases, WithMoreKernelsTakeAsLongAsBefore) {
  const Phases phases{.host_s = 1, .kernel_s = 1, .link_bytes_per_second = 1e9};
  EXPECT_DOUBLE_EQ(phases.with_kernels(0.5).kernel_s, 0.5);
  EXPECT_DOUBLE_EQ(phases.with_kernels(0.5).host_s, 1.5);
  EXPECT_DOUBLE_EQ(phases.with_kernels(9).kernel_s, 2);
  EXPECT_DOUBLE_EQ(phases.with_kernels(9).total_s(), 2);
}

TEST(Phases, OfTheCatalogueThatShipsAreMarkedAsGuesses) {
  const auto catalogue = open_catalogue(LAMBENT_SOURCE_DIR "/share/catalogue/mqfq_table1.csv");
  ASSERT_TRUE(catalogue.ok()) << catalogue.error().message;
  for (const CatalogueEntry& entry : *catalogue) {
    ASSERT_TRUE(entry.phases.has_value()) << entry.name;
    EXPECT_EQ(entry.phases->source, "guess") << entry.name;
    EXPECT_EQ(entry.phases->device, "V100") << entry.name;
  }
}

}  // namespace
}  // namespace lambent::workload
