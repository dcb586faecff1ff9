#include "gpu/cuda_abi/device_names.h"

#include <gtest/gtest.h>

namespace lambent::cuda_abi {
namespace {

TEST(DeviceNames, OfUnnamedNamespacesLoseTheirFile) {
  EXPECT_EQ(name_in_host_code("_ZN33_GLOBAL__N__ec32f1a1_5_st_cu_main6anon_kEPi"),
            "_ZN15lambent_unnamed6anon_kEPi");
  EXPECT_EQ(name_in_host_code("_ZN31_INTERNAL_ec32f1a1_5_st_cu_main33_GLOBAL__N__ec32f1a1_5_st_cu_"
                              "main2gvE"),
            "_ZN15lambent_unnamed2gvE");
  EXPECT_EQ(name_in_host_code("_Z3runIN33_GLOBAL__N__ec32f1a1_5_st_cu_main2OpEEvT_"),
            "_Z3runIN15lambent_unnamed2OpEEvT_");
}

TEST(DeviceNames, OfWhatIsStaticLoseTheFilesMark) {
  EXPECT_EQ(name_in_host_code("__nv_static_25__7e9e64f6_4_b_cu_297892b7__Z5twicePi"), "_Z5twicePi");
  EXPECT_EQ(name_in_host_code("__nv_static_25__7e9e64f6_4_b_cu_297892b7_table"), "table");
}

TEST(DeviceNames, OfEverythingElseStayAsTheyAre) {
  for (const char* name : {"", "vadd", "_Z4vaddPKfS0_Pfi", "_Z5scaleILi3EEvPfi", "_Z1kPA12_i",
                           "_Z1k99999999999999999999999999_INTERNAL_", "12", "9_INTERNAL",
                           "__nv_static_", "__nv_static_99_x", "__nv_static_1_ab_"}) {
    EXPECT_EQ(name_in_host_code(name), name);
  }
}

}  // namespace
}  // namespace lambent::cuda_abi
