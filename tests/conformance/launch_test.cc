#include <atomic>
#include <thread>

#include "conformance/fixture.h"

namespace lambent::conformance {
namespace {

using Launch = WithKernels;
using Streams = WithKernels;

TEST_F(Launch, AddsTwoVectors) {
  BODIES_ONLY();
  const int n = 100'000;
  std::vector<float> a(n), b(n), c(n);
  for (int i = 0; i < n; i++) a[i] = i, b[i] = 2 * i;
  CUdeviceptr da = allocate(n * 4), db = allocate(n * 4), dc = allocate(n * 4);
  OK(cu.memcpy_h_to_d(da, a.data(), n * 4));
  OK(cu.memcpy_h_to_d(db, b.data(), n * 4));
  int count = n;
  OK(launch(function("add"), (n + 255) / 256, 256, nullptr, {&da, &db, &dc, &count}));
  OK(cu.memcpy_d_to_h(c.data(), dc, n * 4));
  for (int i = 0; i < n; i++) ASSERT_EQ(c[i], 3.0f * i) << i;
}

TEST_F(Launch, EveryBlockRunsOnce) {
  BODIES_ONLY();
  CUdeviceptr counter = allocate(4);
  OK(cu.memset_d32(counter, 0, 1));
  CUlaunchConfig config{};
  config.gridDimX = 13;
  config.gridDimY = 7;
  config.gridDimZ = 5;
  config.blockDimX = 32;
  config.blockDimY = config.blockDimZ = 1;
  void* parameters[] = {&counter};
  OK(cu.launch_kernel_ex(&config, function("count"), parameters, nullptr));
  uint32_t blocks = 0;
  OK(cu.memcpy_d_to_h(&blocks, counter, 4));
  EXPECT_EQ(blocks, 13u * 7 * 5);
}

TEST_F(Launch, TakesItsParametersAsOneBuffer) {
  BODIES_ONLY();
  struct {
    CUdeviceptr counter;
  } buffer{allocate(4)};
  OK(cu.memset_d32(buffer.counter, 0, 1));
  size_t size = sizeof buffer;
  void* extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, &buffer, CU_LAUNCH_PARAM_BUFFER_SIZE, &size,
                   CU_LAUNCH_PARAM_END};
  OK(cu.launch_kernel(function("count"), 9, 1, 1, 32, 1, 1, 0, nullptr, nullptr, extra));
  uint32_t blocks = 0;
  OK(cu.memcpy_d_to_h(&blocks, buffer.counter, 4));
  EXPECT_EQ(blocks, 9u);
}

TEST_F(Launch, ImpossibleShapesAreErrors) {
  CUdeviceptr counter = allocate(4);
  CUfunction count = function("count");
  EXPECT_EQ(launch(count, 0, 32, nullptr, {&counter}), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(launch(count, 1, 2000, nullptr, {&counter}), CUDA_ERROR_INVALID_VALUE);
  void* parameters[] = {&counter};
  EXPECT_EQ(cu.launch_kernel(count, 1, 1, 1, 32, 1, 1, 1 << 20, nullptr, parameters, nullptr),
            CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(launch(reinterpret_cast<CUfunction>(0x1000), 1, 1, nullptr, {}),
            CUDA_ERROR_INVALID_HANDLE);
}

TEST_F(Launch, ImagesAndNamesThatAreNotThereAreErrors) {
  CUfunction none;
  EXPECT_EQ(cu.module_get_function(&none, module, "no_such_kernel"), CUDA_ERROR_NOT_FOUND);
  EMULATOR_ONLY("a real driver reads past a foreign image as it likes");
  CUmodule outdated, bad;
  OK(cu.module_load(&outdated, outdated_module().c_str()));
  EXPECT_EQ(cu.module_get_function(&none, outdated, "outdated"), CUDA_ERROR_INVALID_IMAGE);
  std::vector<char> garbage(128, 'x');
  EXPECT_EQ(cu.module_load_data(&bad, garbage.data()), CUDA_ERROR_INVALID_IMAGE);
  // PTX may hold nothing. Where there is nothing that compiles it, it is refused.
  const CUresult empty = cu.module_load_data(&bad, ".version 8.0\n.target sm_80\n");
  if (empty != CUDA_ERROR_NO_BINARY_FOR_GPU) {
    OK(empty);
    EXPECT_EQ(cu.module_get_function(&none, bad, "no_such_kernel"), CUDA_ERROR_NOT_FOUND);
    OK(cu.module_unload(bad));
  }
  EXPECT_EQ(cu.module_load_data(&bad, nullptr), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cu.module_load(&bad, "/no/such/file"), CUDA_ERROR_FILE_NOT_FOUND);
}

TEST_F(Launch, VariablesOfAModuleCanBeReadAndWritten) {
  CUdeviceptr address = 0;
  size_t bytes = 0;
  int values[4] = {};
  OK(cu.module_get_global(&address, &bytes, module, "counter"));
  EXPECT_EQ(bytes, 16u);
  OK(cu.memcpy_d_to_h(values, address, bytes));
  EXPECT_EQ(values[2], 3);
}

TEST_F(Launch, LibrariesGiveKernelsThatCanBeLaunched) {
  BODIES_ONLY();
  std::string why_not;
  std::vector<char> image = kernel_image(&why_not);
  CUlibrary library;
  CUkernel kernel;
  CUfunction found;
  OK(cu.library_load_data(&library, image.data(), nullptr, nullptr, 0, nullptr, nullptr, 0));
  OK(cu.library_get_kernel(&kernel, library, "count"));
  OK(cu.kernel_get_function(&found, kernel));
  CUdeviceptr counter = allocate(4);
  OK(cu.memset_d32(counter, 0, 1));
  OK(launch(found, 3, 32, nullptr, {&counter}));
  OK(launch(reinterpret_cast<CUfunction>(kernel), 4, 32, nullptr, {&counter}));
  uint32_t blocks = 0;
  OK(cu.memcpy_d_to_h(&blocks, counter, 4));
  EXPECT_EQ(blocks, 7u);
  OK(cu.library_unload(library));
}

TEST_F(Launch, OccupancyFollowsTheBlockSize) {
  int blocks = 0, grid = 0, block = 0, threads = 0;
  CUfunction add = function("add");
  OK(cu.occupancy_max_active_blocks_per_multiprocessor(&blocks, add, 256, 0));
  EXPECT_GE(blocks, 1);
  OK(cu.occupancy_max_potential_block_size(&grid, &block, add, nullptr, 0, 0));
  EXPECT_GE(block, 32);
  OK(cu.func_get_attribute(&threads, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, add));
  EXPECT_GE(threads, 256);
}

TEST_F(Streams, ALaunchWaitsForRoomWhereManyAreQueued) {
  constexpr int kLaunches = 300'000;
  CUstream stream;
  OK(cu.stream_create(&stream, CU_STREAM_NON_BLOCKING));
  std::atomic<bool> open{false};
  auto gate = [](void* p) { static_cast<std::atomic<bool>*>(p)->wait(false); };
  OK(cu.launch_host_func(stream, gate, &open));
  CUdeviceptr counter = allocate(4);
  CUfunction count = function("count");
  OK(cu.memset_d32(counter, 0, 1));
  std::atomic<int> launched{0};
  CUresult failed = CUDA_SUCCESS;
  std::thread launcher([&] {
    failed = cu.ctx_set_current(context);
    for (; !failed && launched < kLaunches; launched++) {
      failed = launch(count, 1, 1, stream, {&counter});
    }
  });
  int seen = -1;  // until none was launched for a while
  while (launched != seen || seen == 0) {
    seen = launched;
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
  EXPECT_GE(seen, 1000);
  EXPECT_LT(seen, kLaunches);
  open = true;
  open.notify_all();
  launcher.join();
  OK(failed);
  OK(cu.stream_synchronize(stream));
  OK(cu.stream_destroy(stream));
  BODIES_ONLY();
  int counted = 0;
  OK(cu.memcpy_d_to_h(&counted, counter, 4));
  EXPECT_EQ(counted, kLaunches);
}

TEST_F(Streams, WorkOfAStreamRunsInOrder) {
  CUstream stream;
  OK(cu.stream_create(&stream, CU_STREAM_NON_BLOCKING));
  CUdeviceptr a = allocate(4 << 20);
  std::vector<uint32_t> seen(4);
  void* pinned = nullptr;
  OK(cu.mem_host_alloc(&pinned, 16, 0));
  for (uint32_t i = 0; i < 4; i++) {
    OK(cu.memset_d32_async(a, i + 1, 1 << 20, stream));
    OK(cu.memcpy_d_to_h_async(static_cast<char*>(pinned) + 4 * i, a + 400, 4, stream));
  }
  OK(cu.stream_synchronize(stream));
  EXPECT_EQ(cu.stream_query(stream), CUDA_SUCCESS);
  for (uint32_t i = 0; i < 4; i++) EXPECT_EQ(static_cast<uint32_t*>(pinned)[i], i + 1);
  OK(cu.mem_free_host(pinned));
  OK(cu.stream_destroy(stream));
  EXPECT_EQ(cu.stream_synchronize(stream), CUDA_ERROR_INVALID_HANDLE);
}

TEST_F(Streams, AStreamWaitsForAnEventOfAnother) {
  CUstream first, second;
  CUevent event;
  OK(cu.stream_create(&first, CU_STREAM_NON_BLOCKING));
  OK(cu.stream_create_with_priority(&second, CU_STREAM_NON_BLOCKING, -1));
  OK(cu.event_create(&event, CU_EVENT_DISABLE_TIMING));
  struct State {
    std::atomic<bool> go{false};
    std::atomic<int> order{0};
    int first_at = 0, second_at = 0;
  } state;
  auto wait_then_mark = [](void* p) {
    auto* s = static_cast<State*>(p);
    s->go.wait(false);
    s->first_at = ++s->order;
  };
  auto mark = [](void* p) {
    auto* s = static_cast<State*>(p);
    s->second_at = ++s->order;
  };
  OK(cu.launch_host_func(first, wait_then_mark, &state));
  OK(cu.event_record(event, first));
  OK(cu.stream_wait_event(second, event, 0));
  OK(cu.launch_host_func(second, mark, &state));
  EXPECT_EQ(cu.event_query(event), CUDA_ERROR_NOT_READY);
  EXPECT_EQ(cu.stream_query(second), CUDA_ERROR_NOT_READY);
  state.go = true;
  state.go.notify_all();
  OK(cu.stream_synchronize(second));
  EXPECT_EQ(state.first_at, 1);
  EXPECT_EQ(state.second_at, 2);
}

TEST_F(Streams, TheDefaultStreamWaitsForBlockingStreams) {
  CUstream blocking;
  OK(cu.stream_create(&blocking, CU_STREAM_DEFAULT));
  CUdeviceptr a = allocate(1 << 20);
  uint64_t ns = 2'000'000;
  EMULATOR_ONLY("the kernel of stated duration exists for the emulator alone");
  OK(launch(function("busy"), 8, 32, blocking, {&ns}));
  OK(cu.memset_d32_async(a, 5, 1, blocking));
  uint32_t word = 0;
  OK(cu.memcpy_d_to_h(&word, a, 4));  // on the default stream
  EXPECT_EQ(word, 5u);
}

TEST_F(Streams, WhatAWaitingCopyBroughtIsThereForStreamsThatWaitForNone) {
  CUstream blocking, free;
  OK(cu.stream_create(&blocking, CU_STREAM_DEFAULT));
  OK(cu.stream_create(&free, CU_STREAM_NON_BLOCKING));
  void* own = nullptr;  // the form for the thread's default stream
  CUdriverProcAddressQueryResult status;
  OK(cu.get_proc_address_v2("cuMemcpyHtoD", &own, 13000,
                            CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM, &status));
  struct Case {
    CUstream busy;  // the copy comes after what runs here
    decltype(cu.memcpy_h_to_d) copy;
  };
  const Case cases[] = {{blocking, cu.memcpy_h_to_d},
                        {CU_STREAM_PER_THREAD, reinterpret_cast<decltype(cu.memcpy_h_to_d)>(own)}};
  for (const auto& [busy, copy] : cases) {
    for (const size_t bytes : {size_t{64}, size_t{3} << 20}) {
      CUdeviceptr a = allocate(bytes);
      OK(cu.memset_d8(a, 1, bytes));
      OK(cu.ctx_synchronize());
      uint64_t ns = 100'000'000;
      OK(launch(function("busy"), 1, 32, busy, {&ns}));
      const std::vector<char> fresh(bytes, 7);
      OK(copy(a, fresh.data(), bytes));
      char last = 0;
      OK(cu.memcpy_d_to_h_async(&last, a + bytes - 1, 1, free));
      OK(cu.stream_synchronize(free));
      EXPECT_EQ(last, 7);
      EXPECT_EQ(cu.stream_query(busy), CUDA_SUCCESS);
      OK(cu.mem_free(a));
    }
  }
  OK(cu.stream_destroy(blocking));
  OK(cu.stream_destroy(free));
}

TEST_F(Streams, DefaultStreamsOfThreadsEndWithThem) {
  // More than a driver, or an executor, has room for at once.
  constexpr int kThreads = 4200;
  CUresult first_wrong = CUDA_SUCCESS;
  for (int i = 0; i < kThreads && first_wrong == CUDA_SUCCESS; ++i) {
    std::thread([&] {
      first_wrong = cu.ctx_set_current(context);
      if (first_wrong == CUDA_SUCCESS) first_wrong = cu.stream_synchronize(CU_STREAM_PER_THREAD);
    }).join();
  }
  OK(first_wrong);
  CUcontext other;
  OK(cu.ctx_create_v2(&other, 0, 0));
  for (int i = 0; i < kThreads && first_wrong == CUDA_SUCCESS; ++i) {
    OK(cu.ctx_set_current(i % 2 == 0 ? context : other));
    first_wrong = cu.stream_synchronize(CU_STREAM_PER_THREAD);
  }
  OK(first_wrong);
  OK(cu.ctx_destroy(other));
  OK(cu.ctx_set_current(context));
}

TEST_F(Streams, EventsMeasureTheModelledTime) {
  MODELLED_TIME_ONLY();
  EMULATOR_ONLY("the kernel of stated duration exists for the emulator alone");
  CUfunction busy = function("busy");
  CUstream stream;
  OK(cu.stream_create(&stream, CU_STREAM_NON_BLOCKING));
  uint64_t ns = 3'000'000;
  float elapsed = milliseconds(stream, [&] {
    for (int i = 0; i < 5; i++) OK(launch(busy, 1000, 256, stream, {&ns}));
  });
  EXPECT_NEAR(elapsed, 15.0, 0.01);
}

TEST_F(Streams, CopiesTakeTheTimeOfTheLink) {
  EMULATOR_ONLY("the expected time is that of the tiny preset's 10 GB/s");
  void* pinned = nullptr;
  const size_t bytes = 32 << 20;
  OK(cu.mem_host_alloc(&pinned, bytes, 0));
  CUdeviceptr a = allocate(bytes);
  CUstream stream;
  OK(cu.stream_create(&stream, CU_STREAM_NON_BLOCKING));
  float elapsed =
      milliseconds(stream, [&] { OK(cu.memcpy_h_to_d_async(a, pinned, bytes, stream)); });
  EXPECT_NEAR(elapsed, bytes / 10e9 * 1e3, 0.01);
  OK(cu.mem_free_host(pinned));
}

TEST_F(Streams, MisusedEventsAreErrors) {
  CUevent timed, untimed;
  float elapsed;
  OK(cu.event_create(&timed, 0));
  OK(cu.event_create(&untimed, CU_EVENT_DISABLE_TIMING));
  EXPECT_EQ(cu.event_query(timed), CUDA_SUCCESS);
  EXPECT_EQ(cu.event_elapsed_time_v2(&elapsed, timed, timed), CUDA_ERROR_INVALID_HANDLE);
  OK(cu.event_record(timed, nullptr));
  OK(cu.event_record(untimed, nullptr));
  OK(cu.ctx_synchronize());
  EXPECT_EQ(cu.event_elapsed_time_v2(&elapsed, timed, untimed), CUDA_ERROR_INVALID_HANDLE);
  OK(cu.event_destroy(timed));
  EXPECT_EQ(cu.event_destroy(timed), CUDA_ERROR_INVALID_HANDLE);
}

}  // namespace
}  // namespace lambent::conformance
