#include "gpu/bundle/ptx_version.h"

#include <gtest/gtest.h>

namespace lambent::bundle {
namespace {

std::string program(const std::string& body) {
  return "// a compiler's\n\n.version 9.0\n.target sm_80\n.address_size 64\n\n" + body;
}
bool is_lowered(const std::string& body) {
  const std::string lowered = with_least_version(program(body));
  if (lowered == program(body)) return false;
  EXPECT_EQ(lowered.find(".version 7.0\n.target sm_80\n"),
            std::string("// a compiler's\n\n").size());
  EXPECT_TRUE(lowered.ends_with(body)) << lowered;
  return true;
}

TEST(PtxVersion, IsTheLeastThatTheWordsOfAProgramNeed) {
  EXPECT_TRUE(is_lowered(R"(.visible .entry scale(.param .u64 scale_param_0)
{
  .reg .pred %p<2>; .reg .f32 %f<3>; .reg .b64 %rd<3>;
  .shared .align 4 .b8 tile[1024];
$L__BB0_1:
  @!%p1 bra $L__BB0_2;  // elect.sync is not asked for
  /* nor is this: */
  ld.global.nc.v2.f32 {%f1, %f2}, [%rd1];
  mov.u32 %r1, %tid.x; mov.u64 %rd2, %globaltimer;
  mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%f1}, {%r1}, {%r2}, {%f2};
  { .param .b64 param0; call.uni (retval0), vprintf, (param0, param1); }
$L__BB0_2: ret;
})"));
  EXPECT_TRUE(is_lowered("{ bar.warp.sync %r1; redux.sync.add.s32 %r2, %r3, %r4; }"));
  EXPECT_TRUE(is_lowered("{ fns.b32 %r1, %r2, 0, 1; shf.r.clamp.b32 %r1, %r2, %r3, %r4; }"));
  EXPECT_TRUE(is_lowered(".global .attribute(.managed) .align 4 .u32 counted;"));
  EXPECT_TRUE(is_lowered(".global .align 8 .u64 table[2] = {generic(text), 0};"));
}

TEST(PtxVersion, StaysWhereAWordIsOfAnother) {
  EXPECT_FALSE(is_lowered("bmsk.clamp.b32 %r1, %r2, %r3;"));
  EXPECT_FALSE(is_lowered("@%p1 alloca.u64 %rd1, 8;"));
  EXPECT_FALSE(is_lowered("ld.global.L2::128B.f32 %f1, [%rd1];"));
  EXPECT_FALSE(is_lowered("mov.u32 %r1, %cluster_ctaid.x;"));
  EXPECT_FALSE(is_lowered("mov.u32 %r1, %reserved_smem_offset_1;"));
  EXPECT_FALSE(is_lowered("$L_1: elect.sync %r1|%p1, 1;"));
  EXPECT_FALSE(is_lowered("{ .reg .b128 %t; }"));
  EXPECT_FALSE(is_lowered("{ ret;\n.loc 1 2 3\n  bmsk.clamp.b32 %r1, %r2, %r3; }"));
}

TEST(PtxVersion, OfWhatIsNoProgramStaysAsItIs) {
  for (const std::string text :
       {"", "\"", "/*", "//", ".", "%", "@", ":", ".version 9.0", "\n.version"}) {
    EXPECT_EQ(with_least_version(text), text);
  }
}

}  // namespace
}  // namespace lambent::bundle
