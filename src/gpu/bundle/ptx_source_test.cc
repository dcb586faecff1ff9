#include "gpu/bundle/ptx_source.h"

#include <gtest/gtest.h>

#include "gpu/bundle/ptx_module.h"

namespace lambent::bundle {
namespace {

constexpr const char* kHead = ".version 8.0\n.target sm_75\n.address_size 64\n";

std::string kernel(const std::string& body) {
  return std::string(kHead) + ".visible .entry k(.param .u64 k_param_0)\n{\n" + body + "ret;\n}\n";
}

Result<PtxSource> source(const std::string& module) { return source_of_ptx({module}); }

bool has(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

TEST(PtxSource, AKernelIsRegisteredUnderItsNameForItsArchitecture) {
  const auto made =
      source(kernel(".reg .b64 %rd<3>;\n.reg .b32 %r<2>;\nld.param.u64 %rd1, [k_param_0];\n"
                    "mov.u32 %r1, %tid.x;\nst.global.u32 [%rd1+4], %r1; // the second\n"));
  ASSERT_TRUE(made.ok()) << made.error().message;
  ASSERT_EQ(made->kernels.size(), 1u);
  EXPECT_EQ(made->kernels[0].name, "k");
  EXPECT_TRUE(has(made->text, "#define LAMBENT_PTX_VERSION 75"));
  EXPECT_TRUE(has(made->text, "LAMBENT_KERNEL_AS(k, lambent_kernel_0);"));
  EXPECT_TRUE(has(made->text, "store_each<uint32_t, 1>")) << made->text;
}

TEST(PtxSource, LabelsTablesAndGuardsBecomeJumps) {
  const auto made = source(
      kernel(".reg .pred %p<2>;\n.reg .b32 %r<2>;\nsetp.ne.s32 %p1, %r1, 0;\n@!%p1 bra $L_end;\n"
             "targets: .branchtargets $L_a, $L_end;\nbrx.idx %r1, targets;\n$L_a:\n$L_end:\n"));
  ASSERT_TRUE(made.ok()) << made.error().message;
  EXPECT_TRUE(has(made->text, "if (!r_p1) { goto l__L_end; }")) << made->text;
  EXPECT_TRUE(has(made->text, "case 1: goto l__L_end;")) << made->text;
}

TEST(PtxSource, AKernelHasItsLocalArrays) {
  const auto made = source(
      kernel(".loc 1 5 7\n.local .align 8 .b8 \t__local_depot0[24];\n.reg .b64 \t%SP, %SPL;\n"
             "mov.u64 \t%SPL, __local_depot0;\ncvta.local.u64 \t%SP, %SPL;\n"
             ".file 1 \"a.cu\"\nst.u64 [%SP+16], 5;\n"));
  ASSERT_TRUE(made.ok()) << made.error().message;
  EXPECT_TRUE(has(made->text, "alignas(8) uint8_t a___local_depot0[24];")) << made->text;
  EXPECT_FALSE(has(made->text, "a.cu"));
}

// Blanks and colons by the million take no longer than other text.
TEST(PtxSource, LongStatementsAreReadOnce) {
  const std::string blanks(2'000'000, ' ');
  EXPECT_TRUE(source(kernel(blanks + ".reg .b32 %r<2>;" + blanks + "mov.u32 %r1, 5;\n")).ok());
  std::string colons = std::string(1'000'000, 'a') + "+";
  for (int i = 0; i < 1'000'000; ++i) colons += " :";
  EXPECT_FALSE(source(kernel(colons + ";\n")).ok());
  std::string targets;
  for (int i = 0; i < 200'000; ++i) targets += ".target texmode\n";
  EXPECT_TRUE(source(targets + kernel("")).ok());
}

TEST(PtxSource, SharedMemoryOfKernelsLiesOnTopOfEachOther) {
  const std::string two = std::string(kHead) +
                          ".shared .align 4 .b8 one[4096];\n"
                          ".entry a() { .reg .b32 %r<2>; mov.u32 %r1, one; ret; }\n"
                          ".entry b() { .shared .align 16 .b8 other[64]; .reg .b32 %r<2>; "
                          "mov.u32 %r1, other; ret; }\n";
  const auto made = source(two);
  ASSERT_TRUE(made.ok()) << made.error().message;
  ASSERT_EQ(made->kernels.size(), 2u);
  EXPECT_EQ(made->kernels[0].shared_bytes, 4096u);
  EXPECT_EQ(made->kernels[1].shared_bytes, 64u);
}

TEST(PtxSource, WhatTheHostCannotDoIsNamed) {
  const auto made = source(kernel("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 a, b, c;\n"));
  ASSERT_FALSE(made.ok());
  EXPECT_EQ(made.error().code, ErrorCode::kUnimplemented);
  EXPECT_TRUE(has(made.error().message, "line 6: the instruction of PTX is not supported"))
      << made.error().message;
  EXPECT_TRUE(has(made.error().message, "(in k): mma.sync"));
}

TEST(PtxSource, WhatIsNoPtxIsNamedWithItsLine) {
  const auto message = [](const std::string& text) {
    const auto made = source(text);
    EXPECT_FALSE(made.ok());
    EXPECT_EQ(made.error().code, ErrorCode::kInvalidArgument);
    return made.error().message;
  };
  // The kernel's body begins in the sixth line; comments are lines too.
  EXPECT_TRUE(has(message(kernel("/* one\ntwo */\n// three\n\tfrobnicate.s32 %r1;\n")),
                  "line 9: PTX has no such instruction (in k): frobnicate.s32 %r1"));
  EXPECT_TRUE(has(message(kernel(".reg .b32 %r<2>;\n@%p1 mov.u32 %r1, 5;\n")),
                  "line 7: %p1 is not declared"));
  EXPECT_TRUE(has(message(kernel(".loc 1 2 3\n.loc 1 2 4\ncall.uni nothing, ();\n")),
                  "line 8: a call of what is nowhere defined"));
  EXPECT_TRUE(has(message(kernel("bra.uni $away;\n")), "line 6: a jump to a label that is not"));
  EXPECT_TRUE(has(message(std::string(kHead) + "\n\n.visible .entry (\n"), "line 6"));
  EXPECT_TRUE(has(message("\n"), ".version"));
}

TEST(PtxSource, AKernelSaysHowManyThreadsItsBlocksMayHave) {
  const auto made = source(std::string(kHead) +
                           ".entry a() .maxntid 16, 8, 1 .minnctapersm 2 { ret; }\n"
                           ".entry b() .reqntid 32 { ret; }\n.entry c() { ret; }\n");
  ASSERT_TRUE(made.ok()) << made.error().message;
  EXPECT_EQ(made->kernels[0].most_threads, 128u);
  EXPECT_EQ(made->kernels[1].most_threads, 32u);
  EXPECT_EQ(made->kernels[2].most_threads, 0u);
}

TEST(PtxSource, ACallOfWhatIsNowhereDefinedIsRefused) {
  EXPECT_FALSE(source(kernel("call.uni cudaLaunchDeviceV2, (a, b);\n")).ok());
}

TEST(PtxSource, ModulesAreLinked) {
  const auto made = source_of_ptx(
      {std::string(kHead) + ".extern .func (.param .b32 r) f(.param .b32 x);\n"
                            ".extern .global .align 4 .u32 count;\n"
                            ".entry k() { .reg .b32 %r<2>; .reg .b64 %rd<2>; mov.u64 %rd1, count;\n"
                            "{ .param .b32 x; .param .b32 r; call.uni (r), f, (x); } ret; }\n",
       std::string(kHead) + ".visible .global .align 4 .u32 count = 7;\n"
                            ".visible .func (.param .b32 r) f(.param .b32 x) { ret; }\n"});
  ASSERT_TRUE(made.ok()) << made.error().message;
  EXPECT_TRUE(has(made->text, "__asm__(\"count\")")) << made->text;
}

std::string module(const std::string& text) { return kHead + text; }

TEST(PtxSource, WhatIsAModulesOwnStaysItsOwn) {
  const std::string same = ".func f() { ret; }\n";
  const std::string body = "() { .reg .b64 %rd<2>; mov.u64 %rd1, $str; call.uni f, (); ret; }\n";
  const auto made = source_of_ptx(
      {module(".global .align 1 .b8 $str[3] = {104, 105};\n" + same + ".visible .entry a" + body),
       module(".global .align 1 .b8 $str[9] = {98, 121};\n" + same + ".visible .entry b" + body)});
  ASSERT_TRUE(made.ok()) << made.error().message;
  // Functions are numbered as they stand: f, a, f, b.
  EXPECT_TRUE(has(made->text, "lambent_variable_0[3] = {")) << made->text;
  EXPECT_TRUE(has(made->text, "lambent_variable_1[9] = {")) << made->text;
  const std::string second = made->text.substr(made->text.find("lambent_kernel_3() {"));
  EXPECT_TRUE(has(second, "address(lambent_variable_1)")) << second;
  EXPECT_TRUE(has(second, "lambent_function_2(")) << second;
  EXPECT_FALSE(has(second, "lambent_function_0(")) << second;
}

TEST(PtxSource, OfWeakNamesOneIsKeptWithoutTheSharedMemoryOfOthers) {
  const auto weak = [](const std::string& bytes) {
    return module(".weak .entry k() { .shared .align 4 .b8 tile[" + bytes +
                  "]; .reg .b32 %r<2>; mov.u32 %r1, tile; ret; }\n"
                  ".weak .func f() { .shared .align 4 .b8 one[" +
                  bytes + "]; ret; }\n.weak .global .b32 count = " + bytes + ";\n");
  };
  const auto made = source_of_ptx({weak("64"), weak("128"), weak("256")});
  ASSERT_TRUE(made.ok()) << made.error().message;
  ASSERT_EQ(made->kernels.size(), 1u);
  EXPECT_EQ(made->kernels[0].shared_bytes, 128u);  // of the first k and the first f
  EXPECT_FALSE(has(made->text, "lambent_variable_1"));
}

TEST(PtxSource, TwoOfOneNameMustBeTheSame) {
  const auto one = [](const std::string& body) {
    return module(".visible .entry k() { " + body + " ret; }\n");
  };
  EXPECT_TRUE(source_of_ptx({one("bar.sync 0;"), one("bar.sync 0;")}).ok());
  const auto made = source_of_ptx({one("bar.sync 0;"), one("")});
  ASSERT_FALSE(made.ok());
  EXPECT_TRUE(has(made.error().message, "k is defined twice")) << made.error().message;
  // Static in two files, for the program one name.
  const std::string entry = ".visible .entry ";
  const auto counters = source_of_ptx(
      {module(".global .b32 __nv_static_5__a_cu_count;\n" + entry + "a() { ret; }\n"),
       module(".global .b32 __nv_static_5__b_cu_count;\n" + entry + "b() { ret; }\n")});
  ASSERT_FALSE(counters.ok());
  EXPECT_TRUE(has(counters.error().message, "_count is defined twice"));
  // Function objects of a library's headers.
  const auto empty = source_of_ptx(
      {module(".global .align 1 .b8 __nv_static_5__a_cu_begin[1];\n" + entry + "a() { ret; }\n"),
       module(".global .align 1 .b8 __nv_static_5__b_cu_begin[1];\n" + entry + "b() { ret; }\n")});
  EXPECT_TRUE(empty.ok());
}

TEST(PtxSource, SharedMemoryHasABound) {
  const auto with = [](const std::string& bytes) {
    return source(kernel(".shared .align 4 .b8 tile[" + bytes + "];\n"));
  };
  EXPECT_TRUE(with("49152").ok());
  const auto made = with("65536");
  ASSERT_FALSE(made.ok());
  EXPECT_TRUE(has(made.error().message, "48 KiB of a kernel: tile")) << made.error().message;
}

TEST(PtxSource, InitialValuesAreNumbersAndAddresses) {
  const auto with = [](const std::string& value) {
    return source(
        module(".global .u32 x;\n.global .u64 y = " + value + ";\n.entry k() { ret; }\n"));
  };
  const auto made = with("generic(x)+8");
  ASSERT_TRUE(made.ok()) << made.error().message;
  EXPECT_TRUE(has(made->text, "address(lambent_variable_0) + 8)")) << made->text;
  EXPECT_FALSE(with("x+system(0)").ok());
  EXPECT_FALSE(with("x+").ok());
}

TEST(PtxSource, CallsOfActivemaskHaveNumbersOfTheirOwn) {
  const std::string body = "() { .reg .b32 %r<2>; activemask.b32 %r1; ret; }\n";
  const auto made = source(module(".entry a" + body + ".entry b" + body));
  ASSERT_TRUE(made.ok()) << made.error().message;
  EXPECT_TRUE(has(made->text, "__activemask(1)"));
  EXPECT_TRUE(has(made->text, "__activemask(2)"));
}

TEST(PtxSource, PairsOfSmallFloatsAreNotCompared) {
  const std::string registers = ".reg.b32 a, b;\n.reg .f16 low;\n";
  EXPECT_TRUE(source(kernel(registers + "{add.f16x2 a, a, b;}\nmov.b32 {low, _}, a;\n")).ok());
  EXPECT_FALSE(source(kernel(registers + "set.eq.f16x2.f16x2 a, a, b;\n")).ok());
  EXPECT_FALSE(source(kernel(registers + "abs.f16x2 a, b;\n")).ok());
}

TEST(PtxSource, AccessesToMemoryThatAreNotKnownAreRefused) {
  const auto with = [](const std::string& instruction) {
    return source(kernel(".reg .b32 a, b, c, d, e, f, g, h;\n.reg .b64 p;\n.reg .pred q;\n" +
                         instruction + ";\n"))
        .ok();
  };
  EXPECT_TRUE(with("ld.volatile.shared::cta.v2.u32 {a, b}, [p]"));
  EXPECT_TRUE(with("ld.global.nc.L1::evict_last.L2::128B.u32 a, [p]"));
  EXPECT_FALSE(with("ld.shared::cluster.u32 a, [p]"));
  EXPECT_FALSE(with("ld.global.acquire.other.u32 a, [p]"));
  EXPECT_FALSE(with("st.async.weak.shared::cluster.u32 [p], a"));
  EXPECT_TRUE(with("atom.acq_rel.gpu.global.add.u32 a, [p], b"));
  EXPECT_FALSE(with("atom.shared::cluster.add.u32 a, [p], b"));
  EXPECT_FALSE(with("red.async.add.u32 [p], b"));
  // 16 bytes are read in one piece, and no more.
  EXPECT_TRUE(with("ld.relaxed.gpu.v4.u32 {a, b, c, d}, [p]"));
  EXPECT_FALSE(with("ld.relaxed.gpu.v8.u32 {a, b, c, d, e, f, g, h}, [p]"));
  EXPECT_FALSE(with("st.volatile.v8.u32 [p], {a, b, c, d, e, f, g, h}"));
  EXPECT_TRUE(with("ld.v8.u32 {a, b, c, d, e, f, g, h}, [p]"));
  EXPECT_TRUE(with("isspacep.shared q, p"));
  EXPECT_FALSE(with("isspacep.global q, p"));
}

// A policy is not how many bytes are read.
TEST(PtxSource, CopiesBesideAThreadReadAsManyBytesAsTheySay) {
  const auto copied = [](const std::string& rest) {
    return source(kernel(".reg .b32 %r<4>;\n.reg .b64 %rd<3>;\ncp.async.cg.shared.global" + rest));
  };
  const auto whole = copied(".L2::128B [%r1], [%rd1], 16;\n");
  const auto hinted = copied(".L2::cache_hint [%r1], [%rd1], 16, %rd2;\n");
  const auto part = copied(" [%r1], [%rd1], 16, %r2;\n");
  const auto both = copied(".L2::cache_hint.L2::128B [%r1], [%rd1], 16, %r2, %rd2;\n");
  for (const auto* made : {&whole, &hinted, &part, &both}) {
    ASSERT_TRUE(made->ok()) << made->error().message;
  }
  EXPECT_EQ(hinted->text, whole->text);
  EXPECT_EQ(both->text, part->text);
  EXPECT_NE(part->text, whole->text);
  EXPECT_FALSE(copied(" [%r1], [%rd1], 16, %r2, %rd2;\n").ok());
  EXPECT_FALSE(copied(".L2::cache_hint [%r1], [%rd1], 16;\n").ok());
  EXPECT_FALSE(copied(".L2::cache_hint [%r1], [%rd1], 16, %nothing;\n").ok());
}

// Out of shared memory or into it, where a barrier in memory counts the bytes; nowhere else.
TEST(PtxSource, CopiesInBulkAreMadeAtOnceAndCounted) {
  const auto with = [](const std::string& instruction) {
    const auto made =
        source(kernel(".reg .b32 to, size, bar, low;\n.reg .b64 from, state, policy;\n"
                      ".reg .pred done;\n" +
                      instruction + ";\n"));
    return made.ok() ? made->text : "refused";
  };
  const std::string in = "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes";
  EXPECT_TRUE(has(with(in + " [to], [from], size, [bar]"), "copy_in_bulk_for("));
  EXPECT_EQ(with(in + ".L2::cache_hint [to], [from], size, [bar], policy"),
            with(in + " [to], [from], size, [bar]"));
  EXPECT_EQ(with(in + ".multicast::cluster [to], [from], size, [bar], low"), "refused");
  EXPECT_TRUE(
      has(with("cp.async.bulk.global.shared::cta.bulk_group [from], [to], size"), "copy_in_bulk("));
  EXPECT_NE(with("cp.async.bulk.commit_group"), "refused");
  EXPECT_NE(with("cp.async.bulk.wait_group.read 0"), "refused");
  EXPECT_EQ(with("cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32 [from], [to], size"),
            "refused");
  EXPECT_EQ(with("cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes "
                 "[to], [low], size, [bar]"),
            "refused");
  EXPECT_TRUE(has(with("mbarrier.init.shared::cta.b64 [bar], 1"), "mbarrier_init("));
  EXPECT_TRUE(has(with("mbarrier.arrive.expect_tx.release.cta.shared::cta.b64 state, [bar], size"),
                  "mbarrier_arrive_expect_tx("));
  EXPECT_TRUE(has(with("mbarrier.arrive.shared::cluster.b64 _, [bar]"), "mbarrier_arrive("));
  EXPECT_TRUE(has(with("mbarrier.try_wait.parity.shared::cta.b64 done, [bar], low"),
                  "mbarrier_try_wait_parity("));
  EXPECT_TRUE(has(with("mbarrier.test_wait.b64 done, [from], state"), "mbarrier_test_wait("));
  EXPECT_EQ(with("mbarrier.arrive.other.b64 state, [bar]"), "refused");
}

TEST(PtxSource, InLockstepThreadsMeetWhereSharedMemoryChangesHands) {
  const std::string text = kernel(
      ".reg .b32 %r<4>;\n.reg .b64 %rd<2>;\n.reg .pred %p<2>;\n"
      "st.shared.u32 [%r1], 1;\nst.shared.u32 [%r2], 2;\nld.shared.u32 %r3, [%r1];\n"
      "ld.u32 %r3, [%rd1];\n"
      "ld.global.u32 %r3, [%rd1];\n@%p1 ld.shared.u32 %r3, [%r2];\nld.shared.u32 %r3, [%r2];\n");
  const auto meetings = [&](ptx::Lanes lanes) {
    const auto made = source_of_ptx({text}, lanes);
    EXPECT_TRUE(made.ok()) << made.error().message;
    size_t count = 0;
    for (size_t at = 0; (at = made->text.find("come_together(", at)) != std::string::npos; ++at) {
      ++count;
    }
    return count;
  };
  EXPECT_EQ(meetings(ptx::Lanes::kApart), 0u);
  // Before the first store, the first load, and what follows a load with a guard.
  EXPECT_EQ(meetings(ptx::Lanes::kInLockstep), 3u);
}

TEST(PtxSource, ThreadsMeetAtVolatileMemory) {
  const auto meetings = [](const std::string& accesses) {
    const auto made = source_of_ptx({kernel(".reg .b32 %r<4>;\n.reg .b64 %rd<2>;\n" + accesses)},
                                    ptx::Lanes::kApart);
    EXPECT_TRUE(made.ok()) << made.error().message;
    size_t count = 0;
    for (size_t at = 0; (at = made->text.find("come_together(", at)) != std::string::npos; ++at) {
      ++count;
    }
    return count;
  };
  EXPECT_EQ(meetings("st.volatile.shared.u32 [%r1], 1;\nld.volatile.shared.u32 %r3, [%r1];\n"), 2u);
  EXPECT_EQ(meetings("ld.volatile.global.u32 %r3, [%rd1];\nld.volatile.u32 %r3, [%rd1];\n"), 1u);
  EXPECT_EQ(meetings("ld.volatile.u32 %r3, [%rd1];\nld.shared.u32 %r3, [%r1];\n"
                     "st.volatile.global.u32 [%rd1], 1;\nld.relaxed.gpu.u32 %r3, [%rd1];\n"),
            2u);
  EXPECT_EQ(meetings("ld.shared.u32 %r3, [%r1];\nst.shared.u32 [%r1], 2;\n"), 0u);
  // What plain accesses change or read in between counts, and their stores wait for volatile loads.
  EXPECT_EQ(meetings("ld.volatile.shared.u32 %r3, [%r1];\nst.shared.u32 [%r1], 2;\n"
                     "ld.volatile.shared.u32 %r3, [%r2];\n"),
            3u);
  EXPECT_EQ(meetings("ld.volatile.u32 %r3, [%rd1];\nst.global.u32 [%rd1], 2;\n"
                     "ld.global.u32 %r3, [%rd1];\nld.volatile.u32 %r3, [%rd1];\n"),
            3u);
  EXPECT_EQ(meetings("st.volatile.shared.u32 [%r1], 2;\nld.shared.u32 %r3, [%r2];\n"
                     "st.volatile.shared.u32 [%r1], 3;\n"),
            2u);
  EXPECT_EQ(meetings("ld.volatile.u32 %r3, [%rd1];\nst.local.u32 [%r1], 2;\n"
                     "ld.volatile.u32 %r3, [%rd1];\n"),
            1u);
}

TEST(PtxSource, InstructionsOfTwoTypesAreThoseThatMixThem) {
  const std::string registers = ".reg .b32 a, b, c;\n.reg .b16 s;\n";
  const auto made = source(kernel(registers + "dp4a.s32.u32 a, b, c, a;\n"));
  ASSERT_TRUE(made.ok()) << made.error().message;
  EXPECT_TRUE(has(made->text, "dp4a_<int32_t, uint32_t>(")) << made->text;
  EXPECT_FALSE(source(kernel(registers + "add.f32.bf16 a, s, b;\n")).ok());
  EXPECT_FALSE(source(kernel(registers + "fma.rn.f32.f16 a, s, s, b;\n")).ok());
}

TEST(PtxSource, IntegersHave64Bits) {
  const auto value = [](const std::string& number) {
    const auto made = source(kernel(".reg .b64 x;\nmov.b64 x, " + number + ";\n"));
    if (!made.ok()) return std::string("refused");
    const std::string before = "bits<uint64_t>(";
    const size_t at = made->text.find(before) + before.size();
    return made->text.substr(at, made->text.find(");", at) - at - 1);
  };
  EXPECT_EQ(value("-0x80000000"), "-2147483648");
  EXPECT_EQ(value("0xFFFFFFFF"), "4294967295u");
  EXPECT_EQ(value("-0x8000000000000000"), "(-9223372036854775807 - 1)");
  EXPECT_EQ(value("0xFFFFFFFFFFFFFFFF"), "18446744073709551615ull");
  EXPECT_EQ(value("0b101"), "5");
  EXPECT_EQ(value("017U"), "15");
  for (const char* none : {"0x", "0b2", "08", "0x10000000000000000", "1-2", "0x-1"}) {
    EXPECT_EQ(value(none), "refused") << none;
  }
}

TEST(PtxSource, WhatIsCutOffOrNotPtxIsRefused) {
  const std::string whole = kernel(".reg .b32 %r<2>;\nmov.u32 %r1, 5;\n");
  EXPECT_FALSE(source(whole.substr(0, whole.size() - 8)).ok());
  EXPECT_FALSE(source("int main() {}").ok());
  EXPECT_TRUE(source(kHead).ok()) << "a module may have nothing but variables, or nothing";
  EXPECT_FALSE(source(kernel(".reg .b32 %r<99999999>;\n")).ok());
  std::string repeated;
  for (int i = 0; i < 3; ++i) repeated += ".reg .b32 %r<60000>;\n";
  EXPECT_FALSE(source(kernel(repeated)).ok());
  EXPECT_FALSE(source(kernel(".reg .b32 %" + std::string(1000, 'r') + "<60000>;\n")).ok());
  EXPECT_FALSE(source(std::string(kHead) + ".global .align 3 .b8 odd[4];\n").ok());
}

}  // namespace
}  // namespace lambent::bundle
