// Clients of MPS: their kernels run side by side, each within its share.
#include <cmath>
#include <cstdio>

#include "conformance/own_node.h"

namespace lambent::conformance {
namespace {

class Mps : public testing::Test {
 protected:
  void SetUp() override {
    EMULATOR_ONLY("MPS is a daemon of the machine, not of this suite");
    MODELLED_TIME_ONLY();
  }
};

TEST_F(Mps, AClientsKernelsKeepToItsShareWhateverTheOthersDo) {
  OwnNode node("tiny", {{"[node]", "[node]\nmps = true"}});
  Setting half("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", "50");
  EXPECT_EQ(OwnNode::ask("node_time"), "multiprocessors 4 elapsed 20.00 ms");
  Peer other;
  ASSERT_TRUE(other.start("occupy"));
  ASSERT_TRUE(other.expect('r'));
  EXPECT_EQ(OwnNode::ask("node_time"), "multiprocessors 4 elapsed 20.00 ms");
  other.kill_and_wait();
}

TEST_F(Mps, WithoutMpsAShareMeansNothing) {
  OwnNode node("tiny", {});
  Setting half("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", "50");
  EXPECT_EQ(OwnNode::ask("node_time"), "multiprocessors 8 elapsed 10.00 ms");
}

TEST_F(Mps, AContextCanHaveAnAffinity) {
  {
    OwnNode node("tiny", {{"[node]", "[node]\nmps = true"}});
    EXPECT_EQ(OwnNode::ask("node_affinity"), "support 1 create 0 multiprocessors 4");
  }
  OwnNode node("tiny", {});
  EXPECT_EQ(OwnNode::ask("node_affinity"), "support 0 create 224 multiprocessors 8");
}

TEST_F(Mps, AClientsMemoryIsLimited) {
  OwnNode node("tiny", {{"[node]", "[node]\nmps = true"}});
  Setting limit("CUDA_MPS_PINNED_DEVICE_MEM_LIMIT", "0=256M");
  EXPECT_EQ(OwnNode::ask("node_fill"), "100 MiB: 0 200 MiB: 2");
}

}  // namespace

int play_node(const std::string& role) {
  Driver& cu = driver();
  char line[512] = "";
  CUcontext context = nullptr;
  if (role == "node_time") {
    CUmodule module;
    CUfunction busy;
    CUstream stream;
    CUevent begin, end;
    float elapsed_ms = 0;
    int multiprocessors = 0;
    uint64_t ns = 10'000'000;
    void* parameters[] = {&ns};
    Gate gate;
    std::string why_not;
    auto image = kernel_image(&why_not);
    bool good =
        !image.empty() && !cu.ctx_create_v2(&context, 0, 0) &&
        !cu.device_get_attribute(&multiprocessors, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 0) &&
        !cu.module_load_data(&module, image.data()) &&
        !cu.module_get_function(&busy, module, "busy") &&
        !cu.stream_create(&stream, CU_STREAM_NON_BLOCKING) && !cu.event_create(&begin, 0) &&
        !cu.event_create(&end, 0) && !gate.close(stream) &&
        !cu.launch_kernel(busy, 1000, 1, 1, 256, 1, 1, 0, stream, parameters, nullptr) &&
        !cu.event_record(begin, stream) &&
        !cu.launch_kernel(busy, 1000, 1, 1, 256, 1, 1, 0, stream, parameters, nullptr) &&
        !cu.event_record(end, stream);
    gate.open();
    good = good && !cu.event_synchronize(end) && !cu.event_elapsed_time_v2(&elapsed_ms, begin, end);
    if (!good) return 4;
    std::snprintf(line, sizeof line, "multiprocessors %d elapsed %.2f ms\n", multiprocessors,
                  elapsed_ms);
  } else if (role == "node_affinity") {
    int supported = -1;
    CUexecAffinityParam affinity{};
    affinity.param.smCount.val = 3;
    if (cu.device_get_exec_affinity_support(&supported, CU_EXEC_AFFINITY_TYPE_SM_COUNT, 0)) {
      return 4;
    }
    CUresult created = cu.ctx_create_v3(&context, &affinity, 1, 0, 0);
    if (created && cu.ctx_create_v2(&context, 0, 0)) return 4;
    if (cu.ctx_get_exec_affinity(&affinity, CU_EXEC_AFFINITY_TYPE_SM_COUNT)) return 4;
    std::snprintf(line, sizeof line, "support %d create %d multiprocessors %u\n", supported,
                  created, affinity.param.smCount.val);
  } else if (role == "node_fill") {
    CUdeviceptr address;
    if (cu.ctx_create_v2(&context, 0, 0)) return 4;
    CUresult first = cu.mem_alloc(&address, 100 << 20), second = cu.mem_alloc(&address, 200 << 20);
    std::snprintf(line, sizeof line, "100 MiB: %d 200 MiB: %d\n", first, second);
  } else if (role == "node_describe") {
    int count = 0, multiprocessors = 0;
    size_t bytes = 0;
    char name[128] = "";
    bool good =
        !cu.device_get_count(&count) && !cu.device_get_name(name, sizeof name, 0) &&
        !cu.device_total_mem(&bytes, 0) &&
        !cu.device_get_attribute(&multiprocessors, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 0);
    if (!good) return 4;
    std::snprintf(line, sizeof line, "%d devices, %s, %d multiprocessors, %zu MiB\n", count, name,
                  multiprocessors, bytes >> 20);
  }
  std::string text = line;
  if (write(1, text.data(), text.size()) < 0) return 4;
  char byte;
  return read(0, &byte, 1) == 1 ? 0 : 4;
}

}  // namespace lambent::conformance
