// Every exported name is there, and those that the list calls done are really defined: a refusal is
// a weak symbol, a function of ours is not.
#include <dlfcn.h>
#include <elf.h>
#include <gtest/gtest.h>
#include <link.h>

#include <string>

namespace {

struct Symbol {
  const char* name;
  const char* kind;
  const char* reason;
};

constexpr Symbol kSymbols[] = {
#define RUNTIME_SYMBOL(name, kind, reason) {#name, #kind, reason},
#include "gpu/cuda_abi/runtime_symbols.inc"
#undef RUNTIME_SYMBOL
};

void* open_runtime() {
  return dlopen(LAMBENT_BINARY_DIR "/lib/emulated_runtime/libcudart.so.13", RTLD_NOW | RTLD_LOCAL);
}

TEST(RuntimeSymbols, AreDefinedWhereTheListSaysSo) {
  void* runtime = open_runtime();
  ASSERT_NE(runtime, nullptr) << dlerror();
  for (const Symbol& symbol : kSymbols) {
    void* address = dlvsym(runtime, symbol.name, "libcudart.so.13");
    ASSERT_NE(address, nullptr) << symbol.name;
    Dl_info info;
    ElfW(Sym)* entry = nullptr;
    ASSERT_NE(dladdr1(address, &info, reinterpret_cast<void**>(&entry), RTLD_DL_SYMENT), 0);
    ASSERT_NE(entry, nullptr) << symbol.name;
    const bool refusal = ELF64_ST_BIND(entry->st_info) == STB_WEAK;
    EXPECT_EQ(refusal, std::string(symbol.kind) != "done") << symbol.name;
    EXPECT_EQ(refusal, symbol.reason[0] != '\0') << symbol.name << " needs a reason, or none";
  }
}

TEST(RuntimeSymbols, AreThoseOfTheToolkitsRuntime) {
  const char* path = "/usr/local/cuda/lib64/libcudart.so.13";
  void* toolkit = dlopen(path, RTLD_LAZY | RTLD_LOCAL);
  if (!toolkit) GTEST_SKIP() << "no CUDA 13 toolkit on this machine";
  for (const Symbol& symbol : kSymbols) {
    EXPECT_NE(dlvsym(toolkit, symbol.name, "libcudart.so.13"), nullptr) << symbol.name;
  }
}

TEST(RuntimeErrors, HaveNamesAndTextsWithoutADriver) {
  void* runtime = open_runtime();
  ASSERT_NE(runtime, nullptr) << dlerror();
  auto name = reinterpret_cast<const char* (*)(int)>(dlsym(runtime, "cudaGetErrorName"));
  auto text = reinterpret_cast<const char* (*)(int)>(dlsym(runtime, "cudaGetErrorString"));
#define RUNTIME_ERROR(code, value, description) \
  EXPECT_STREQ(name(value), #code);             \
  EXPECT_STRNE(text(value), "");                \
  EXPECT_STRNE(text(value), "unrecognized error code") << #code;
#include "gpu/cuda_abi/runtime_errors.inc"
#undef RUNTIME_ERROR
  EXPECT_STREQ(name(123456), "unrecognized error code");
  EXPECT_STREQ(text(-1), "unrecognized error code");
}

}  // namespace
