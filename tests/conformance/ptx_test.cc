// PTX that a program makes while it runs: compiled once for each content, linked, or refused with a
// reason. A kernel of what was loaded runs; what it computes is the business of kernels_test.
#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <vector>

#include "conformance/fixture.h"
#include "conformance/ptx.h"
#include "gpu/cuda_abi/ptx_job.h"

namespace lambent::conformance {
namespace {

class Ptx : public WithContext {
 protected:
  // What loading it says, with the logs that a program may ask for.
  CUresult load(const std::string& text) {
    std::strcpy(error_log, "");
    std::strcpy(info_log, "");
    CUjit_option options[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES,
                              CU_JIT_INFO_LOG_BUFFER, CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES,
                              static_cast<CUjit_option>(12)};  // CU_JIT_LOG_VERBOSE
    void* values[] = {error_log, reinterpret_cast<void*>(sizeof error_log), info_log,
                      reinterpret_cast<void*>(sizeof info_log), reinterpret_cast<void*>(1)};
    const CUresult result = cu.module_load_data_ex(&module, text.c_str(), 5, options, values);
    error_bytes = reinterpret_cast<size_t>(values[1]);
    return result;
  }
  // What the kernel stores.
  int stored(const char* kernel) {
    CUfunction function = nullptr;
    EXPECT_EQ(cu.module_get_function(&function, module, kernel), CUDA_SUCCESS) << kernel;
    CUdeviceptr out = allocate(4);
    EXPECT_EQ(cu.memset_d32(out, 0, 1), CUDA_SUCCESS);
    void* parameters[] = {&out};
    EXPECT_EQ(cu.launch_kernel(function, 1, 1, 1, 1, 1, 1, 0, nullptr, parameters, nullptr),
              CUDA_SUCCESS);
    int value = -1;
    EXPECT_EQ(cu.memcpy_d_to_h(&value, out, sizeof value), CUDA_SUCCESS);
    EXPECT_EQ(cu.mem_free(out), CUDA_SUCCESS);
    return value;
  }

  CUmodule module = nullptr;
  char error_log[1000] = "", info_log[1000] = "";
  size_t error_bytes = 0;
};

TEST_F(Ptx, ATextBecomesAModule) {
  ASSERT_EQ(load(ptx_storing("store", 41)), CUDA_SUCCESS) << error_log;
  if (!driver().model_mode) {
    EXPECT_EQ(stored("store"), 41);
  }
  CUfunction none = nullptr;
  EXPECT_EQ(cu.module_get_function(&none, module, "other"), CUDA_ERROR_NOT_FOUND);
  OK(cu.module_unload(module));
}

TEST_F(Ptx, VariablesHaveTheirFirstValuesAndAreFoundByTheirNames) {
  ASSERT_EQ(load(ptx_module(".visible .global .align 4 .u32 numbers[3] = {5, 6, 7};\n"
                            ".visible .const .align 4 .u32 factor = 9;\n")),
            CUDA_SUCCESS)
      << error_log;
  CUdeviceptr address = 0;
  size_t bytes = 0;
  OK(cu.module_get_global(&address, &bytes, module, "numbers"));
  EXPECT_EQ(bytes, 12u);
  int numbers[3] = {};
  OK(cu.memcpy_d_to_h(numbers, address, sizeof numbers));
  EXPECT_EQ(numbers[2], 7);
  OK(cu.module_get_global(&address, &bytes, module, "factor"));
  EXPECT_EQ(bytes, 4u);
  OK(cu.module_unload(module));
}

TEST_F(Ptx, AKernelTellsItsLimits) {
  ASSERT_EQ(load(ptx_module(".visible .entry k() .maxntid 96, 1, 1\n{\n"
                            ".shared .align 4 .b8 tile[256];\n.reg .b32 %r<2>;\n"
                            "mov.u32 %r1, tile;\nst.shared.u32 [%r1], 1;\nret;\n}\n")),
            CUDA_SUCCESS)
      << error_log;
  CUfunction kernel = nullptr;
  OK(cu.module_get_function(&kernel, module, "k"));
  int threads = 0, shared = 0, blocks = 0;
  OK(cu.func_get_attribute(&threads, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, kernel));
  OK(cu.func_get_attribute(&shared, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, kernel));
  OK(cu.occupancy_max_active_blocks_per_multiprocessor(&blocks, kernel, 96, 0));
  EXPECT_EQ(threads, 96);
  EXPECT_GE(shared, 256);
  EXPECT_GT(blocks, 0);
  OK(cu.module_unload(module));
}

TEST_F(Ptx, ModulesAreLinked) {
  std::string caller = ptx_module(
      ".extern .func (.param .b32 r) seven();\n"
      ".visible .entry store(.param .u64 out)\n{\n.reg .b64 %rd<2>;\n.reg .b32 %r<2>;\n"
      "ld.param.u64 %rd1, [out];\n{\n.param .b32 result;\n"
      "call.uni (result), seven, ();\nld.param.b32 %r1, [result];\n}\n"
      "st.global.u32 [%rd1], %r1;\nret;\n}\n");
  std::string callee = ptx_module(
      ".visible .func (.param .b32 r) seven()\n{\n.reg .b32 %r<2>;\nmov.u32 %r1, 7;\n"
      "st.param.b32 [r], %r1;\nret;\n}\n");
  CUlinkState link = nullptr;
  OK(cu.link_create_v2(0, nullptr, nullptr, &link));
  for (std::string* text : {&caller, &callee}) {
    OK(cu.link_add_data_v2(link, CU_JIT_INPUT_PTX, text->data(), text->size() + 1, "part", 0,
                           nullptr, nullptr));
  }
  void* linked = nullptr;
  size_t bytes = 0;
  OK(cu.link_complete(link, &linked, &bytes));
  OK(cu.module_load_data(&module, linked));
  OK(cu.link_destroy(link));
  if (!driver().model_mode) {
    EXPECT_EQ(stored("store"), 7);
  }
  OK(cu.module_unload(module));
}

// As Thrust's kernels for sm_90 do: one thread has a tile copied in, all wait for its bytes, and
// one has what they made of it copied out.
TEST_F(Ptx, ABarrierInMemoryWaitsForThreadsAndForCopiedBytes) {
  constexpr unsigned kThreads = 64;
  const std::string text = R"(.version 8.0
.target sm_90
.address_size 64
.visible .entry negated(.param .u64 from, .param .u64 to, .param .u64 seen) .maxntid 64, 1, 1
{
.shared .align 128 .b8 tile[256];
.shared .align 8 .b64 bar;
.reg .pred %p<4>;
.reg .b32 %r<8>;
.reg .b64 %rd<8>;
ld.param.u64 %rd1, [from];
ld.param.u64 %rd2, [to];
ld.param.u64 %rd3, [seen];
mov.u32 %r1, %tid.x;
mov.u32 %r2, tile;
mov.u32 %r3, bar;
setp.ne.u32 %p1, %r1, 0;
@%p1 bra $begun;
mbarrier.init.shared::cta.b64 [%r3], 65;
fence.proxy.async.shared::cta;
$begun:
bar.sync 0;
@%p1 bra $arrive;
cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r2], [%rd1], 256, [%r3];
mbarrier.arrive.expect_tx.release.cta.shared::cta.b64 _, [%r3], 256;
$arrive:
mbarrier.arrive.shared::cta.b64 %rd4, [%r3];
mbarrier.pending_count.b64 %r4, %rd4;
shl.b32 %r5, %r1, 2;
cvt.u64.u32 %rd5, %r5;
add.s64 %rd6, %rd3, %rd5;
st.global.u32 [%rd6], %r4;
$again:
mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r3], 0;
@!%p2 bra $again;
add.s32 %r6, %r2, %r5;
ld.shared.u32 %r7, [%r6];
neg.s32 %r7, %r7;
st.shared.u32 [%r6], %r7;
bar.sync 0;
@%p1 bra $done;
cp.async.bulk.global.shared::cta.bulk_group [%rd2], [%r2], 256;
cp.async.bulk.commit_group;
cp.async.bulk.wait_group 0;
$done:
ret;
}
)";
  ASSERT_EQ(load(text), CUDA_SUCCESS) << error_log;
  CUfunction kernel = nullptr;
  OK(cu.module_get_function(&kernel, module, "negated"));
  std::vector<int> values(kThreads), found(kThreads);
  std::vector<unsigned> pending(kThreads);
  for (unsigned i = 0; i < kThreads; ++i) values[i] = static_cast<int>(i * i);
  CUdeviceptr from = allocate(256), to = allocate(256), seen = allocate(256);
  OK(cu.memcpy_h_to_d(from, values.data(), 256));
  void* parameters[] = {&from, &to, &seen};
  OK(cu.launch_kernel(kernel, 1, 1, 1, kThreads, 1, 1, 0, nullptr, parameters, nullptr));
  OK(cu.memcpy_d_to_h(found.data(), to, 256));
  OK(cu.memcpy_d_to_h(pending.data(), seen, 256));
  if (!driver().model_mode) {
    for (unsigned i = 0; i < kThreads; ++i) EXPECT_EQ(found[i], -values[i]) << i;
    // Each arrival saw another count: all but the first of the 65 were the threads' own.
    std::sort(pending.begin(), pending.end());
    for (unsigned i = 0; i < kThreads; ++i) {
      EXPECT_GE(pending[i], i + 1);
      EXPECT_LE(pending[i], i + 2);
    }
    EXPECT_EQ(std::unique(pending.begin(), pending.end()), pending.end());
  }
  for (const CUdeviceptr each : {from, to, seen}) OK(cu.mem_free(each));
  OK(cu.module_unload(module));
}

TEST_F(Ptx, WhatIsNoPtxIsToldWithItsLine) {
  EXPECT_EQ(load(ptx_module(".visible .entry k()\n{\nfrobnicate.s32 %r1;\nret;\n}\n")),
            CUDA_ERROR_INVALID_PTX);
  EXPECT_EQ(error_bytes, std::strlen(error_log));
  EXPECT_NE(std::strstr(error_log, "line 6"), nullptr) << error_log;
  EXPECT_NE(std::strstr(error_log, "frobnicate"), nullptr) << error_log;
  EXPECT_EQ(load(".version 8.0"), CUDA_ERROR_INVALID_PTX);
  CUlibrary library = nullptr;
  EXPECT_EQ(
      cu.library_load_data(&library, "// nothing\n", nullptr, nullptr, 0, nullptr, nullptr, 0),
      CUDA_ERROR_INVALID_PTX);
}

TEST_F(Ptx, WhatTheHostCannotDoIsToldByName) {
  EMULATOR_ONLY("a GPU has tensor cores");
  const std::string tensor =
      ".reg .b32 %r<9>;\n"
      "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%r1}, {%r2}, {%r3}, {%r4};\n";
  EXPECT_EQ(load(ptx_module(".visible .entry k()\n{\n" + tensor + "ret;\n}\n")),
            CUDA_ERROR_NOT_SUPPORTED);
  EXPECT_NE(std::strstr(error_log, "line 7"), nullptr) << error_log;
  EXPECT_NE(std::strstr(info_log, "mma.sync"), nullptr) << info_log;
}

TEST_F(Ptx, PtxOfABundleIsLeftToTheImageBesideIt) {
  EMULATOR_ONLY("a GPU takes it");
  EXPECT_EQ(load(std::string(cuda_abi::kPtxOfBundle) + ptx_storing("store", 1)),
            CUDA_ERROR_NO_BINARY_FOR_GPU);
}

// Settings are those of a process: a peer has its own.
class PtxInPeers : public testing::Test {
 protected:
  void SetUp() override {
    EMULATOR_ONLY("the compiler of PTX is the emulator's own");
    char name[] = "/tmp/conformance_ptx.XXXXXX";
    ASSERT_NE(mkdtemp(name), nullptr);
    folder = name;
    setenv("CUDA_CACHE_PATH", (folder + "/cache").c_str(), 1);
  }
  void TearDown() override {
    for (const char* each :
         {"CUDA_CACHE_PATH", "EMULATED_CUDA_PTX_COMPILER", "CUDA_CACHE_DISABLE",
          "CUDA_DISABLE_PTX_JIT", "CONFORMANCE_PTX_VALUE", "EMULATED_CUDA_HOST_COMPILER"}) {
      unsetenv(each);
    }
    if (!folder.empty()) std::filesystem::remove_all(folder);
  }
  // The result of loading a module that stores this value, in a process of its own.
  int load(int value) {
    setenv("CONFORMANCE_PTX_VALUE", std::to_string(value).c_str(), 1);
    Peer peer;
    EXPECT_TRUE(peer.start("ptx"));
    return peer.wait_for_exit();
  }
  // A compiler that writes down each time it is asked, and then does what `rest` says.
  void use_compiler(const std::string& rest) {
    const std::string script = folder + "/compiler";
    std::ofstream file(script);
    file << "#!/bin/sh\necho asked >>" << folder << "/asked\n" << rest << "\n";
    file.close();
    chmod(script.c_str(), 0700);
    setenv("EMULATED_CUDA_PTX_COMPILER", script.c_str(), 1);
  }
  size_t asked() const {
    std::ifstream file(folder + "/asked");
    size_t times = 0;
    for (std::string line; std::getline(file, line);) ++times;
    return times;
  }

  std::string folder;
};

// An exit status has eight bits.
int status(CUresult result) { return result & 255; }

constexpr const char* kReal = "exec " CONFORMANCE_BUNDLE " \"$@\"";

TEST_F(PtxInPeers, EachContentIsCompiledOnceForAllProcesses) {
  use_compiler(kReal);
  setenv("CONFORMANCE_PTX_VALUE", "17", 1);
  Peer peers[3];
  for (Peer& peer : peers) ASSERT_TRUE(peer.start("ptx"));
  for (Peer& peer : peers) EXPECT_EQ(peer.wait_for_exit(), CUDA_SUCCESS);
  EXPECT_EQ(asked(), 1u) << "three processes with two threads each";
  EXPECT_EQ(load(17), CUDA_SUCCESS);
  EXPECT_EQ(asked(), 1u);
  EXPECT_EQ(load(18), CUDA_SUCCESS);
  EXPECT_EQ(asked(), 2u);
  setenv("CUDA_CACHE_DISABLE", "1", 1);
  EXPECT_EQ(load(17), CUDA_SUCCESS);
  EXPECT_EQ(asked(), 3u) << "its threads share what is under way";
}

// What is compiled runs in the program: no file of the folder that it runs in becomes part of it.
TEST_F(PtxInPeers, HeadersOfTheCurrentFolderAreNotRead) {
  const auto before = std::filesystem::current_path();
  for (const char* name : {"index.h", "ptx.h", "language.h"}) {
    std::filesystem::create_directories(folder + "/lambent/host");
    std::ofstream(folder + "/lambent/host/" + name) << "#error of somewhere else\n";
  }
  std::filesystem::current_path(folder);
  const int result = load(20);
  std::filesystem::current_path(before);
  EXPECT_EQ(result, CUDA_SUCCESS);
}

TEST_F(PtxInPeers, AnotherCompilerMakesOtherCode) {
  use_compiler(kReal);
  const std::string script = folder + "/g++";
  for (const char* change : {"", "# another version\n"}) {
    std::ofstream(script) << "#!/bin/sh\n" << change << "exec g++ \"$@\"\n";
    chmod(script.c_str(), 0700);
    setenv("EMULATED_CUDA_HOST_COMPILER", script.c_str(), 1);
    EXPECT_EQ(load(22), CUDA_SUCCESS);
    EXPECT_EQ(load(22), CUDA_SUCCESS);
  }
  EXPECT_EQ(asked(), 2u);
}

// What is no module is not kept: the next one asks again.
TEST_F(PtxInPeers, OnlyModulesAreKept) {
  use_compiler("cd \"$2\"; head -c 5000 /dev/urandom >module.so; echo 'ptx: made'");
  EXPECT_EQ(load(23), status(CUDA_ERROR_INVALID_IMAGE));
  size_t kept = 0;
  for (const auto& each : std::filesystem::directory_iterator(folder + "/cache/emulated-cuda")) {
    if (each.path().extension() == ".code") ++kept;
  }
  EXPECT_EQ(kept, 0u);
}

TEST_F(PtxInPeers, ACacheThatIsNotUsedIsToldOf) {
  const char* before = getenv("EMULATED_CUDA_LOG");
  const std::string log = before != nullptr ? before : "";
  setenv("EMULATED_CUDA_LOG", (folder + "/log").c_str(), 1);
  std::filesystem::create_directory(folder + "/cache");
  chmod((folder + "/cache").c_str(), 0777);
  EXPECT_EQ(load(24), CUDA_SUCCESS);
  before != nullptr ? setenv("EMULATED_CUDA_LOG", log.c_str(), 1) : unsetenv("EMULATED_CUDA_LOG");
  std::ifstream file(folder + "/log");
  std::string lines((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  EXPECT_NE(lines.find("sticky bit"), std::string::npos) << lines;
}

// Whatever a compiler has started ends with the program, even one that is killed.
TEST_F(PtxInPeers, CompilersEndWithTheProgram) {
  const std::string held = folder + "/held", script = folder + "/slow";
  ASSERT_EQ(mkfifo(held.c_str(), 0600), 0);
  std::ofstream(script) << "#!/bin/sh\nexec 3>" << held << "\necho >&3\nsleep 1000 & wait\n";
  chmod(script.c_str(), 0700);
  setenv("EMULATED_CUDA_HOST_COMPILER", script.c_str(), 1);
  setenv("CONFORMANCE_PTX_VALUE", "21", 1);
  const int reader = open(held.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  ASSERT_GE(reader, 0);
  {
    Peer peer;
    ASSERT_TRUE(peer.start("ptx"));
    pollfd stream = {reader, POLLIN, 0};
    ASSERT_EQ(poll(&stream, 1, 60'000), 1);
    ASSERT_EQ(stream.revents & POLLIN, POLLIN);
    peer.kill_and_wait();
  }
  char bytes[16];
  ssize_t got = 0;
  for (int left = 1000; left > 0; --left) {
    got = read(reader, bytes, sizeof bytes);
    if (got == 0) break;
    poll(nullptr, 0, 10);
  }
  EXPECT_EQ(got, 0) << "a process still has it open for writing";
  close(reader);
}

TEST_F(PtxInPeers, HostCodeBesideTheProgramCountsIfItHasAllKernels) {
  setenv("EMULATED_CUDA_KERNELS", host_module().c_str(), 1);
  Peer peer;
  ASSERT_TRUE(peer.start("ptx_beside"));
  unsetenv("EMULATED_CUDA_KERNELS");
  EXPECT_EQ(peer.wait_for_exit(), 0);
}

TEST_F(PtxInPeers, WithoutACompilerThereIsNoCodeAndNoCrash) {
  setenv("EMULATED_CUDA_PTX_COMPILER", "/no/such/program", 1);
  EXPECT_EQ(load(19), status(CUDA_ERROR_NO_BINARY_FOR_GPU));
  unsetenv("EMULATED_CUDA_PTX_COMPILER");
  setenv("EMULATED_CUDA_HOST_COMPILER", "/no/such/compiler", 1);
  EXPECT_EQ(load(19), status(CUDA_ERROR_NO_BINARY_FOR_GPU));
  unsetenv("EMULATED_CUDA_HOST_COMPILER");
  for (const char* broken :
       {"exit 0", "kill -9 $$", "head -c 100000000 /dev/zero", "echo 'ptx: made'",
        "echo 'ptx: nonsense'", "ln -s /bin/sh \"$2/module.so\"; echo 'ptx: made'"}) {
    use_compiler(broken);
    EXPECT_EQ(load(19), status(CUDA_ERROR_OPERATING_SYSTEM)) << broken;
  }
  use_compiler("cd \"$2\"; head -c 5000 /dev/urandom >module.so; echo 'ptx: made'");
  EXPECT_EQ(load(19), status(CUDA_ERROR_INVALID_IMAGE));
  setenv("CUDA_DISABLE_PTX_JIT", "1", 1);
  EXPECT_EQ(load(19), status(CUDA_ERROR_JIT_COMPILATION_DISABLED));
}

}  // namespace
}  // namespace lambent::conformance
