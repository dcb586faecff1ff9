#include "gpu/bundle/inline_ptx.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace lambent::bundle {
namespace {

AsmStatement read(std::string_view text) { return read_asm(text, std::string_view("asm").size()); }

bool has(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

TEST(InlinePtx, ASpecialRegisterIsRead) {
  const auto statement = read("asm(\"mov.u32 %0, %%laneid;\" : \"=r\"(x)); next");
  ASSERT_TRUE(statement.is_ptx);
  EXPECT_EQ(statement.refusal, "");
  EXPECT_TRUE(has(statement.code, "ptx::laneid()")) << statement.code;
  EXPECT_TRUE(has(statement.code, "ptx::give((x), lambent_ptx0)")) << statement.code;
  EXPECT_EQ(statement.end, std::string_view("asm(\"mov.u32 %0, %%laneid;\" : \"=r\"(x))").size());
}

TEST(InlinePtx, OperandsKeepTheirNumbersAndLinesTheirCount) {
  const auto statement = read(
      "asm volatile(\"add.cc.u32 %0, %1, %2;\\n\\t\"\n"
      "  \"addc.u32 %3, 0, 0;\"\n : \"=r\"(a), \"+r\"(b)\n : \"r\"(f(1, 2)), \"r\"(d))");
  EXPECT_EQ(statement.refusal, "");
  EXPECT_TRUE(has(statement.code, "add_cc_<uint32_t>(lambent_ptx1, lambent_ptx2)"))
      << statement.code;
  EXPECT_TRUE(has(statement.code, "addc_<uint32_t>(0, 0)")) << statement.code;
  EXPECT_TRUE(
      has(statement.code, "uint32_t lambent_ptx2 = lambent::host::ptx::bits<uint32_t>(f(1, 2))"));
  EXPECT_EQ(std::count(statement.code.begin(), statement.code.end(), '\n'), 3);
}

TEST(InlinePtx, AnExpressionOfSeveralLinesIsWrittenOnOne) {
  const auto statement = read("asm(\"add.u32 %0, %0, 1;\" : \"+r\"(x[\n1]))");
  EXPECT_EQ(statement.refusal, "");
  EXPECT_EQ(std::count(statement.code.begin(), statement.code.end(), '\n'), 1);
  EXPECT_FALSE(read("asm(\"add.u32 %0, %0, 1;\" : \"+r\"(x[ // one\n1]))").is_ptx);
}

TEST(InlinePtx, RegistersOfItsOwnAndPredicates) {
  const auto statement = read(
      "asm(\"{ .reg .pred p; .reg .u32 t; setp.lt.s32 p, %1, 0; @p mov.u32 t, 5; mov.u32 %0, t; "
      "}\" : "
      "\"=r\"(x) : \"r\"(y))");
  EXPECT_EQ(statement.refusal, "");
  EXPECT_TRUE(has(statement.code, "bool lambent_reg0_p{}; uint32_t lambent_reg1_t{};"))
      << statement.code;
  EXPECT_TRUE(has(statement.code, "if (lambent_reg0_p) { ")) << statement.code;
}

TEST(InlinePtx, RegistersAreThoseOfTheirScope) {
  const auto statement = read(
      "asm(\"{ .reg .u32 %%t; mov.u32 %%t, 1; { .reg .u64 %%t; mov.u64 %%t, 2; } "
      "mov.u32 %0, %%t; } { .reg .u32 %%t; mov.u32 %0, %%t; }\" : \"=r\"(x))");
  EXPECT_EQ(statement.refusal, "");
  EXPECT_TRUE(has(statement.code, "uint64_t lambent_reg1_t{};")) << statement.code;
  EXPECT_TRUE(has(statement.code,
                  "give(lambent_ptx0, lambent::host::ptx::mov_<uint32_t>("
                  "lambent_reg0_t))"))
      << statement.code;
  EXPECT_TRUE(has(statement.code, "mov_<uint32_t>(lambent_reg2_t))")) << statement.code;
}

TEST(InlinePtx, NumbersMayBeWrittenByTheirBits) {
  const auto statement = read(
      "asm(\"mov.f32 %0, 0f3F800000; mov.f64 %1, 0d3FF0000000000000; mov.u32 %2, 0x1FU;\" : "
      "\"=f\"(x), \"=d\"(y), \"=r\"(z))");
  EXPECT_EQ(statement.refusal, "");
  EXPECT_TRUE(has(statement.code, "bits<float>(0x3F800000u)")) << statement.code;
  EXPECT_TRUE(has(statement.code, "bits<double>(0x3FF0000000000000ull)")) << statement.code;
  EXPECT_TRUE(has(statement.code, "mov_<uint32_t>(31)")) << statement.code;
}

TEST(InlinePtx, HintsForCachesChangeNothing) {
  const auto statement =
      read("asm(\"ld.global.L1::no_allocate.L2::128B.u32 %0, [%1];\" : \"=r\"(x) : \"l\"(p))");
  EXPECT_EQ(statement.refusal, "");
  EXPECT_TRUE(has(statement.code, "load<uint32_t>(lambent_at, 0)")) << statement.code;
}

TEST(InlinePtx, VectorsAreLoadedAndStored) {
  const auto statement = read(
      "asm volatile(\"ld.global.cg.v2.u32 {%0, %1}, [%2+8];\" : \"=r\"(x), \"=r\"(y) : "
      "\"l\"(p) : \"memory\")");
  EXPECT_EQ(statement.refusal, "");
  EXPECT_TRUE(has(statement.code, "bits<uint64_t>(lambent_ptx2) + 8")) << statement.code;
  EXPECT_TRUE(has(statement.code, "load<uint32_t>(lambent_at, 1)")) << statement.code;
}

TEST(InlinePtx, WhatIsNotKnownIsRefusedByName) {
  for (const char* text :
       {"asm(\"mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0}, {%1};\" : \"=f\"(a) : "
        "\"r\"(b))",
        "asm(\"cp.async.cg.shared.global [%0], [%1], 16;\" :: \"r\"(a), \"l\"(b))",
        "asm(\"ld.shared.u32 %0, [%1];\" : \"=r\"(a) : \"r\"(b))",
        "asm(\"ld.shared::cta.u32 %0, [%1];\" : \"=r\"(a) : \"r\"(b))",
        "asm(\"ld.shared::cta.u32 %0, [%1];\" : \"=r\"(a) : \"l\"(b))",
        "asm(\"ld.u32 %0, [%1];\" : \"=r\"(a) : \"r\"(b))",
        "asm(\"@%0 @%0 mov.u32 %1, 1;\" : \"=r\"(a), \"=r\"(b))",
        "asm(\"{ .reg .u32 t; .reg .u32 t; }\")", "asm(\"{ mov.u32 %0, 1;\" : \"=r\"(a))",
        "asm(\"mov.u32 %0, 1; }\" : \"=r\"(a))", "asm(\"mov.f32 %0, 0f3F80;\" : \"=f\"(a))",
        "asm(\"mov.u32 %0, 08;\" : \"=r\"(a))", "asm(\"setp.lo.s32 %0, 1, 2;\" : \"=r\"(a))",
        "asm(\"vabsdiff4.u32.s32.s32.add %0, %0, %0, %0;\" : \"+r\"(a))",
        "asm(\"mov.u32 %0, %nothing;\" : \"=r\"(a))", "asm(\"mov.u32 %0, %7;\" : \"=r\"(a))",
        "asm(\"mov.u32 %0, 1;\" : \"=x\"(a))", "asm(\"exit;\")"}) {
    const auto statement = read(text);
    EXPECT_TRUE(statement.is_ptx) << text;
    EXPECT_TRUE(has(statement.refusal, "is not supported in host kernels")) << text;
  }
}

TEST(InlinePtx, AssemblyOfTheHostIsNone) {
  EXPECT_FALSE(read("asm volatile(\"rdtsc\" : \"=a\"(a), \"=d\"(d))").is_ptx);
  EXPECT_FALSE(read("asm volatile(\"\" ::: \"memory\")").is_ptx);
  EXPECT_FALSE(read("asm(\".symver old_f, f@V1\")").is_ptx);
  EXPECT_FALSE(read("asm(\".byte 0x0f, 0x0b\")").is_ptx);
  EXPECT_TRUE(read("asm(\".reg .u32 t;\")").is_ptx);
}

TEST(InlinePtx, GuardsWithoutEndAreRefusedAtTheFirst) {
  std::string text = "asm(\"";
  for (int i = 0; i < 100000; ++i) text += "@%0 ";
  EXPECT_NE(read(text + "mov.u32 %0, 1;\" : \"+r\"(a))").refusal, "");
}

TEST(InlinePtx, WhatDoesNotEndIsNoStatement) {
  for (const char* text : {"asm", "asm(", "asm(\"mov", "asm(TEXT : \"=r\"(x))", "asm volatile",
                           "asm(\"x\" : \"=r\"(", "asm(\"x\" : \"=r\")", "asm()"}) {
    EXPECT_FALSE(read(text).is_ptx) << text;
  }
}

}  // namespace
}  // namespace lambent::bundle
