#include <atomic>
#include <thread>

#include "conformance/fixture.h"

namespace lambent::conformance {
namespace {

class Captures : public WithKernels {
 protected:
  void SetUp() override {
    WithKernels::SetUp();
    if (IsSkipped()) return;
    OK(cu.stream_create(&stream, CU_STREAM_NON_BLOCKING));
    OK(cu.stream_create(&other, CU_STREAM_NON_BLOCKING));
    OK(cu.event_create(&fork, CU_EVENT_DISABLE_TIMING));
    OK(cu.event_create(&join, CU_EVENT_DISABLE_TIMING));
    word = allocate(4096);
    OK(cu.memset_d32(word, 0, 1024));
    OK(cu.ctx_synchronize());
  }
  void begin(CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_GLOBAL) {
    OK(cu.stream_begin_capture(stream, mode));
  }
  CUgraph end() {
    CUgraph graph = nullptr;
    EXPECT_EQ(cu.stream_end_capture(stream, &graph), CUDA_SUCCESS);
    return graph;
  }
  void expect_invalidated() {
    CUstreamCaptureStatus status;
    OK(cu.stream_is_capturing(stream, &status));
    EXPECT_EQ(status, CU_STREAM_CAPTURE_STATUS_INVALIDATED);
    EXPECT_EQ(cu.memset_d32_async(word, 1, 1, stream), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    CUgraph graph = reinterpret_cast<CUgraph>(1);
    EXPECT_EQ(cu.stream_end_capture(stream, &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    EXPECT_EQ(graph, nullptr);
    OK(cu.stream_is_capturing(stream, &status));
    EXPECT_EQ(status, CU_STREAM_CAPTURE_STATUS_NONE);
    OK(cu.memset_d32_async(word, 1, 1, stream));
  }
  void run(CUgraph graph) {
    CUgraphExec exec;
    OK(cu.graph_instantiate(&exec, graph, 0));
    OK(cu.graph_launch(exec, stream));
    OK(cu.stream_synchronize(stream));
    OK(cu.graph_exec_destroy(exec));
  }
  uint32_t value(size_t index = 0) {
    uint32_t read = 0;
    EXPECT_EQ(cu.memcpy_d_to_h(&read, word + 4 * index, 4), CUDA_SUCCESS);
    return read;
  }
  // The form of a function for programs with a default stream of each thread. `plain` gives its
  // type.
  template <class Function>
  Function variant_of(const char* name, Function plain) {
    void* found = nullptr;
    CUdriverProcAddressQueryResult status;
    EXPECT_EQ(cu.get_proc_address_v2(name, &found, 13000,
                                     CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM, &status),
              CUDA_SUCCESS);
    EXPECT_NE(found, reinterpret_cast<void*>(plain)) << name;
    return reinterpret_cast<Function>(found);
  }
  size_t nodes_of(CUgraph graph) {
    size_t count = 0;
    EXPECT_EQ(cu.graph_get_nodes(graph, nullptr, &count), CUDA_SUCCESS);
    return count;
  }

  CUstream stream = nullptr, other = nullptr;
  CUevent fork = nullptr, join = nullptr;
  CUdeviceptr word = 0;
};

TEST_F(Captures, WorkBecomesNodesAndDoesNotRun) {
  begin();
  OK(cu.memset_d32_async(word, 3, 1, stream));
  OK(cu.memcpy_d_to_d_async(word + 4, word, 4, stream));
  CUstreamCaptureStatus status;
  cuuint64_t id = 0;
  CUgraph graph = nullptr;
  const CUgraphNode* dependencies = nullptr;
  const CUgraphEdgeData* data = nullptr;
  size_t count = 0;
  OK(cu.stream_get_capture_info(stream, &status, &id, &graph, &dependencies, &data, &count));
  EXPECT_EQ(status, CU_STREAM_CAPTURE_STATUS_ACTIVE);
  EXPECT_NE(id, 0u);
  ASSERT_EQ(count, 1u);
  CUgraphNodeType type;
  OK(cu.graph_node_get_type(dependencies[0], &type));
  EXPECT_EQ(type, CU_GRAPH_NODE_TYPE_MEMCPY);
  CUgraph captured = end();
  EXPECT_EQ(captured, graph);
  EXPECT_EQ(nodes_of(captured), 2u);
  EXPECT_EQ(value(1), 0u);
  run(captured);
  EXPECT_EQ(value(1), 3u);
  OK(cu.graph_destroy(captured));
}

TEST_F(Captures, VariantsForThreadsTakeTheNullStreamForTheThreadsOwn) {
  const auto begin = variant_of("cuStreamBeginCapture", cu.stream_begin_capture);
  const auto end = variant_of("cuStreamEndCapture", cu.stream_end_capture);
  const auto fill = variant_of("cuMemsetD32Async", cu.memset_d32_async);
  const auto copy = variant_of("cuMemcpyDtoDAsync", cu.memcpy_d_to_d_async);
  const auto launch = variant_of("cuLaunchKernelEx", cu.launch_kernel_ex);
  const auto instantiate =
      variant_of("cuGraphInstantiateWithParams", cu.graph_instantiate_with_params);
  CUlaunchConfig config{};
  config.gridDimX = config.gridDimY = config.gridDimZ = 1;
  config.blockDimX = 32;
  config.blockDimY = config.blockDimZ = 1;
  void* parameters[] = {&word};

  OK(begin(nullptr, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
  CUstreamCaptureStatus status;
  OK(cu.stream_is_capturing(CU_STREAM_PER_THREAD, &status));
  EXPECT_EQ(status, CU_STREAM_CAPTURE_STATUS_ACTIVE);
  OK(fill(word, 3, 1, nullptr));
  OK(copy(word + 4, word, 4, nullptr));
  OK(launch(&config, function("count"), parameters, nullptr));
  EXPECT_EQ(config.hStream, nullptr);  // the caller's structure stays as it is
  EXPECT_NE(launch(nullptr, function("count"), parameters, nullptr), CUDA_SUCCESS);
  CUgraph graph = nullptr;
  OK(end(nullptr, &graph));
  EXPECT_EQ(nodes_of(graph), 3u);

  CUDA_GRAPH_INSTANTIATE_PARAMS how{};
  how.flags = CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD;
  CUgraphExec exec;
  OK(instantiate(&exec, graph, &how));
  EXPECT_EQ(how.result_out, CUDA_GRAPH_INSTANTIATE_SUCCESS);
  EXPECT_EQ(how.hUploadStream, nullptr);
  OK(cu.graph_exec_destroy(exec));
  OK(cu.graph_destroy(graph));
}

TEST_F(Captures, KernelsAndHostCallsAreReplayed) {
  BODIES_ONLY();
  std::atomic<int> calls{0};
  begin();
  OK(launch(function("count"), 4, 32, stream, {&word}));
  OK(cu.launch_host_func(
      stream, [](void* p) { ++*static_cast<std::atomic<int>*>(p); }, &calls));
  CUgraph graph = end();
  EXPECT_EQ(calls, 0);
  run(graph);
  run(graph);
  EXPECT_EQ(calls, 2);
  EXPECT_EQ(value(), 8u);
  OK(cu.graph_destroy(graph));
}

TEST_F(Captures, CopiesReadAndWriteTheHostAtEachLaunch) {
  uint32_t *from = nullptr, *to = nullptr;
  OK(cu.mem_host_alloc(reinterpret_cast<void**>(&from), 4096, 0));
  OK(cu.mem_host_alloc(reinterpret_cast<void**>(&to), 4096, 0));
  *from = *to = 1;
  begin();
  OK(cu.memcpy_h_to_d_async(word, from, 4096, stream));
  OK(cu.memcpy_d_to_d_async(word + 4, word, 4, stream));
  OK(cu.memcpy_d_to_h_async(to, word, 8, stream));
  CUgraph graph = end();
  EXPECT_EQ(nodes_of(graph), 3u);
  CUgraphExec exec;
  OK(cu.graph_instantiate(&exec, graph, 0));
  for (uint32_t round = 5; round < 8; round++) {
    from[0] = round;
    OK(cu.graph_launch(exec, stream));
    OK(cu.stream_synchronize(stream));
    EXPECT_EQ(to[0], round);
    EXPECT_EQ(to[1], round);
  }
  OK(cu.graph_exec_destroy(exec));
  OK(cu.graph_destroy(graph));
  OK(cu.mem_free_host(from));
  OK(cu.mem_free_host(to));
}

TEST_F(Captures, ThreadsCaptureSideBySide) {
  constexpr uint32_t kThreads = 4, kRounds = 20;
  std::atomic<uint32_t> good{0};
  const auto work = [&](uint32_t number) {
    const CUdeviceptr own = word + 8 * number;
    CUstream mine = nullptr;
    bool right = cu.ctx_set_current(context) == CUDA_SUCCESS &&
                 cu.stream_create(&mine, CU_STREAM_NON_BLOCKING) == CUDA_SUCCESS;
    for (uint32_t round = 1; right && round <= kRounds; round++) {
      CUgraph graph = nullptr;
      CUgraphExec exec = nullptr;
      uint32_t read = 0;
      right = cu.stream_begin_capture(mine, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL) == CUDA_SUCCESS &&
              cu.memset_d32_async(own, number + round, 1, mine) == CUDA_SUCCESS &&
              cu.memcpy_d_to_d_async(own + 4, own, 4, mine) == CUDA_SUCCESS &&
              cu.stream_end_capture(mine, &graph) == CUDA_SUCCESS && nodes_of(graph) == 2 &&
              cu.graph_instantiate(&exec, graph, 0) == CUDA_SUCCESS &&
              cu.graph_destroy(graph) == CUDA_SUCCESS &&
              cu.graph_launch(exec, mine) == CUDA_SUCCESS &&
              cu.memcpy_d_to_h_async(&read, own + 4, 4, mine) == CUDA_SUCCESS &&
              cu.stream_synchronize(mine) == CUDA_SUCCESS && read == number + round &&
              cu.graph_exec_destroy(exec) == CUDA_SUCCESS;
    }
    if (right && cu.stream_destroy(mine) == CUDA_SUCCESS) good++;
  };
  std::vector<std::thread> threads;
  for (uint32_t i = 0; i < kThreads; i++) threads.emplace_back(work, i);
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(good, kThreads);
}

TEST_F(Captures, OtherStreamsJoinThroughEvents) {
  begin();
  OK(cu.memset_d32_async(word, 1, 1, stream));
  OK(cu.event_record(fork, stream));
  OK(cu.stream_wait_event(other, fork, 0));
  CUstreamCaptureStatus status;
  OK(cu.stream_is_capturing(other, &status));
  EXPECT_EQ(status, CU_STREAM_CAPTURE_STATUS_ACTIVE);
  OK(cu.memset_d32_async(word + 4, 2, 1, other));
  OK(cu.memset_d32_async(word + 8, 3, 1, stream));
  OK(cu.event_record(join, other));
  OK(cu.stream_wait_event(stream, join, 0));
  OK(cu.memset_d32_async(word + 12, 4, 1, stream));
  CUgraph graph = end();
  OK(cu.stream_is_capturing(other, &status));
  EXPECT_EQ(status, CU_STREAM_CAPTURE_STATUS_NONE);
  EXPECT_EQ(nodes_of(graph), 4u);
  size_t edges = 0;
  OK(cu.graph_get_edges(graph, nullptr, nullptr, nullptr, &edges));
  EXPECT_EQ(edges, 4u);
  run(graph);
  for (uint32_t i = 0; i < 4; i++) EXPECT_EQ(value(i), i + 1);
  OK(cu.graph_destroy(graph));
}

TEST_F(Captures, UnjoinedWorkMakesItFail) {
  begin();
  OK(cu.event_record(fork, stream));
  OK(cu.stream_wait_event(other, fork, 0));
  OK(cu.memset_d32_async(word, 2, 1, other));
  CUgraph graph = nullptr;
  EXPECT_EQ(cu.stream_end_capture(stream, &graph), CUDA_ERROR_STREAM_CAPTURE_UNJOINED);
  EXPECT_EQ(graph, nullptr);
  OK(cu.memset_d32_async(word, 2, 1, other));
}

TEST_F(Captures, EndsOnlyWhereItBegan) {
  CUgraph graph = nullptr;
  EXPECT_EQ(cu.stream_end_capture(stream, &graph), CUDA_ERROR_ILLEGAL_STATE);
  begin();
  EXPECT_EQ(cu.stream_begin_capture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL),
            CUDA_ERROR_ILLEGAL_STATE);
  CUresult elsewhere = CUDA_SUCCESS;
  std::thread([&] {
    cu.ctx_set_current(context);
    elsewhere = cu.stream_end_capture(stream, &graph);
  }).join();
  EXPECT_EQ(elsewhere, CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD);
  OK(cu.event_record(fork, stream));
  OK(cu.stream_wait_event(other, fork, 0));
  EXPECT_EQ(cu.stream_end_capture(other, &graph), CUDA_ERROR_STREAM_CAPTURE_UNMATCHED);
  expect_invalidated();
  EXPECT_EQ(cu.stream_begin_capture(nullptr, CU_STREAM_CAPTURE_MODE_GLOBAL),
            CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
}

TEST_F(Captures, WaitingForTheHostInvalidatesIt) {
  begin();
  EXPECT_EQ(cu.stream_synchronize(stream), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  expect_invalidated();
  begin();
  EXPECT_EQ(cu.stream_query(stream), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  expect_invalidated();
  begin();
  EXPECT_EQ(cu.ctx_synchronize(), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  expect_invalidated();
  begin();
  OK(cu.event_record(fork, stream));
  EXPECT_EQ(cu.event_query(fork), CUDA_ERROR_CAPTURED_EVENT);
  expect_invalidated();
  EXPECT_EQ(cu.event_synchronize(fork), CUDA_ERROR_CAPTURED_EVENT);
}

TEST_F(Captures, EventsOfOutsideDoNotMix) {
  OK(cu.event_record(join, other));
  begin();
  EXPECT_EQ(cu.stream_wait_event(stream, join, 0), CUDA_ERROR_STREAM_CAPTURE_ISOLATION);
  expect_invalidated();
  // Two captures do not mix either.
  begin(CU_STREAM_CAPTURE_MODE_RELAXED);
  OK(cu.event_record(fork, stream));
  OK(cu.stream_begin_capture(other, CU_STREAM_CAPTURE_MODE_RELAXED));
  EXPECT_EQ(cu.stream_wait_event(other, fork, 0), CUDA_ERROR_STREAM_CAPTURE_MERGE);
  CUgraph graph;
  EXPECT_EQ(cu.stream_end_capture(other, &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
  expect_invalidated();
}

TEST_F(Captures, ExternalEventsBecomeNodes) {
  CUevent outside;
  OK(cu.event_create(&outside, CU_EVENT_DISABLE_TIMING));
  begin();
  OK(cu.stream_wait_event(stream, outside, CU_EVENT_WAIT_EXTERNAL));
  OK(cu.memset_d32_async(word, 1, 1, stream));
  OK(cu.event_record_with_flags(outside, stream, CU_EVENT_RECORD_EXTERNAL));
  CUgraph graph = end();
  EXPECT_EQ(nodes_of(graph), 3u);
  run(graph);
  EXPECT_EQ(cu.event_query(outside), CUDA_SUCCESS);
  OK(cu.graph_destroy(graph));
  OK(cu.event_destroy(outside));
}

TEST_F(Captures, TheLegacyStreamRestsWhileABlockingStreamCaptures) {
  CUstream blocking;
  CUstreamCaptureStatus status;
  OK(cu.stream_create(&blocking, CU_STREAM_DEFAULT));
  OK(cu.stream_begin_capture(blocking, CU_STREAM_CAPTURE_MODE_RELAXED));
  EXPECT_EQ(cu.stream_is_capturing(CU_STREAM_LEGACY, &status), CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
  OK(cu.stream_is_capturing(blocking, &status));
  EXPECT_EQ(status, CU_STREAM_CAPTURE_STATUS_ACTIVE);
  EXPECT_EQ(cu.memset_d32_async(word, 1, 1, CU_STREAM_LEGACY), CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
  CUgraph graph;
  EXPECT_EQ(cu.stream_end_capture(blocking, &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
  OK(cu.memset_d32_async(word, 1, 1, CU_STREAM_LEGACY));
  OK(cu.stream_destroy(blocking));
}

TEST_F(Captures, UnsafeCallsDependOnTheMode) {
  CUdeviceptr made = 0;
  begin(CU_STREAM_CAPTURE_MODE_GLOBAL);
  EXPECT_EQ(cu.mem_alloc(&made, 4096), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  expect_invalidated();
  begin(CU_STREAM_CAPTURE_MODE_RELAXED);
  OK(cu.mem_alloc(&made, 4096));
  OK(cu.graph_destroy(end()));
  // The thread may say for itself that it knows what it does.
  CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
  OK(cu.thread_exchange_stream_capture_mode(&mode));
  EXPECT_EQ(mode, CU_STREAM_CAPTURE_MODE_GLOBAL);
  begin(CU_STREAM_CAPTURE_MODE_GLOBAL);
  CUdeviceptr more = 0;
  OK(cu.mem_alloc(&more, 4096));
  OK(cu.graph_destroy(end()));
  OK(cu.thread_exchange_stream_capture_mode(&mode));
  // Other threads matter to the global mode alone.
  for (auto [theirs, expected] :
       {std::pair{CU_STREAM_CAPTURE_MODE_GLOBAL, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED},
        std::pair{CU_STREAM_CAPTURE_MODE_THREAD_LOCAL, CUDA_SUCCESS}}) {
    begin(theirs);
    CUresult result = CUDA_SUCCESS;
    std::thread([&] {
      CUdeviceptr address = 0;
      cu.ctx_set_current(context);
      result = cu.mem_alloc(&address, 4096);
    }).join();
    EXPECT_EQ(result, expected);
    CUgraph graph = nullptr;
    EXPECT_EQ(cu.stream_end_capture(stream, &graph),
              expected ? CUDA_ERROR_STREAM_CAPTURE_INVALIDATED : CUDA_SUCCESS);
    if (graph) {
      EXPECT_EQ(cu.graph_destroy(graph), CUDA_SUCCESS);
    }
  }
}

TEST_F(Captures, AllocationsBecomeNodes) {
  CUdeviceptr made = 0;
  begin();
  OK(cu.mem_alloc_async(&made, 4096, stream));
  OK(cu.memset_d32_async(made, 9, 1, stream));
  OK(cu.memcpy_d_to_d_async(word, made, 4, stream));
  OK(cu.mem_free_async(made, stream));
  CUgraph graph = end();
  EXPECT_EQ(nodes_of(graph), 4u);
  run(graph);
  run(graph);
  EXPECT_EQ(value(), 9u);
  OK(cu.graph_destroy(graph));
}

TEST_F(Captures, AllocationsFromAPoolAreTheGraphsOwn) {
  CUmemoryPool pool = nullptr;
  CUmemPoolProps properties{};
  properties.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
  OK(cu.mem_pool_create(&pool, &properties));
  CUdeviceptr address = 0;
  begin();
  EXPECT_EQ(cu.mem_alloc_from_pool_async(&address, 4096, nullptr, stream),
            CUDA_ERROR_INVALID_VALUE);
  OK(cu.mem_alloc_from_pool_async(&address, 4096, pool, stream));
  OK(cu.memset_d32_async(address, 9, 1024, stream));
  OK(cu.memcpy_d_to_d_async(word, address, 4, stream));
  OK(cu.mem_free_async(address, stream));
  CUgraph graph = end();
  EXPECT_EQ(nodes_of(graph), 4u);
  cuuint64_t used = 1;
  OK(cu.mem_pool_get_attribute(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH, &used));
  EXPECT_EQ(used, 0u);
  run(graph);
  EXPECT_EQ(value(), 9u);
  OK(cu.graph_destroy(graph));
  OK(cu.mem_pool_destroy(pool));
}

TEST_F(Captures, GoesIntoAGraphThatExists) {
  CUgraph graph;
  CUgraphNode first;
  CUDA_MEMSET_NODE_PARAMS parameters{word, 0, 5, 4, 1, 1};
  OK(cu.graph_create(&graph, 0));
  OK(cu.graph_add_memset_node(&first, graph, nullptr, 0, &parameters, context));
  OK(cu.stream_begin_capture_to_graph(stream, graph, &first, nullptr, 1,
                                      CU_STREAM_CAPTURE_MODE_GLOBAL));
  CUgraphExec exec;
  EXPECT_NE(cu.graph_instantiate(&exec, graph, 0), CUDA_SUCCESS);
  OK(cu.memcpy_d_to_d_async(word + 4, word, 4, stream));
  CUgraph same = end();
  EXPECT_EQ(same, graph);
  run(graph);
  EXPECT_EQ(value(1), 5u);
  OK(cu.graph_destroy(graph));
}

// As CUDA's sample of conditional nodes ends one: the program has the graph already.
TEST_F(Captures, IntoAGraphThatExistsEndsWithoutBeingToldOfIt) {
  CUgraph graph;
  OK(cu.graph_create(&graph, 0));
  OK(cu.stream_begin_capture_to_graph(stream, graph, nullptr, nullptr, 0,
                                      CU_STREAM_CAPTURE_MODE_GLOBAL));
  OK(cu.memset_d32_async(word, 9, 1, stream));
  OK(cu.stream_end_capture(stream, nullptr));
  run(graph);
  EXPECT_EQ(value(), 9u);
  OK(cu.graph_destroy(graph));
}

TEST_F(Captures, OfAGraphOfTheirOwnEndOnlyWhereItCanBeToldAndGoOnElse) {
  begin();
  OK(cu.memset_d32_async(word, 9, 1, stream));
  EXPECT_EQ(cu.stream_end_capture(stream, nullptr), CUDA_ERROR_INVALID_VALUE);
  CUgraph graph = end();
  run(graph);
  EXPECT_EQ(value(), 9u);
  OK(cu.graph_destroy(graph));
}

// The graph could not be used again if it were still taken for one that is being captured.
TEST_F(Captures, GoOnWithoutAStreamThatHasJoinedAndIsDestroyed) {
  begin();
  OK(cu.memset_d32_async(word, 3, 1, stream));
  OK(cu.event_record(fork, stream));
  OK(cu.stream_wait_event(other, fork, 0));
  OK(cu.memset_d32_async(word + 4, 4, 1, other));
  OK(cu.event_record(join, other));
  OK(cu.stream_wait_event(stream, join, 0));
  OK(cu.stream_destroy(other));
  CUgraph graph = end();
  run(graph);
  EXPECT_EQ(value(0), 3u);
  EXPECT_EQ(value(1), 4u);
  OK(cu.graph_destroy(graph));
  OK(cu.stream_create(&other, CU_STREAM_NON_BLOCKING));
}

TEST_F(Captures, WantWhatADestroyedStreamDidToBeJoined) {
  begin();
  OK(cu.memset_d32_async(word, 3, 1, stream));
  OK(cu.event_record(fork, stream));
  OK(cu.stream_wait_event(other, fork, 0));
  OK(cu.memset_d32_async(word + 4, 4, 1, other));
  OK(cu.stream_destroy(other));
  CUgraph graph = nullptr;
  EXPECT_EQ(cu.stream_end_capture(stream, &graph), CUDA_ERROR_STREAM_CAPTURE_UNJOINED);
  EXPECT_EQ(graph, nullptr);
  OK(cu.stream_create(&other, CU_STREAM_NON_BLOCKING));
}

TEST_F(Captures, EndWithTheirContext) {
  if (!cu.emulated)
    GTEST_SKIP() << "CUDA does not say what becomes of a capture without its context";
  CUgraph graph;
  OK(cu.graph_create(&graph, 0));
  CUcontext doomed;
  OK(cu.ctx_create_v2(&doomed, 0, 0));
  CUstream origin;
  OK(cu.stream_create(&origin, CU_STREAM_NON_BLOCKING));
  OK(cu.stream_begin_capture_to_graph(origin, graph, nullptr, nullptr, 0,
                                      CU_STREAM_CAPTURE_MODE_RELAXED));
  OK(cu.ctx_destroy(doomed));
  CUgraphExec exec;
  OK(cu.graph_instantiate(&exec, graph, 0));
  OK(cu.graph_exec_destroy(exec));
  OK(cu.graph_destroy(graph));
}

TEST_F(Captures, DependenciesCanBeSetByHand) {
  EXPECT_EQ(cu.stream_update_capture_dependencies(stream, nullptr, nullptr, 0, 1),
            CUDA_ERROR_ILLEGAL_STATE);
  begin();
  OK(cu.memset_d32_async(word, 1, 1, stream));
  OK(cu.stream_update_capture_dependencies(stream, nullptr, nullptr, 0,
                                           CU_STREAM_SET_CAPTURE_DEPENDENCIES));
  OK(cu.memset_d32_async(word + 4, 2, 1, stream));
  CUgraph graph = end();
  size_t edges = 1, roots = 0;
  OK(cu.graph_get_edges(graph, nullptr, nullptr, nullptr, &edges));
  OK(cu.graph_get_root_nodes(graph, nullptr, &roots));
  EXPECT_EQ(edges, 0u);
  EXPECT_EQ(roots, 2u);
  OK(cu.graph_destroy(graph));
}

TEST_F(Captures, ALaunchOfAGraphIsAChild) {
  CUgraph inner;
  CUgraphNode node;
  CUDA_MEMSET_NODE_PARAMS parameters{word, 0, 6, 4, 1, 1};
  CUgraphExec exec;
  OK(cu.graph_create(&inner, 0));
  OK(cu.graph_add_memset_node(&node, inner, nullptr, 0, &parameters, context));
  OK(cu.graph_instantiate(&exec, inner, 0));
  begin();
  OK(cu.graph_launch(exec, stream));
  OK(cu.memcpy_d_to_d_async(word + 4, word, 4, stream));
  CUgraph graph = end();
  OK(cu.graph_exec_destroy(exec));
  OK(cu.graph_destroy(inner));
  run(graph);
  EXPECT_EQ(value(1), 6u);
  OK(cu.graph_destroy(graph));
}

}  // namespace
}  // namespace lambent::conformance
