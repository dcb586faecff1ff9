#include "gpu/bundle/program_source.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "core/base/fd.h"
#include "core/base/testing/testing.h"
#include "gpu/bundle/program_files.h"

namespace lambent::bundle {
namespace {

std::string rewritten(std::string_view text) {
  std::vector<std::string> headers;
  return rewrite_program(
      text, [](std::string_view, bool) { return ""; }, &headers);
}

TEST(ProgramSource, LaunchesBecomeCalls) {
  EXPECT_EQ(rewritten("k<<<1, 2>>>(x);"), "LAMBENT_LAUNCH k(x);");
  EXPECT_EQ(rewritten("k<16, T> <<<dim3(a >> 1, f(b)), {2, 2}, n, s>>> (x);"),
            "LAMBENT_LAUNCH k<16, T>  (x);");
  EXPECT_EQ(rewritten("k<<<blocks<V<int>>>>(x);"), "LAMBENT_LAUNCH k(x);");
  EXPECT_EQ(rewritten("k<<<1, /* >>> */ 2>>>(\">>>\");"), "LAMBENT_LAUNCH k(\">>>\");");
}

// As nvcc takes them; formatters of C++ write launches so.
TEST(ProgramSource, LaunchesMayHaveBlanksInTheirBrackets) {
  EXPECT_EQ(rewritten("k << < 1, 2 >> > (x);"), "LAMBENT_LAUNCH k  (x);");
  EXPECT_EQ(rewritten("k<< <n >> 1, 2 >> >(x);"), "LAMBENT_LAUNCH k(x);");
  EXPECT_EQ(rewritten("k << <1, 2>>> (x);"), "LAMBENT_LAUNCH k  (x);");
  for (const char* text : {"a << b >> c;", "operator<< <int>(a, b);", "A<B<C<1>> > d;",
                           "friend S& operator<< <>(S&, T);", "x = a << 1; y = b >> 1 > 2;"}) {
    EXPECT_EQ(rewritten(text), text);
  }
  // What closes templates does not close a launch that is written without blanks.
  EXPECT_EQ(rewritten("k<<<A<B<1> >::value, A<B<C<2>> >::value>>>(x);"), "LAMBENT_LAUNCH k(x);");
}

// A launch that is reached in a running kernel ends it (host/failures.h): what stands before the
// call must cover all of it, wherever the kernel's name begins.
TEST(ProgramSource, CallsInPlaceOfLaunchesAreGuarded) {
  for (const std::string name :
       {"k", "a::b<int>::k", "::k", "k<T, (n > 1), A<B<1>>>", "k<sizeof(T) << 1>", "k_ ## T",
        "kernels[i + (1)]", "(*k)", "pick(a, b)", "this->k", "p.template k<3>", "(f)"}) {
    for (const std::string before :
         {"", "if (x) ", "return ", "else ", "c ? ", "= [&] { ", "a, "}) {
      for (const std::string around : {"", "#define L ", "#define L(k, p) ", "#define L(k) (a; "}) {
        EXPECT_EQ(rewritten(around + before + name + "<<<1, 2>>>(x);"),
                  around + before + "LAMBENT_LAUNCH " + name + "(x);");
      }
    }
  }
  EXPECT_EQ(rewritten("k<<<1, 1>>>(x); j<<<1, 1>>>(y)"),
            "LAMBENT_LAUNCH k(x); LAMBENT_LAUNCH j(y)");
  EXPECT_EQ(rewritten("#define L(k) k<<<1, 1>>>\n"), "#define L(k) LAMBENT_LAUNCH k\n");
  EXPECT_NE(rewritten("#define AT <<<1, 1>>>\n").find("GCC error"), std::string::npos);
  EXPECT_EQ(rewritten("#error write k<<<1, 1>>>\n"), "#error write k<<<1, 1>>>\n");
}

TEST(ProgramSource, LinesStayWhereTheyAre) {
  EXPECT_EQ(rewritten("k<<<1,\n2>>>(x);\ny"), "LAMBENT_LAUNCH k\n(x);\ny");
  EXPECT_EQ(rewritten("#define L(k) k<<<1, \\\n2>>>()\ny"),
            "#define L(k) LAMBENT_LAUNCH k\\\n()\ny");
}

TEST(ProgramSource, WhatIsNoCodeStaysAsItIs) {
  for (const char* text : {"// k<<<1, 1>>>()\n",
                           "/* k<<<1, 1>>>() */",
                           "\"k<<<1, 1>>>() \\\" \"",
                           "'<'",
                           "R\"x(k<<<1, 1>>>() \" )x\"",
                           "1'000'000",
                           "a << b >> c",
                           "conflict <<<<<<< HEAD;\n>>>>>>>",
                           "k<<<1, 2",
                           "\"unfinished",
                           "/* unfinished",
                           "R\"(unfinished",
                           "",
                           "'",
                           "static",
                           "#",
                           "u8R\"(k<<<1, 1>>>())\"",
                           "k<<<1, 2>>",
                           "<<<1, 2>>>",
                           "return <<<1, 2>>>(x)"}) {
    EXPECT_EQ(rewritten(text), text);
  }
}

TEST(ProgramSource, AWordThatEndsInRBeginsNoRawString) {
  EXPECT_EQ(rewritten("BAR\"(y\"; k<<<1, 1>>>(x); \")BAR\""),
            "BAR\"(y\"; LAMBENT_LAUNCH k(x); \")BAR\"");
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

TEST(ProgramSource, VariablesOfTheDeviceAreToldByTheirWholeDeclaration) {
  for (const std::string rest :
       {"__constant__ __align__(16) float c[4];", "__device__ alignas(16) float c;",
        "__attribute__((aligned(16))) __device__ float c{1};", "__constant__ ALIGNED(16) float c;",
        "[[maybe_unused]] __device__ std::array<float, 4> c;"}) {
    EXPECT_EQ(rewritten("static " + rest), " " + rest);
    EXPECT_EQ(rewritten("namespace a { extern \"C\" { static " + rest),
              "namespace a { extern \"C\" {  " + rest);
  }
  EXPECT_EQ(rewritten("__device__ const static int x;"), "__device__ const  int x;");
  EXPECT_EQ(rewritten("static __device__ int f() noexcept;"),
            "static __device__ int f() noexcept;");
}

TEST(ProgramSource, VariablesOfFunctionsAndClassesStayStatic) {
  for (const char* text : {"__global__ void k() { static __device__ int n; }",
                           "struct S { static __device__ int n; };",
                           "__global__ void k() { __device__ static int n; }",
                           "namespace a { void f() { if (x) { static __constant__ int n; } } }"}) {
    EXPECT_EQ(rewritten(text), text);
  }
}

TEST(ProgramSource, BranchesOfAnIfBeginWithWhatWasOpen) {
  const std::string open =
      "#ifdef A\n__global__ void k(int a) {\n#else\n__global__ void k() {\n#endif\n}\n";
  const auto in_kernel = [](const std::string& text) {
    return rewritten(text).find("nested(") != std::string::npos;
  };
  EXPECT_FALSE(in_kernel(open + "void go() { k<<<1, 1>>>(); }"));
  EXPECT_FALSE(
      in_kernel("__device__ int f(int a\n#ifdef A\n, int b) {\n#elif B\n) {\n#else\n) {\n"
                "#endif\n}\nint main() { k<<<1, 1>>>(); }"));
  EXPECT_EQ(rewritten(open + "static __device__ int n;"), open + " __device__ int n;");
  EXPECT_TRUE(in_kernel(open + "__global__ void p() { k<<<1, 1>>>(); }"));
}

TEST(ProgramSource, UnnamedNamespacesHaveAName) {
  EXPECT_EQ(rewritten("namespace { int x; }"), "inline namespace lambent_unnamed { int x; }");
  EXPECT_EQ(rewritten("namespace a { }"), "namespace a { }");
  EXPECT_EQ(rewritten("using namespace a;"), "using namespace a;");
}

TEST(ProgramSource, SharedArraysMayHaveStructures) {
  EXPECT_EQ(rewritten("__shared__ float2 t[4];"), "LAMBENT_SHARED float2 t[4];");
  for (const char* text :
       {"extern __shared__ float2 t[];", "extern __align__(16) __shared__ float2 t[];",
        "extern volatile __shared__ float t[];", "__shared__ extern float t[];"}) {
    EXPECT_EQ(rewritten(text), text);
  }
  EXPECT_EQ(rewritten("extern int x; __shared__ int y;"), "extern int x; LAMBENT_SHARED int y;");
}

TEST(ProgramSource, AnAlignmentMayStandBehindShared) {
  EXPECT_EQ(rewritten("__shared__ alignas(16) float t[4];"),
            "LAMBENT_SHARED __align__(16) float t[4];");
  EXPECT_EQ(rewritten("extern __shared__ alignas(128) char t[];"),
            "extern __shared__ __align__(128) char t[];");
  EXPECT_EQ(rewritten("alignas(16) __shared__ float t[4];"),
            "alignas(16) LAMBENT_SHARED float t[4];");
}

TEST(ProgramSource, WhatKernelsCannotDoIsAnErrorWhereItStands) {
  const auto refused = [](std::string_view text) {
    return rewritten(text).find("GCC error") != std::string::npos;
  };
  EXPECT_TRUE(refused("__device__ int f() { asm(\"wgmma.fence.sync.aligned;\"); }"));
  EXPECT_TRUE(refused("__device__ int f() { asm(TEXT); }"));
  EXPECT_FALSE(refused("__device__ int f() { asm(\"mov.u32 %0, 1;\" : \"=r\"(x)); }"));
  EXPECT_FALSE(refused("__device__ int f() { asm volatile(\"\" ::: \"memory\"); }"));
  EXPECT_FALSE(refused("__global__ void k() { } int main() { k<<<1, 1>>>(); asm(\"nop\"); }"));
  EXPECT_FALSE(refused("__device__ int x; __global__ void k(); int main() { k<<<1, 1>>>(); }"));
  EXPECT_TRUE(refused("__host__ __device__ int f() { asm(\"wgmma.fence.sync.aligned;\"); }"));
  // These end when they run.
  EXPECT_FALSE(refused("__host__ __device__ void f() { k<<<1, 1>>>(); }"));
  EXPECT_FALSE(refused("#define HOT __device__\nvoid go() { k<<<1, 1>>>(); }"));
}

TEST(ProgramSource, LaunchesByKernelsAreMadeWhereTheyStand) {
  EXPECT_EQ(rewritten("__global__ void p() { if (x) { } k<T><<<1, n, 0, s>>>(a); }"),
            "__global__ void p() { if (x) { } ::lambent::host::nested([](auto... lambent_given) { "
            "k<T>(lambent_given...); }, 1, n, 0, s)(a); }");
  EXPECT_EQ(rewritten("__device__ void f() { k<<<V<A<1>>::n,\n2>>>(); }"),
            "__device__ void f() { ::lambent::host::nested([](auto... lambent_given) { "
            "k(lambent_given...); }, V<A<1>>::n,\n2)(); }");
  // The host's stay calls that are not made.
  EXPECT_EQ(rewritten("__host__ __device__ void f() { k<<<1, 1>>>(); }"),
            "__host__ __device__ void f() { LAMBENT_LAUNCH k(); }");
}

DeviceWords words_of(const std::string& text) {
  std::vector<std::string> headers;
  DeviceWords words;
  rewrite_program(
      text, [](std::string_view, bool) { return ""; }, &headers, nullptr, &words);
  return words;
}

TEST(ProgramSource, VolatileCountsUnlessItIsSurelyTheHosts) {
  for (const char* text :
       {"__global__ void k(volatile int* p) { }", "__device__ volatile int n;",
        "volatile __device__ int a[64];", "__global__ void k() { { volatile int* p = q; } }",
        "template <class T> struct Tile { volatile T* s; __device__ Tile(T* p) : s(p) { } };",
        "#define DEV __device__ __forceinline__\nDEV void f(volatile int* s) { }",
        "#define DEV __device__ __forceinline__\nDEV void f(int* s) { if (s) { volatile int* v; } "
        "}",
        "#define device_code __device__\ndevice_code void f(int* s) { volatile int* v = s; }",
        "HEADERS_DEVICE void f(int* s) { volatile int* v = s; }",
        "constexpr int f() { volatile int* v = s; }", "typedef volatile int vint;",
        "#define VOL volatile", "#define SUM(p) { volatile int* s = p; \\\n s[0] += s[1]; }",
        "int main() { run([=] __device__(int i) { volatile int* v = p; }); }",
        "int main() { struct F { __device__ void f() { volatile int* v = p; } }; }",
        "int main() { } volatile int n;"}) {
    EXPECT_TRUE(words_of(text).has_volatile) << text;
  }
  for (const char* text :
       {"int main() { volatile int n = 0; }",
        "template <class T> void f(struct A*) { volatile T n; }",
        "struct A { void f() { for (int i = 0; i < 100; ++i) { volatile int n = 0; } } };",
        "int main() { if (N < MOST) { volatile int n = 0; } }",
        "__device__ void f() { asm volatile(\"\" ::: \"memory\"); }",
        "#define FENCE asm volatile(\"\" ::: \"memory\")",
        "// volatile\nconst char* s = \"volatile\";"}) {
    EXPECT_FALSE(words_of(text).has_volatile) << text;
  }
}

TEST(ProgramSource, LaunchesByKernelsAreTold) {
  EXPECT_TRUE(words_of("__global__ void p() { k<<<1, 1>>>(); }").launches);
  EXPECT_TRUE(words_of("__global__ void p(int* s) { cudaMemsetAsync(s, 0, 4, 0); }").launches);
  EXPECT_FALSE(words_of("int main() { k<<<1, 1>>>(); cudaMemsetAsync(s, 0, 4, 0); }").launches);
}

TEST(ProgramSource, AssemblyOfTheHostStays) {
  EXPECT_EQ(rewritten("__asm__(\".symver old_f, f@V1\");"), "__asm__(\".symver old_f, f@V1\");");
  EXPECT_EQ(rewritten("void f() { asm(\".byte 0x0f, 0x0b\"); }"),
            "void f() { __asm__(\".byte 0x0f, 0x0b\"); }");
  // A branch of another processor, which looks like PTX.
  EXPECT_EQ(rewritten("void f() { asm(\"b.eq 1f\"); }"), "void f() { __asm__(\"b.eq 1f\"); }");
}

TEST(ProgramSource, ExplicitInstantiationsCanBeLeftOut) {
  EXPECT_EQ(rewritten("template __global__ void k<int>(int*);"),
            "LAMBENT_INSTANTIATION(template __global__ void k<int>(int*));");
  EXPECT_EQ(rewritten("a;\ntemplate void\n __global__ k<1>(T); b"),
            "a;\nLAMBENT_INSTANTIATION(template void\n __global__ k<1>(T)); b");
  EXPECT_EQ(rewritten("#define I(T) template __global__ void k<T>(T*) // c\nx;"),
            "#define I(T) LAMBENT_INSTANTIATION(template __global__ void k<T>(T*)) // c\nx;");
  for (const char* text : {"template <int n> __global__ void k(int*);", "p.template f<3>(); x;",
                           "template class A<int>; __global__ void k();", "template",
                           "template __global__ void k() { }"}) {
    EXPECT_EQ(rewritten(text), text);
  }
  const std::string spaces(600000, ' ');  // no recursion
  EXPECT_EQ(rewritten("//" + spaces + "\n" + spaces + "template"),
            "//" + spaces + "\n" + spaces + "template");
}

TEST(ProgramSource, HeadersAreAskedForWhereTheyAre) {
  std::vector<std::string> headers;
  const auto copy_of = [](std::string_view name, bool) { return name == "a.h" ? "/c/0_a.h" : ""; };
  EXPECT_EQ(
      rewrite_program("#if __has_include(\"a.h\") && __has_include( \"b.h\")\n", copy_of, &headers),
      "#if __has_include(\"/c/0_a.h\") && __has_include( \"b.h\")\n");
}

class ProgramFiles : public testing::Test {
 protected:
  ProgramFiles() { std::filesystem::create_directories(folder_ / "scratch"); }
  void write(const std::string& name, const std::string& text) {
    ASSERT_TRUE(write_file_atomically(folder_ / name, text, false).ok());
  }
  Result<ProgramSource> read_both() {
    return read_program({folder_ / "a.cu", folder_ / "b.cu"}, {}, folder_ / "scratch");
  }
  std::string refusal() {
    const auto source = read_both();
    return source.ok() ? "" : source.error().message;
  }
  const TemporaryFolder folder_;
};

TEST_F(ProgramFiles, MacrosEndWithTheirFile) {
  write("mine.cuh", "#pragma once\n#define WIDTH 4\n");
  write("a.cu", "#include \"mine.cuh\"\n#define TILE 8\nint a = TILE;\n");
  write("b.cu", "#ifndef TILE\n#define TILE 16\n#endif\nint b = TILE, WIDTH;\n");
  const auto source = read_both();
  ASSERT_TRUE(source.ok()) << source.error().message;
  const size_t second = source->text.find("int b");
  for (const char* name : {"TILE", "WIDTH"}) {
    const std::string pragma = "_macro(\"" + std::string(name) + "\")\n";
    EXPECT_LT(source->text.find("#pragma push" + pragma), source->text.find("int a"));
    EXPECT_LT(source->text.find("#pragma pop" + pragma), second);
  }
}

TEST_F(ProgramFiles, MacrosOfSharedHeadersArePassedOn) {
  write("both.cuh", "#ifndef BOTH\n#define BOTH\n#define TILE 8\n#endif\n");
  write("a.cu", "#include \"both.cuh\"\n#define TILE_A TILE\n");
  write("b.cu", "#include \"both.cuh\"\nint b = TILE;\n");
  EXPECT_EQ(refusal(), "");
  // Compiled by itself, it would not know the macro yet.
  write("b.cu", "#ifdef TILE\n#endif\n#include \"both.cuh\"\n");
  const std::string message = refusal();
  for (const char* part : {"macro TILE", "both.cuh", "b.cu"}) {
    EXPECT_NE(message.find(part), std::string::npos) << message;
  }
}

TEST_F(ProgramFiles, WhatAMacroDoesIsNoMacro) {
  write("both.cuh", "#pragma once\n#define DO(x) do { x; } while (0)\n#define F(x) x; #x count\n");
  write("a.cu", "#include \"both.cuh\"\nint a = 0, count;\n");
  write("b.cu", "int b = 0, count;\n#include \"both.cuh\"\n");
  EXPECT_EQ(refusal(), "");
}

TEST_F(ProgramFiles, HeadersThatAreReadOnceAreNotConfiguredTwice) {
  write("both.cuh", "#pragma once\nconst int tile = TILE;\n");
  write("a.cu", "#define TILE 8\n#include \"both.cuh\"\n");
  write("b.cu", "#define TILE 16\n#include \"both.cuh\"\n");
  const std::string message = refusal();
  for (const char* part : {"macro TILE", "a.cu", "both.cuh"}) {
    EXPECT_NE(message.find(part), std::string::npos) << message;
  }
  write("b.cu", "#define TILE 8\n#include \"both.cuh\"\n");
  EXPECT_EQ(refusal(), "");
  write("b.cu", "#define TILE 16\n#include \"both.cuh\"\n");
  write("both.cuh", "const int NAME = TILE;\n");
  EXPECT_EQ(refusal(), "");
}

TEST_F(ProgramFiles, ACopyThatCannotBeWrittenIsAnError) {
  write("a.cu", "#include \"k.cuh\"\n");
  write("k.cuh", "\n");
  std::filesystem::create_directories(folder_ / "scratch/0_k.cuh/in_the_way");
  EXPECT_FALSE(read_program({folder_ / "a.cu"}, {}, folder_ / "scratch").ok());
}

TEST_F(ProgramFiles, NamesOfFilesAreEscaped) {
  write("a\"b.cu", "int a;\n");
  const auto source = read_program({folder_ / "a\"b.cu"}, {}, folder_ / "scratch");
  ASSERT_TRUE(source.ok());
  EXPECT_NE(source->text.find("a\\\"b.cu\"\n"), std::string::npos) << source->text;
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
  EXPECT_NE(header->find("\nLAMBENT_LAUNCH k();"), std::string::npos);
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace lambent::bundle
