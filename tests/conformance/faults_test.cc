// Faults that a plan asks for: calls that fail or are late, counted for each process.
#include <stdlib.h>
#include <unistd.h>

#include <fstream>
#include <future>
#include <thread>

#include "conformance/own_node.h"

namespace lambent::conformance {
namespace {

class Faults : public testing::Test {
 protected:
  void SetUp() override {
    EMULATOR_ONLY("a GPU has no fault plan");
    ASSERT_EQ(setenv("EMULATED_CUDA_LOG", log.c_str(), 1), 0);
  }
  void TearDown() override {
    unlink(log.c_str());
    previous_log.empty() ? unsetenv("EMULATED_CUDA_LOG")
                         : setenv("EMULATED_CUDA_LOG", previous_log.c_str(), 1);
  }
  // The line that a peer playing `role` writes under this plan.
  std::string under(const std::string& plan, const std::string& role) {
    Setting faults("EMULATED_CUDA_FAULTS", plan);
    Peer peer;
    if (!peer.start(role)) return "no peer";
    std::string line = peer.read_line();
    peer.tell('q');
    peer.wait_for_exit();
    return line;
  }

  std::string previous_log = getenv("EMULATED_CUDA_LOG") ? getenv("EMULATED_CUDA_LOG") : "";
  std::string log = testing::TempDir() + "/faults_" + std::to_string(getpid()) + ".log";
};

TEST_F(Faults, TheNthCallFailsWithTheCodeThatThePlanStates) {
  EXPECT_EQ(under("fail cuMemAlloc call 3 with CUDA_ERROR_OUT_OF_MEMORY", "faults_allocate"),
            "0 0 2 0 0 0");
  EXPECT_EQ(under("fail cuMemAlloc every 2 with CUDA_ERROR_ECC_UNCORRECTABLE", "faults_allocate"),
            "0 214 0 214 0 214");
  EXPECT_EQ(under("fail cuMemAlloc_v2 from 5 with CUDA_ERROR_UNKNOWN", "faults_allocate"),
            "0 0 0 0 999 999");
}

TEST_F(Faults, AFunctionFoundThroughGetProcAddressFailsToo) {
  EXPECT_EQ(under("fail cuDeviceGetCount call 2 with CUDA_ERROR_INVALID_CONTEXT", "faults_resolve"),
            "0 201 0");
}

TEST_F(Faults, ManyParametersArriveBehindADivertedCall) {
  BODIES_ONLY();
  EXPECT_EQ(under("delay cuLaunchKernel every 1 by 1us", "faults_launch"), "0 5");
}

TEST_F(Faults, APlanWithAMistakeIsNamedAndChangesNothing) {
  EXPECT_EQ(under("fail cuMemAlloc sometimes", "faults_allocate"), "0 0 0 0 0 0");
  EXPECT_EQ(under("fail cuMemAllocc call 1 with CUDA_ERROR_UNKNOWN", "faults_allocate"),
            "0 0 0 0 0 0");
  std::ifstream file(log);
  std::string all((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  EXPECT_NE(all.find("'sometimes' is not 'call', 'every' or 'from'"), std::string::npos) << all;
  EXPECT_NE(all.find("the driver has no function cuMemAllocc"), std::string::npos) << all;
}

TEST_F(Faults, CallsAreCountedByName) {
  std::string path = testing::TempDir() + "/trace_" + std::to_string(getpid());
  unlink(path.c_str());
  {
    Setting trace("EMULATED_CUDA_TRACE", path);
    EXPECT_EQ(under("", "faults_allocate"), "0 0 0 0 0 0");
  }
  std::ifstream file(path);
  int pid = 0, count = 0, allocations = 0;
  for (std::string name; file >> pid >> count >> name;) {
    if (name == "cuMemAlloc_v2") allocations = count;
    EXPECT_NE(name, "cuMemFree_v2");
  }
  EXPECT_EQ(allocations, 6);
  unlink(path.c_str());
}

}  // namespace

int play_faults(const std::string& role) {
  Driver& cu = driver();
  CUcontext context;
  if (cu.ctx_create_v2(&context, 0, 0)) return 4;
  std::string line;
  auto note = [&](int result) { line += (line.empty() ? "" : " ") + std::to_string(result); };
  if (role == "faults_allocate") {
    CUdeviceptr address;
    for (int i = 0; i < 6; i++) note(cu.mem_alloc(&address, 4096));
  } else if (role == "faults_resolve") {
    CUresult (*get_count)(int*) = nullptr;
    int devices;
    cu.get_proc_address("cuDeviceGetCount", reinterpret_cast<void**>(&get_count), 13000, 0);
    for (int i = 0; i < 3; i++) note(get_count(&devices));
  } else if (role == "faults_stuck") {
    std::string why_not;
    auto image = kernel_image(&why_not);
    CUmodule module;
    CUfunction busy;
    CUstream stream;
    uint64_t ns = 1;
    void* parameters[] = {&ns};
    if (image.empty() || cu.module_load_data(&module, image.data())) return 4;
    if (cu.module_get_function(&busy, module, "busy") || cu.stream_create(&stream, 0)) return 4;
    if (cu.launch_kernel(busy, 1, 1, 1, 32, 1, 1, 0, stream, parameters, nullptr)) return 4;
    CUresult copied = CUDA_SUCCESS;
    std::promise<CUresult> told;
    const CUstreamCallback tell = [](CUstream, CUresult result, void* promise) {
      static_cast<std::promise<CUresult>*>(promise)->set_value(result);
    };
    if (cu.stream_add_callback(stream, tell, &told, 0)) return 4;
    CUcontext context;
    CUdeviceptr memory;
    if (cu.ctx_get_current(&context) || cu.mem_alloc(&memory, 4)) return 4;
    // Waits for the kernel, in the legacy stream.
    std::promise<void> begins;
    std::thread copier([&] {
      unsigned value = 0;
      cu.ctx_set_current(context);
      begins.set_value();
      copied = cu.memcpy_d_to_h(&value, memory, 4);
    });
    begins.get_future().wait();
    note(cu.stream_query(stream));
    cu.profiler_start();  // the plan strikes here
    note(cu.ctx_synchronize());
    note(told.get_future().get());
    copier.join();
    note(copied);
  } else if (role == "faults_launch") {
    std::string why_not;
    auto image = kernel_image(&why_not);
    CUmodule module;
    CUfunction count;
    CUdeviceptr counter;
    unsigned value = 0;
    if (image.empty() || cu.module_load_data(&module, image.data())) return 4;
    if (cu.module_get_function(&count, module, "count") || cu.mem_alloc(&counter, 4)) return 4;
    if (cu.memset_d32(counter, 0, 1)) return 4;
    void* parameters[] = {&counter};
    note(cu.launch_kernel(count, 5, 1, 1, 32, 1, 1, 0, nullptr, parameters, nullptr));
    if (cu.memcpy_d_to_h(&value, counter, 4)) return 4;
    note(static_cast<int>(value));
  }
  line += '\n';
  if (write(1, line.data(), line.size()) < 0) return 4;
  char byte;
  return read(0, &byte, 1) == 1 ? 0 : 4;
}

}  // namespace lambent::conformance
