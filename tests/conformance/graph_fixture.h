// What the cases about graphs start from: a graph, a stream to launch it into, and words that its
// nodes write.
#pragma once

#include "conformance/fixture.h"

namespace lambent::conformance {

class Graphs : public WithKernels {
 protected:
  void SetUp() override {
    WithKernels::SetUp();
    if (IsSkipped()) return;
    OK(cu.graph_create(&graph, 0));
    OK(cu.stream_create(&stream, CU_STREAM_NON_BLOCKING));
    word = allocate(4096);
    OK(cu.memset_d32(word, 0, 1024));
    OK(cu.ctx_synchronize());
  }
  void TearDown() override {
    for (CUgraphExec exec : execs) EXPECT_EQ(cu.graph_exec_destroy(exec), CUDA_SUCCESS);
    if (graph) {
      EXPECT_EQ(cu.graph_destroy(graph), CUDA_SUCCESS);
    }
    if (stream) {
      EXPECT_EQ(cu.stream_destroy(stream), CUDA_SUCCESS);
    }
    WithKernels::TearDown();
  }

  CUDA_MEMSET_NODE_PARAMS fill_of(CUdeviceptr to, unsigned value, size_t count = 1) {
    return {to, 0, value, 4, count, 1};
  }
  CUgraphNode fill(CUdeviceptr to, unsigned value, std::vector<CUgraphNode> after = {},
                   CUgraph into = nullptr) {
    CUgraphNode node = nullptr;
    auto parameters = fill_of(to, value);
    EXPECT_EQ(cu.graph_add_memset_node(&node, into ? into : graph, after.data(), after.size(),
                                       &parameters, context),
              CUDA_SUCCESS);
    return node;
  }
  CUgraphNode empty(std::vector<CUgraphNode> after = {}) {
    CUgraphNode node = nullptr;
    EXPECT_EQ(cu.graph_add_empty_node(&node, graph, after.data(), after.size()), CUDA_SUCCESS);
    return node;
  }
  CUgraphNode host(CUhostFn function, void* data, std::vector<CUgraphNode> after = {}) {
    CUgraphNode node = nullptr;
    CUDA_HOST_NODE_PARAMS parameters{function, data};
    EXPECT_EQ(cu.graph_add_host_node(&node, graph, after.data(), after.size(), &parameters),
              CUDA_SUCCESS);
    return node;
  }
  CUDA_KERNEL_NODE_PARAMS kernel_of(const char* name, unsigned grid, void** parameters) {
    CUDA_KERNEL_NODE_PARAMS wanted{};
    wanted.func = function(name);
    wanted.gridDimX = grid;
    wanted.gridDimY = wanted.gridDimZ = wanted.blockDimY = wanted.blockDimZ = 1;
    wanted.blockDimX = 32;
    wanted.kernelParams = parameters;
    return wanted;
  }
  CUgraphNode kernel(const char* name, unsigned grid, std::vector<void*> parameters,
                     std::vector<CUgraphNode> after = {}, CUgraph into = nullptr) {
    CUgraphNode node = nullptr;
    auto wanted = kernel_of(name, grid, parameters.data());
    EXPECT_EQ(
        cu.graph_add_kernel_node(&node, into ? into : graph, after.data(), after.size(), &wanted),
        CUDA_SUCCESS);
    return node;
  }
  CUgraphExec instantiate(unsigned long long flags = 0) {
    CUgraphExec exec = nullptr;
    EXPECT_EQ(cu.graph_instantiate(&exec, graph, flags), CUDA_SUCCESS);
    if (exec) execs.push_back(exec);
    return exec;
  }
  void run(CUgraphExec exec) {
    OK(cu.graph_launch(exec, stream));
    OK(cu.stream_synchronize(stream));
  }
  uint32_t value(size_t index = 0) {
    uint32_t read = 0;
    EXPECT_EQ(cu.memcpy_d_to_h(&read, word + 4 * index, 4), CUDA_SUCCESS);
    return read;
  }

  CUgraph graph = nullptr;
  CUstream stream = nullptr;
  CUdeviceptr word = 0;
  std::vector<CUgraphExec> execs;
};

}  // namespace lambent::conformance
