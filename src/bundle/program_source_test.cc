#include "bundle/program_source.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "base/fd.h"

namespace lambent::bundle {
namespace {

std::string rewritten(std::string_view text) {
  std::vector<std::string> headers;
  return rewrite_program(
      text, [](std::string_view, bool) { return ""; }, &headers);
}

TEST(ProgramSource, LaunchesBecomeCalls) {
  EXPECT_EQ(rewritten("k<<<1, 2>>>(x);"), "k(x);");
  EXPECT_EQ(rewritten("k<16, T> <<<dim3(a >> 1, f(b)), {2, 2}, n, s>>> (x);"), "k<16, T>  (x);");
  EXPECT_EQ(rewritten("k<<<blocks<V<int>>>>(x);"), "k(x);");
  EXPECT_EQ(rewritten("k<<<1, /* >>> */ 2>>>(\">>>\");"), "k(\">>>\");");
}

TEST(ProgramSource, LinesStayWhereTheyAre) {
  EXPECT_EQ(rewritten("k<<<1,\n2>>>(x);\ny"), "k\n(x);\ny");
  EXPECT_EQ(rewritten("#define L(k) k<<<1, \\\n2>>>()\ny"), "#define L(k) k\\\n()\ny");
}

TEST(ProgramSource, WhatIsNoCodeStaysAsItIs) {
  for (const char* text :
       {"// k<<<1, 1>>>()\n", "/* k<<<1, 1>>>() */", "\"k<<<1, 1>>>() \\\" \"", "'<'",
        "R\"x(k<<<1, 1>>>() \" )x\"", "1'000'000", "a << b >> c", "conflict <<<<<<< HEAD;\n>>>>>>>",
        "k<<<1, 2", "\"unfinished", "/* unfinished", "R\"(unfinished", "", "'", "static", "#"}) {
    EXPECT_EQ(rewritten(text), text);
  }
}

TEST(ProgramSource, KernelsAndVariablesAreNotStatic) {
  EXPECT_EQ(rewritten("static __global__ void k();"), " __global__ void k();");
  EXPECT_EQ(rewritten("__global__ static void k();"), "__global__  void k();");
  EXPECT_EQ(rewritten("static inline __global__ void k();"), "  __global__ void k();");
  EXPECT_EQ(rewritten("static __device__ int x = f(2);"), " __device__ int x = f(2);");
  EXPECT_EQ(rewritten("static const __constant__ float w[3];"), " const __constant__ float w[3];");
  EXPECT_EQ(rewritten("static __device__ int f(int);"), "static __device__ int f(int);");
  EXPECT_EQ(rewritten("static int x;"), "static int x;");
}

TEST(ProgramSource, UnnamedNamespacesHaveAName) {
  EXPECT_EQ(rewritten("namespace { int x; }"), "inline namespace lambent_unnamed { int x; }");
  EXPECT_EQ(rewritten("namespace a { }"), "namespace a { }");
  EXPECT_EQ(rewritten("using namespace a;"), "using namespace a;");
}

TEST(ProgramSource, SharedArraysMayHaveStructures) {
  EXPECT_EQ(rewritten("__shared__ float2 t[4];"), "LAMBENT_SHARED float2 t[4];");
  EXPECT_EQ(rewritten("extern __shared__ float2 t[];"), "extern __shared__ float2 t[];");
}

TEST(ProgramSource, WhatKernelsCannotDoIsAnErrorWhereItStands) {
  const auto refused = [](std::string_view text) {
    return rewritten(text).find("GCC error") != std::string::npos;
  };
  EXPECT_TRUE(refused("__global__ void parent() { if (x) { } child<<<1, 1>>>(); }"));
  EXPECT_TRUE(refused("__device__ int f() { asm(\"mov\"); }"));
  EXPECT_FALSE(refused("__global__ void k() { } int main() { k<<<1, 1>>>(); asm(\"nop\"); }"));
  EXPECT_FALSE(refused("__device__ int x; __global__ void k(); int main() { k<<<1, 1>>>(); }"));
  EXPECT_FALSE(refused("__host__ __device__ void f() { k<<<1, 1>>>(); }"));
}

TEST(ProgramSource, HeadersByTheirSideAreRewrittenToo) {
  const std::string folder = testing::TempDir() + "program_source_test";
  std::filesystem::create_directories(folder + "/scratch");
  ASSERT_TRUE(write_file_atomically(folder + "/a.cu",
                                    "#include <vector>\n#include \"k.cuh\"\n#include \"no.h\"\n",
                                    false)
                  .ok());
  ASSERT_TRUE(write_file_atomically(
                  folder + "/k.cuh",
                  "#include \"k.cuh\"\n#include <vector>\n# include <map>\nk<<<1, 1>>>();", false)
                  .ok());
  const auto source = read_program({folder + "/a.cu"}, {}, folder + "/scratch");
  ASSERT_TRUE(source.ok());
  EXPECT_EQ(source->headers, (std::vector<std::string>{"vector", "map"}));
  EXPECT_NE(source->text.find("#include \"no.h\""), std::string::npos);
  const std::string copy = std::filesystem::canonical(folder + "/scratch").string() + "/0_k.cuh";
  EXPECT_NE(source->text.find("/0_k.cuh\""), std::string::npos);
  const auto header = read_file(copy, 4096);
  ASSERT_TRUE(header.ok());
  EXPECT_NE(header->find("\nk();"), std::string::npos);
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace lambent::bundle
