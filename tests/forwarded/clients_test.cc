// Clients of a real executor that lie, flood, die and crowd: none of them reaches another's memory,
// and the executor goes on.
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "forwarded/forwarded_testing.h"

namespace lambent::forwarded_testing {
namespace {

using enum CallCode;

class ClientsTest : public ForwardedTest {};

TEST_F(ClientsTest, NonsenseInARingEndsItsProcessAlone) {
  host_.add_client(1, kMemory);
  host_.add_client(2, kMemory);
  const auto honest = connect(1);
  {
    const auto liar = connect(2);
    liar->pages().control.submitted = UINT64_MAX;
    forward_ring::wake(liar->pages().control.server_sleeps);
    EXPECT_TRUE(liar->was_hung_up_on());
  }
  {
    const auto liar = connect(2);
    liar->write(RawClient::call_of(static_cast<CallCode>(999), {}));
    EXPECT_TRUE(liar->was_hung_up_on());
    EXPECT_NE(liar->pages().control.broken.load(), 0u);
  }
  {
    // A slot that is still waited for.
    const auto liar = connect(2);
    Call call = RawClient::call_of(kNextHostFunction, {});
    call.slot = 5;
    liar->write(call);
    liar->write(call);
    EXPECT_TRUE(liar->was_hung_up_on());
  }
  expect_to_work(*honest);
  expect_to_work(*connect(2));
}

TEST_F(ClientsTest, ForgedHandlesAndForeignAddressesAreErrors) {
  host_.add_client(1, kMemory);
  host_.add_client(2, kMemory);
  const auto owner = connect(1);
  const uint64_t address = allocate(*owner, kBlock);
  owner->send(kFill, {owner->stream, address, 0, 1, 1, kBlock, 1});
  const auto other = connect(2);
  const auto last_error = [&] { return other->ask(kSynchronizeStream, {other->stream}); };
  EXPECT_EQ(other->copy(kCopyOut, other->stream, address, 16), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(other->copy(kCopyIn, other->stream, address, 16), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(last_error(), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(last_error(), CUDA_SUCCESS);
  other->send(kFill, {other->stream, address, 0, 9, 1, kBlock, 1});
  EXPECT_EQ(last_error(), CUDA_ERROR_INVALID_VALUE);
  const uint64_t own = allocate(*other, kBlock);
  other->send(kCopyRows, {other->stream, own, 16, address, 16, 16, 1});
  EXPECT_EQ(last_error(), CUDA_ERROR_INVALID_VALUE);
  // Beyond its own, also by sums that overflow.
  other->send(kFill, {other->stream, own, 0, 9, 1, kBlock + 1, 1});
  EXPECT_EQ(last_error(), CUDA_ERROR_INVALID_VALUE);
  other->send(kFill, {other->stream, own, UINT64_MAX / 2, 9, 4, 16, 3});
  EXPECT_EQ(last_error(), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(other->copy(kCopyOut, other->stream, own + kBlock - 1, 2), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(other->copy(kCopyOut, other->stream, own, UINT64_MAX), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(other->ask(kFree, {address}), CUDA_ERROR_INVALID_VALUE);
  for (const uint64_t forged : {uint64_t{0}, uint64_t{1}, other->stream + 16, UINT64_MAX}) {
    EXPECT_EQ(other->ask(kSynchronizeStream, {forged}), CUDA_ERROR_INVALID_HANDLE) << forged;
    EXPECT_EQ(other->ask(kQueryEvent, {forged}), CUDA_ERROR_INVALID_HANDLE) << forged;
    EXPECT_EQ(other->ask(kUnloadModule, {forged}), CUDA_ERROR_INVALID_HANDLE) << forged;
    other->send(kLaunch, {forged, other->stream, 1, 1, 1, 0, 0});
    EXPECT_EQ(last_error(), CUDA_ERROR_INVALID_HANDLE) << forged;
  }
  // The owner's memory is as it was.
  EXPECT_EQ(owner->copy(kCopyOut, owner->stream, address, 16), CUDA_SUCCESS);
  EXPECT_EQ(owner->pages().chunk_bytes[0][0], 1);
}

TEST_F(ClientsTest, MemoryOfOthersIsZeroed) {
  host_.add_client(1, kMemory);
  host_.add_client(2, kMemory);
  for (const uint64_t client : {1, 2, 1}) {
    const auto process = connect(client);
    const uint64_t address = allocate(*process, kBlock);
    EXPECT_EQ(process->copy(kCopyOut, process->stream, address, forward_ring::kChunkBytes),
              CUDA_SUCCESS);
    const char* bytes = process->pages().chunk_bytes[0];
    EXPECT_TRUE(
        std::all_of(bytes, bytes + forward_ring::kChunkBytes, [](char c) { return c == 0; }));
    process->send(kFill, {process->stream, address, 0, 0xab, 1, kBlock, 1});
    EXPECT_EQ(process->ask(kFree, {address}), CUDA_SUCCESS);
  }
}

TEST_F(ClientsTest, TheLimitHoldsForAllProcessesOfAClientAndIsInItsLedger) {
  auto ledger = host_.add_client(1, kMemory);
  const auto first = connect(1);
  const auto second = connect(1);
  EXPECT_EQ(first->welcome.memory_bytes, kMemory.count);
  allocate(*first, kMemory.count / 2);
  allocate(*second, kMemory.count / 4);
  EXPECT_EQ(second->ask(kAllocate, {second->context, kMemory.count / 2}), CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(second->ask(kAllocate, {second->context, UINT64_MAX}), CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(second->ask(kMemoryInfo, {}), CUDA_SUCCESS);
  EXPECT_EQ(second->value(0), kMemory.count / 4);
  const auto readings = ledger.read();
  ASSERT_TRUE(readings.ok());
  EXPECT_EQ(readings->used.count, kMemory.count / 4 * 3);
  EXPECT_GE(readings->denied, 1u);
  // One that dies gives back what it held.
  first->hang_up();
  do {
    ASSERT_EQ(second->ask(kMemoryInfo, {}), CUDA_SUCCESS);
  } while (second->value(0) != kMemory.count / 4 * 3);
}

TEST_F(ClientsTest, FloodsAndDeathsInTheMiddleHoldUpNobodyElse) {
  host_.add_client(1, kMemory);
  host_.add_client(2, kMemory);
  const auto honest = connect(1);
  for (int round = 0; round < 8; ++round) {
    const auto flood = connect(2);
    const uint64_t address = allocate(*flood, kBlock);
    for (int i = 0; i < 20'000; ++i) {
      flood->send(kFill, {flood->stream, address, 0, 1, 1, 64, 1});
    }
    expect_to_work(*honest);
    flood->hang_up();
  }
  host_.remove_client(2);
  expect_to_work(*honest);
}

TEST_F(ClientsTest, AFaultBreaksTheExecutorForAllAndTheWorkerIsTold) {
  host_.add_client(1, kMemory);
  host_.add_client(2, kMemory);
  const auto other = connect(1);
  host_.run(2, {LAMBENT_BINARY_DIR "/tests/conformance_test",
                "--gtest_filter=KernelFaults.AnIllegalAddress*"});
  const auto broken = host_.executor.expect<protocol::Broken>();
  ASSERT_TRUE(broken.has_value());
  EXPECT_NE(broken->error.message.find("ILLEGAL_ADDRESS"), std::string::npos)
      << broken->error.message;
  EXPECT_EQ(WEXITSTATUS(host_.executor.wait_for_exit()), 1);
  EXPECT_TRUE(other->was_hung_up_on());
  EXPECT_EQ(other->pages().control.broken.load(), uint32_t{CUDA_ERROR_ILLEGAL_ADDRESS});
}

TEST_F(ClientsTest, MoreProcessesThanAreServedAreRefusedUntilOneEnds) {
  std::vector<std::unique_ptr<RawClient>> processes;
  for (uint64_t client = 1; processes.size() < forward_ring::kMostServedProcesses; ++client) {
    host_.add_client(client, kMemory);
    for (int i = 0; i < 128; ++i) {
      processes.push_back(std::make_unique<RawClient>(host_.socket_of(client)));
      ASSERT_EQ(processes.back()->welcome.refused, 0u) << processes.size();
    }
  }
  host_.add_client(100, kMemory);
  const auto late = [&] { return std::make_unique<RawClient>(host_.socket_of(100)); };
  EXPECT_EQ(late()->welcome.refused, uint32_t{CUDA_ERROR_OUT_OF_MEMORY});
  processes.front()->hang_up();
  auto process = late();
  while (process->welcome.refused != 0) process = late();
  ASSERT_TRUE(process->begin());
  expect_to_work(*process);
}

TEST(ClientsShares, AreSaidOnceNotToBeAppliedWhereTheDeviceCannotBeSplit) {
  testing::internal::CaptureStderr();
  {
    ForwardingHost host;
    ASSERT_TRUE(host.executor.expect<protocol::ExecutorHello>());
    host.add_client(1, kMemory);
    host.add_client(2, kMemory, 30);
    host.add_client(3, kMemory, 40);
    EXPECT_TRUE(RawClient(host.socket_of(3)).begin());
  }
  const std::string said = testing::internal::GetCapturedStderr();
  const size_t once = said.find("shares of the multiprocessors are not applied");
  EXPECT_NE(once, std::string::npos) << said;
  EXPECT_EQ(said.find("are not applied", once + 40), std::string::npos) << said;
}

TEST_F(ClientsTest, WhatAStreamStillUsesIsTheClientsUntilItsEnd) {
  host_.add_client(1, kMemory);
  const auto process = connect(1);
  const uint64_t most = kMemory.count / 4 * 3;
  const auto run_function = [&](uint64_t token) {
    EXPECT_EQ(process->ask(kNextHostFunction, {}), CUDA_SUCCESS);
    EXPECT_EQ(process->value(0), token);
    process->send(kHostFunctionDone, {token});
  };
  // A stream that was destroyed goes on.
  const uint64_t address = allocate(*process, kBlock);
  ASSERT_EQ(process->ask(kCreateStream, {process->context, CU_STREAM_NON_BLOCKING, 0}),
            CUDA_SUCCESS);
  const uint64_t stream = process->value(0);
  process->send(kHostFunction, {stream, 7});
  process->send(kDestroyStream, {stream});
  Call free = RawClient::call_of(kFree, {address});
  free.slot = 1;
  process->write(free);
  EXPECT_EQ(process->ask(kSynchronizeStream, {process->stream}), CUDA_SUCCESS);
  forward_ring::AnswerSlot& freed = process->pages().slots[1];
  EXPECT_EQ(freed.answered.load(), 0u);
  run_function(7);
  ASSERT_EQ(process->ask(kSynchronizeContext, {process->context}), CUDA_SUCCESS);
  EXPECT_TRUE(forward_ring::wait_until(
      freed.client_sleeps, nullptr, 100, [&] { return freed.answered.load() == 1; },
      [&] { return !process->was_hung_up_on(0); }));
  // What a stream has not come to free counts, and is there for what comes after it.
  ASSERT_EQ(process->ask(kAllocateAsync, {process->context, most, process->stream}), CUDA_SUCCESS);
  process->send(kHostFunction, {process->stream, 8});
  process->send(kFreeAsync, {process->value(0), process->stream});
  ASSERT_EQ(process->ask(kMemoryInfo, {}), CUDA_SUCCESS);
  EXPECT_EQ(process->value(0), kMemory.count - most);
  run_function(8);
  EXPECT_EQ(process->ask(kAllocateAsync, {process->context, most, process->stream}), CUDA_SUCCESS);
  EXPECT_EQ(process->ask(kAllocateAsync, {process->context, most, process->stream}),
            CUDA_ERROR_OUT_OF_MEMORY);
}

// The host function of another process ends what holds them: that process alone hears of it.
TEST_F(ClientsTest, StreamsOfASilentProcessAreThereForOthersOnceTheirWorkIsOver) {
  constexpr uint64_t kMostStreams = 1024;  // of a client (gpu/forward_server/client_quotas.h)
  host_.add_client(1, kMemory);
  const auto silent = connect(1), other = connect(1);
  const auto create = [](RawClient& process) {
    return process.ask(kCreateStream, {process.context, CU_STREAM_NON_BLOCKING, 0});
  };
  ASSERT_EQ(create(*silent), CUDA_SUCCESS);
  const uint64_t held = silent->value(0);
  ASSERT_EQ(silent->ask(kCreateEvent, {silent->context, CU_EVENT_DISABLE_TIMING}), CUDA_SUCCESS);
  const uint64_t event = silent->value(0);
  silent->send(kHostFunction, {held, 1});
  silent->send(kRecordEvent, {event, held});
  for (uint64_t i = 3; i < kMostStreams; ++i) {  // with two default streams
    ASSERT_EQ(create(*silent), CUDA_SUCCESS);
    const uint64_t stream = silent->value(0);
    silent->send(kWaitEvent, {stream, event});
    silent->send(kDestroyStream, {stream});
  }
  EXPECT_EQ(create(*other), CUDA_ERROR_OUT_OF_MEMORY);
  ASSERT_EQ(silent->ask(kNextHostFunction, {}), CUDA_SUCCESS);
  silent->send(kHostFunctionDone, {1});  // the last that it says
  bool there_is_room = false;
  for (int tries = 0; tries < 1000 && !there_is_room; ++tries) {
    there_is_room = create(*other) == CUDA_SUCCESS;
    if (!there_is_room) usleep(10'000);  // it looks when it wakes
  }
  EXPECT_TRUE(there_is_room);
}

TEST_F(ClientsTest, ManyHostFunctionsWaitAndOnlyThoseHandedOutEnd) {
  host_.add_client(1, kMemory);
  host_.add_client(2, kMemory);
  const auto process = connect(1);
  constexpr uint64_t kFunctions = 3000;
  for (uint64_t token = 1; token <= kFunctions; ++token) {
    process->send(kHostFunction, {process->stream, token});
  }
  process->send(kHostFunctionDone, {kFunctions});
  ASSERT_EQ(process->ask(kCreateStream, {process->context, CU_STREAM_NON_BLOCKING, 0}),
            CUDA_SUCCESS);
  EXPECT_EQ(process->ask(kSynchronizeStream, {process->value(0)}), CUDA_ERROR_INVALID_VALUE);
  for (uint64_t token = 1; token <= kFunctions; ++token) {
    ASSERT_EQ(process->ask(kNextHostFunction, {}), CUDA_SUCCESS);
    ASSERT_EQ(process->value(0), token);
    process->send(kHostFunctionDone, {token});
  }
  EXPECT_EQ(process->ask(kSynchronizeStream, {process->stream}), CUDA_SUCCESS);
  // Those of one that is removed run no more, and hold up nobody.
  const uint64_t address = allocate(*process, kBlock);
  for (uint64_t token = 1; token <= kFunctions; ++token) {
    process->send(kHostFunction, {process->stream, token});
    process->send(kFill, {process->stream, address, 0, 7, 1, kBlock, 1});
  }
  host_.remove_client(1);
  EXPECT_TRUE(process->was_hung_up_on());
  expect_to_work(*connect(2));
}

TEST_F(ClientsTest, WaitingForAllOfAContextIsWaitingForOnesOwnStreamsAlone) {
  host_.add_client(1, kMemory);
  host_.add_client(2, kMemory);
  const auto stuck = connect(1);
  const auto other = connect(2);
  stuck->send(kHostFunction, {stuck->stream, 1});
  ASSERT_EQ(stuck->ask(kNextHostFunction, {}), CUDA_SUCCESS);
  // Its stream stands while the function has not ended; to the driver both are streams of one
  // context.
  ASSERT_EQ(stuck->ask(kQueryStream, {stuck->stream}), CUDA_ERROR_NOT_READY);
  expect_to_work(*other);
  EXPECT_EQ(other->ask(kSynchronizeContext, {other->context}), CUDA_SUCCESS);
  EXPECT_EQ(stuck->ask(kQueryStream, {stuck->stream}), CUDA_ERROR_NOT_READY);
  stuck->send(kHostFunctionDone, {1});
  EXPECT_EQ(stuck->ask(kSynchronizeContext, {stuck->context}), CUDA_SUCCESS);
  EXPECT_EQ(stuck->ask(kQueryStream, {stuck->stream}), CUDA_SUCCESS);
}

TEST_F(ClientsTest, ManyClientsWorkSideBySide) {
  std::vector<std::unique_ptr<RawClient>> processes;
  for (uint64_t client = 1; client <= 48; ++client) {
    host_.add_client(client, kMemory);
    processes.push_back(connect(client));
  }
  // All have a function begun at the same moment: none waits for the end of another's.
  Call next = RawClient::call_of(kNextHostFunction, {});
  next.slot = 1;
  for (const auto& process : processes) {
    process->send(kHostFunction, {process->stream, 7});
    process->write(next);
  }
  const auto have_all_begun = [&] {
    return std::ranges::all_of(processes, [](const auto& process) {
      return process->pages().slots[1].answered.load() == 1;
    });
  };
  // Other processes write the answers, in real time; a wait of at most ten seconds.
  for (int tries = 0; tries < 1000 && !have_all_begun(); ++tries) usleep(10'000);
  ASSERT_TRUE(have_all_begun());
  // The last ends first, and none is done before its own function.
  for (auto each = processes.rbegin(); each != processes.rend(); ++each) {
    RawClient& process = **each;
    EXPECT_EQ(process.ask(kQueryStream, {process.stream}), CUDA_ERROR_NOT_READY);
    process.send(kHostFunctionDone, {7});
    EXPECT_EQ(process.ask(kSynchronizeStream, {process.stream}), CUDA_SUCCESS);
    expect_to_work(process);
  }
  for (uint64_t client = 1; client <= 48; ++client) host_.remove_client(client);
  for (const auto& process : processes) EXPECT_TRUE(process->was_hung_up_on());
}

// A process that works through the library until a call fails, and exits then. Writes a byte once
// it works.
[[noreturn]] void work_until_an_error(const std::string& socket, int ready) {
  setenv("LAMBENT_FORWARD_SOCKET", socket.c_str(), 1);
  void* library = dlopen(LAMBENT_BINARY_DIR "/lib/forward/libcuda.so.1", RTLD_NOW);
  const auto call = [library](const char* name, auto... arguments) {
    return reinterpret_cast<CUresult (*)(decltype(arguments)...)>(dlsym(library, name))(
        arguments...);
  };
  void* context = nullptr;
  CUresult result = call("cuInit", 0u);
  if (result == CUDA_SUCCESS) result = call("cuDevicePrimaryCtxRetain", &context, 0);
  if (result == CUDA_SUCCESS) result = call("cuCtxSetCurrent", context);
  if (result == CUDA_SUCCESS) result = call("cuCtxSynchronize");
  if (result == CUDA_SUCCESS && write(ready, "r", 1) == 1) {
    while (call("cuCtxSynchronize") == CUDA_SUCCESS) usleep(1000);  // leaves others a core
  }
  _exit(7);
}

TEST_F(ClientsTest, AProgramHearsOfItsExecutorsEndOnlyIfNobodyEndsIt) {
  host_.add_client(1, kMemory);
  int ready[2];
  ASSERT_EQ(pipe(ready), 0);
  const pid_t program = fork();
  if (program == 0) work_until_an_error(host_.socket_of(1), ready[1]);
  close(ready[1]);
  char byte = 0;
  ASSERT_EQ(read(ready[0], &byte, 1), 1);
  close(ready[0]);
  shutdown(host_.executor.socket(), SHUT_RDWR);
  host_.executor.wait_for_exit();
  // In place of the worker, which has other things to do first: longer than the library takes to
  // notice.
  usleep(1'000'000);
  kill(program, SIGTERM);
  const int status = ForwardingHost::wait_for(program);
  EXPECT_TRUE(WIFSIGNALED(status)) << "it exited with " << WEXITSTATUS(status);
}

}  // namespace
}  // namespace lambent::forwarded_testing
