// Processes that take whatever they can get, lie about what they send, change it while it is read,
// and go away at the worst moment: nobody beside them notices, and all comes back.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <fstream>
#include <functional>
#include <iterator>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "core/base/testing/whole_tests.h"
#include "forwarded/forwarded_testing.h"

namespace lambent::forwarded_testing {
namespace {

using enum CallCode;

// Of one client, over all its processes (gpu/forward_server/client_quotas.h).
constexpr size_t kMostStreams = 1024, kMostEvents = 1 << 16, kMostGraphs = 4096;

std::string kernels() {
  std::ifstream file(LAMBENT_BINARY_DIR "/tests/conformance_kernels/host-x86_64.so");
  return {(std::istreambuf_iterator<char>(file)), {}};
}

CUresult load(RawClient& process, const std::string& image) {
  if (const CUresult result = process.upload(image)) return result;
  const CUresult result = process.ask(kLoadModule, {process.context, 0});
  process.wait_for_chunk();
  return result;
}

// Makes the call so often, many at a time; how often it succeeded, and the first value of each.
size_t ask_often(RawClient& process, const Call& call, size_t times,
                 std::vector<uint64_t>* values = nullptr) {
  constexpr uint16_t kSlots = forward_ring::kAnswerSlots - 1;  // the first is RawClient's own
  static_assert(kSlots > 0);
  std::array<uint32_t, forward_ring::kAnswerSlots> before{};
  size_t made = 0;
  for (size_t slot = 1; slot <= kSlots; ++slot) before[slot] = process.pages().slots[slot].answered;
  for (size_t asked = 0; asked < times; asked += kSlots) {
    const auto some = static_cast<uint16_t>(std::min<size_t>(kSlots, times - asked));
    for (uint16_t slot = 1; slot <= some; ++slot) {
      Call each = call;
      each.slot = slot;
      process.write(each);
    }
    for (uint16_t slot = 1; slot <= some; ++slot) {
      forward_ring::AnswerSlot& answer = process.pages().slots[slot];
      ++before[slot];
      const bool came = forward_ring::wait_until(
          answer.client_sleeps, nullptr, 100, [&] { return answer.answered == before[slot]; },
          [&] { return !process.was_hung_up_on(0); });
      if (!came || answer.result != CUDA_SUCCESS) continue;
      ++made;
      if (values != nullptr) values->push_back(answer.values[0]);
    }
  }
  return made;
}

uint64_t free_memory(RawClient& process) {
  EXPECT_EQ(process.ask(kMemoryInfo, {}), CUDA_SUCCESS);
  return process.value(0);
}

// What one that hung up held comes back a little later, which nothing tells.
template <typename Condition>
bool is_so_soon(Condition condition, int most_s = 30) {
  for (int tries = 0; tries < 100 * most_s; ++tries) {
    if (condition()) return true;
    usleep(10'000);
  }
  return false;
}

class HostileTest : public ForwardedTest {
 protected:
  void SetUp() override {
    ForwardedTest::SetUp();
    host_.add_client(1, kMemory);
    host_.add_client(2, kMemory);
    honest_ = connect(1);
  }
  void TearDown() override {
    if (honest_ != nullptr) expect_to_work(*honest_);
  }

  std::unique_ptr<RawClient> honest_;
};

// ---- What a client may hold

TEST_F(HostileTest, StreamsAreLimitedOverAllProcessesAndComeBack) {
  const auto create = [](RawClient& process, size_t times) {
    const auto call = RawClient::call_of(kCreateStream, {process.context, CU_STREAM_NON_BLOCKING});
    return ask_often(process, call, times);
  };
  const auto first = connect(2), second = connect(2);
  EXPECT_EQ(create(*first, kMostStreams / 2), kMostStreams / 2);
  // Each has a default stream besides.
  EXPECT_EQ(create(*second, kMostStreams), kMostStreams / 2 - 2);
  EXPECT_EQ(first->ask(kCreateStream, {first->context, 0, 0}), CUDA_ERROR_OUT_OF_MEMORY);
  first->hang_up();
  EXPECT_TRUE(is_so_soon([&] {
    return second->ask(kCreateStream, {second->context, 0, 0}) == CUDA_SUCCESS;
  }));
  // Those of others are as many as ever.
  EXPECT_EQ(honest_->ask(kCreateStream, {honest_->context, 0, 0}), CUDA_SUCCESS);
}

TEST_F(HostileTest, EventsAreLimitedOverAllProcessesAndComeBack) {
  const auto first = connect(2), second = connect(2);
  const auto create = [](RawClient& process) {
    return process.ask(kCreateEvent, {process.context, CU_EVENT_DISABLE_TIMING});
  };
  for (RawClient* each : {first.get(), second.get()}) {
    const Call call = RawClient::call_of(kCreateEvent, {each->context, CU_EVENT_DISABLE_TIMING});
    EXPECT_EQ(ask_often(*each, call, kMostEvents / 2), kMostEvents / 2);
  }
  EXPECT_EQ(create(*first), CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(create(*second), CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(create(*honest_), CUDA_SUCCESS);
  first->hang_up();
  EXPECT_TRUE(is_so_soon([&] { return create(*second) == CUDA_SUCCESS; }));
}

TEST_F(HostileTest, GraphsAreLimitedOverAllProcessesAndComeBack) {
  const auto first = connect(2), second = connect(2);
  const auto create = [](RawClient& process) {
    return process.ask(kInstantiateGraph, {process.context, 0});
  };
  for (RawClient* each : {first.get(), second.get()}) {
    const Call call = RawClient::call_of(kInstantiateGraph, {each->context, 0});
    EXPECT_EQ(ask_often(*each, call, kMostGraphs / 2), kMostGraphs / 2);
  }
  EXPECT_EQ(create(*first), CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(create(*honest_), CUDA_SUCCESS);
  first->hang_up();
  EXPECT_TRUE(is_so_soon([&] { return create(*second) == CUDA_SUCCESS; }));
}

TEST_F(HostileTest, ModulesCountAsMemoryOfTheirClient) {
  const std::string image = kernels();
  ASSERT_LT(2 * image.size(), kMemory.count);
  const auto process = connect(2);
  std::vector<uint64_t> modules;
  CUresult result = CUDA_SUCCESS;
  while ((result = load(*process, image)) == CUDA_SUCCESS) modules.push_back(process->value(0));
  EXPECT_EQ(result, CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_LE(modules.size() * image.size(), kMemory.count);
  // Less than one more, with what of it is zeros.
  EXPECT_LT(free_memory(*process), image.size() + 4096);
  for (const uint64_t module : modules) {
    EXPECT_EQ(process->ask(kUnloadModule, {module}), CUDA_SUCCESS);
  }
  EXPECT_EQ(free_memory(*process), kMemory.count);
}

TEST_F(HostileTest, MemoryThatIsCutIntoPiecesIsNotTakenTwice) {
  // The tiny device has 1 GiB.
  constexpr Bytes kLimit = Bytes::mib(256);
  host_.add_client(3, kLimit);
  const auto process = connect(3);
  std::vector<uint64_t> blocks;
  for (uint64_t at = 0; at < kLimit.count; at += kBlock) {
    blocks.push_back(allocate(*process, kBlock));
  }
  // One of each 32, which is what the driver's pool has at a time.
  std::sort(blocks.begin(), blocks.end());
  for (size_t i = 0; i < blocks.size(); ++i) {
    if (i % 32 == 7) continue;
    EXPECT_EQ(process->ask(kFree, {blocks[i]}), CUDA_SUCCESS);
  }
  constexpr uint64_t kLarge = 200 << 20;
  EXPECT_GT(free_memory(*process), kLarge);
  EXPECT_EQ(process->ask(kAllocate, {process->context, kLarge}), CUDA_ERROR_OUT_OF_MEMORY);
  for (size_t i = 7; i < blocks.size(); i += 32) {
    EXPECT_EQ(process->ask(kFree, {blocks[i]}), CUDA_SUCCESS);
  }
  EXPECT_EQ(process->ask(kAllocate, {process->context, kLarge}), CUDA_SUCCESS);
}

TEST_F(HostileTest, WhatWaitsBehindAClosedStreamCostsNoThreadsAndNoStreams) {
  const auto process = connect(2);
  const size_t before = host_.executor.threads();
  constexpr uint64_t kFunctions = 10'000;
  for (uint64_t token = 1; token <= kFunctions; ++token) {
    process->send(kHostFunction, {process->stream, token});
  }
  // Its thread sleeps in between, and is told of each.
  for (uint64_t token = 1; token <= 3; ++token) {
    ASSERT_EQ(process->ask(kNextHostFunction, {}), CUDA_SUCCESS);
    ASSERT_EQ(process->value(0), token);
    ASSERT_TRUE(is_so_soon([&] { return process->pages().control.server_sleeps.load() != 0; }));
    process->send(kHostFunctionDone, {token});
  }
  EXPECT_LT(host_.executor.threads(), before + 64);
  expect_to_work(*honest_);
  process->hang_up();
}

// Much waits behind a function of the process's own, which it may only now get to run.
TEST_F(HostileTest, HoweverMuchWaitsBehindAFunctionThatItReturnedIsHeard) {
  const auto process = connect(2);
  constexpr size_t kFrees = 50'000, kFunctions = 16'384;  // of these no more may wait
  std::vector<uint64_t> blocks;
  const Call allocate_small =
      RawClient::call_of(kAllocateAsync, {process->context, 512, process->stream});
  ASSERT_EQ(ask_often(*process, allocate_small, kFrees, &blocks), kFrees);
  ASSERT_EQ(process->ask(kCreateStream, {process->context, CU_STREAM_NON_BLOCKING, 0}),
            CUDA_SUCCESS);
  const uint64_t other = process->value(0);
  process->send(kHostFunction, {process->stream, 1});
  for (const uint64_t block : blocks) process->send(kFreeAsync, {block, process->stream});
  EXPECT_LT(free_memory(*process), kMemory.count) << "all wait";
  ASSERT_EQ(process->ask(kNextHostFunction, {}), CUDA_SUCCESS);
  process->send(kHostFunctionDone, {process->value(0)});
  EXPECT_TRUE(is_so_soon([&] { return free_memory(*process) == kMemory.count; }));

  // There is an end to it: 65,536 things.
  blocks.clear();
  ASSERT_EQ(ask_often(*process, allocate_small, kFrees, &blocks), kFrees);
  process->send(kHostFunction, {process->stream, 2});
  for (size_t i = 0; i + 1 < kFunctions; ++i) process->send(kHostFunction, {other, 3 + i});
  for (const uint64_t block : blocks) process->send(kFreeAsync, {block, process->stream});
  // Calls that are not answered themselves have their error told with a later one.
  ASSERT_EQ(process->ask(kCreateStream, {process->context, CU_STREAM_NON_BLOCKING, 0}),
            CUDA_SUCCESS);
  EXPECT_EQ(process->ask(kQueryStream, {process->value(0)}), CUDA_ERROR_OUT_OF_MEMORY);
  process->hang_up();
  const auto next = connect(2);
  EXPECT_TRUE(is_so_soon([&] { return free_memory(*next) == kMemory.count; }));
}

TEST_F(HostileTest, GraphsThatAreDestroyedWhileNothingEndsCostNoStreams) {
  const auto process = connect(2);
  process->send(kHostFunction, {process->stream, 1});
  const size_t before = host_.executor.threads();
  for (int i = 0; i < 2000; ++i) {
    ASSERT_EQ(process->ask(kInstantiateGraph, {process->context, 0}), CUDA_SUCCESS);
    process->send(kDestroyGraph, {process->value(0)});
  }
  // So many of them at a time: they may still run.
  const Call more = RawClient::call_of(kInstantiateGraph, {process->context, 0});
  EXPECT_EQ(ask_often(*process, more, kMostGraphs), kMostGraphs - 2000);
  EXPECT_EQ(process->ask(kInstantiateGraph, {process->context, 0}), CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_LT(host_.executor.threads(), before + 64);
  ASSERT_EQ(process->ask(kNextHostFunction, {}), CUDA_SUCCESS);
  process->send(kHostFunctionDone, {1});
  EXPECT_TRUE(is_so_soon([&] {
    return process->ask(kInstantiateGraph, {process->context, 0}) == CUDA_SUCCESS;
  }));
}

// ---- What it sends

TEST_F(HostileTest, ImagesThatNameWhatLiesBeyondTheirEndAreRefused) {
  const auto process = connect(2);
  const std::string image = kernels();
  const auto refused = [&](std::string wrong) {
    return load(*process, wrong) == CUDA_ERROR_INVALID_IMAGE;
  };
  const auto with = [&](size_t at, uint64_t value, size_t bytes) {
    std::string changed = image;
    std::memcpy(changed.data() + at, &value, bytes);
    return changed;
  };
  // The header of an ELF file: where its tables lie, and how long they are.
  constexpr size_t kSegments = 32, kSections = 40, kSectionCount = 60;
  EXPECT_TRUE(refused(image.substr(0, image.size() - 1)));
  EXPECT_TRUE(refused(image.substr(0, 64)));
  for (const size_t table : {kSegments, kSections}) {
    for (const uint64_t place : {uint64_t{1} << 29, uint64_t{1} << 40, UINT64_MAX - 63}) {
      EXPECT_TRUE(refused(with(table, place, 8))) << table << " " << place;
    }
  }
  EXPECT_TRUE(refused(with(kSectionCount, 60'000, 2)));
  // An address of the process's, which would be taken for the executor's.
  std::string wrapper(64, '\0');
  const uint32_t magic = 0x466243b1;
  const auto address = reinterpret_cast<uint64_t>(wrapper.data());
  std::memcpy(wrapper.data(), &magic, sizeof(magic));
  std::memcpy(wrapper.data() + 8, &address, sizeof(address));
  EXPECT_TRUE(refused(wrapper));
  EXPECT_TRUE(refused(std::string(4096, '\0')));
  EXPECT_TRUE(refused(""));
  EXPECT_EQ(free_memory(*process), kMemory.count);
  EXPECT_EQ(load(*process, image), CUDA_SUCCESS);
}

TEST_F(HostileTest, WhatIsSaidToBeInTheRingIsNotBelieved) {
  for (const uint64_t submitted :
       {uint64_t{1}, uint64_t{63}, uint64_t{forward_ring::kRingBytes + 64}, uint64_t{1} << 63,
        UINT64_MAX - 63}) {
    const auto liar = std::make_unique<RawClient>(host_.socket_of(2));
    liar->pages().control.submitted = submitted;
    forward_ring::wake(liar->pages().control.server_sleeps);
    EXPECT_TRUE(liar->was_hung_up_on()) << submitted;
  }
  // Back to what was read already.
  const auto liar = connect(2);
  liar->pages().control.submitted = 16;
  forward_ring::wake(liar->pages().control.server_sleeps);
  EXPECT_TRUE(liar->was_hung_up_on());
  // What the server has read it keeps for itself.
  const auto other = connect(2);
  other->pages().control.consumed = 0;
  EXPECT_EQ(other->ask(kMemoryInfo, {}), CUDA_SUCCESS);
}

// Its sandbox could only fail from then on: the worker replaces one whose ledger says so.
TEST_F(HostileTest, TheLedgerSaysThatAProcessHasNoExecutorAnyMore) {
  auto ledger = host_.add_client(3, kMemory);
  const auto process = connect(3);
  EXPECT_EQ(ledger.read()->context_error, 0u);
  process->write(RawClient::call_of(static_cast<CallCode>(999), {}));
  EXPECT_TRUE(is_so_soon([&] { return process->pages().control.broken.load() != 0; }));
  EXPECT_EQ(ledger.read()->context_error, uint32_t{CUDA_ERROR_UNKNOWN});
}

TEST_F(HostileTest, WhateverChangesWhileItIsReadHarmsItsOwnProcessAlone) {
  // Seeded: writes all over the shared pages while calls are read from them.
  for (uint32_t seed = 1; seed <= 12; ++seed) {
    const auto process = std::make_unique<RawClient>(host_.socket_of(2));
    if (!process->begin()) continue;
    std::atomic<bool> over{false};
    std::thread scribbler([&] {
      std::mt19937_64 random(seed);
      auto* words = reinterpret_cast<volatile uint64_t*>(&process->pages());
      // The ring and what stands before it; seldom the counters, or nothing would be read.
      const size_t ring = offsetof(forward_ring::SharedPages, ring) / 8;
      while (!over) {
        const bool all = random() % 4096 == 0;
        const size_t at = all ? random() % (ring + forward_ring::kRingBytes / 8)
                              : ring + random() % (forward_ring::kRingBytes / 8);
        words[at] = random() % 3 == 0 ? random() : random() % 64;
      }
    });
    const Call call = RawClient::call_of(kFill, {process->stream, 4096, 0, 1, 1, 64, 1});
    for (int i = 0; i < 20'000 && !process->was_hung_up_on(0); ++i) {
      // A counter that was scribbled over may deny the room for ever.
      if (!process->try_write(call)) sched_yield();
    }
    over = true;
    scribbler.join();
    expect_to_work(*honest_);
  }
}

// The order of one stream says nothing of another one's, which may have a copy of the memory
// queued. It was made after the memory had gone, and ended the executor.
TEST_F(HostileTest, ACopyThatWaitsDoesNotTouchMemoryThatWasFreedOnAnotherStream) {
  const auto process = connect(2);
  ASSERT_EQ(process->ask(kCreateStream, {process->context, CU_STREAM_NON_BLOCKING, 0}),
            CUDA_SUCCESS);
  const uint64_t other = process->value(0), address = allocate(*process, kBlock);
  process->send(kHostFunction, {other, 1});
  process->send(kFill, {other, address, 0, 1, 1, kBlock, 1});
  process->send(kFreeAsync, {address, process->stream});
  EXPECT_EQ(process->ask(kSynchronizeStream, {process->stream}), CUDA_SUCCESS);
  EXPECT_EQ(free_memory(*process), kMemory.count - kBlock);
  EXPECT_EQ(process->ask(kFree, {address}), CUDA_ERROR_INVALID_VALUE) << "it is freed";
  ASSERT_EQ(process->ask(kNextHostFunction, {}), CUDA_SUCCESS);
  process->send(kHostFunctionDone, {process->value(0)});
  EXPECT_TRUE(is_so_soon([&] { return free_memory(*process) == kMemory.count; }));
  expect_to_work(*process);
}

TEST_F(HostileTest, ACopyThatWaitsDoesNotTouchMemoryOfAContextThatWasDestroyed) {
  const auto process = connect(2);
  const uint64_t first = process->context, address = allocate(*process, kBlock);
  ASSERT_TRUE(process->begin());
  process->send(kHostFunction, {process->stream, 1});
  process->send(kFill, {process->stream, address, 0, 1, 1, kBlock, 1});
  Call destroy = RawClient::call_of(kDestroyContext, {first});
  destroy.slot = 1;
  process->write(destroy);
  // Its thread looks for what is done after each of these.
  for (int i = 0; i < 100; ++i) ASSERT_EQ(free_memory(*process), kMemory.count - kBlock) << i;
  // Behind the gate there is an end to what may still be queued.
  process->send(kFill, {process->stream, address, 0, 1, 1, kBlock, 1});
  EXPECT_EQ(process->ask(kFree, {address}), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(process->ask(kAllocate, {first, kBlock}), CUDA_ERROR_INVALID_CONTEXT);
  EXPECT_EQ(process->pages().slots[1].answered.load(), 0u);
  ASSERT_EQ(process->ask(kNextHostFunction, {}), CUDA_SUCCESS);
  process->send(kHostFunctionDone, {process->value(0)});
  EXPECT_TRUE(is_so_soon([&] { return process->pages().slots[1].answered.load() == 1; }));
  EXPECT_EQ(free_memory(*process), kMemory.count);
  expect_to_work(*process);
}

// A process that makes calls of any kind with arguments that are right, nearly right, somebody
// else's, or nothing at all, in any order.
class AnyCalls {
 public:
  AnyCalls(RawClient& process, uint32_t seed, std::vector<uint64_t> known)
      : process_(process), random_(seed), known_(std::move(known)) {}

  // False if it has no more to say: it was hung up on, or everything of it waits.
  bool make_one() {
    Call call;
    call.code = static_cast<uint16_t>(random_() % kCodes);
    const auto code = static_cast<CallCode>(call.code);
    const auto answered = forward_ring::answered_how(code);
    for (uint64_t& argument : call.arguments) {
      argument = random_() % 16 == 0 ? random_() : known_[random_() % known_.size()];
    }
    std::string data;
    if (takes_data(code) && random_() % 2 == 0) data.resize(random_() % 300);
    for (char& each : data) each = static_cast<char>(random_());
    using enum forward_ring::Answered;
    if (answered == kChunk || answered == kSlotChunk) {
      const auto chunk = free_one(
          chunk_uses_, [this](size_t i) { return process_.pages().chunks[i].done.load(); });
      if (!chunk) return false;
      ++chunk_uses_[*chunk];
      call.arguments[forward_ring::chunk_argument(code)] = *chunk;
    }
    if (answered == kSlot || answered == kSlotChunk) {
      // The first is RawClient's own.
      const auto slot = free_one(asked_, [this](size_t i) {
        return i == 0 ? UINT32_MAX : process_.pages().slots[i].answered.load();
      });
      if (!slot) return false;
      ++asked_[*slot];
      call.slot = static_cast<uint16_t>(*slot);
    }
    while (!process_.try_write(call, data)) {
      if (process_.was_hung_up_on(1)) return false;
    }
    if (call.slot != forward_ring::kNoSlot) look_at(call.slot);
    return true;
  }

 private:
  static constexpr auto kCodes = static_cast<uint32_t>(kDestroyGraph) + 1;

  static bool takes_data(CallCode code) {
    return code == kCopyInline || code == kFindFunction || code == kFindGlobal || code == kLaunch ||
           code == kSetGraphNode;
  }
  // One of these that nothing waits in; now and then any, which ends the process.
  template <size_t n, typename Count>
  std::optional<size_t> free_one(const std::array<uint32_t, n>& uses, Count answered) {
    const size_t first = random_() % n;
    if (random_() % 500 == 0) return first;
    // Its thread may not have had a core for a while; some are never answered.
    for (int look = 0; look < 50 && !process_.was_hung_up_on(0); ++look) {
      for (size_t i = 0; i < n; ++i) {
        const size_t each = (first + i) % n;
        if (answered(each) == uses[each]) return each;
      }
      usleep(1000);
    }
    return std::nullopt;
  }
  // Waits for a moment, for a number that it may be given.
  void look_at(uint16_t number) {
    const forward_ring::AnswerSlot& slot = process_.pages().slots[number];
    for (int look = 0; look < 200; ++look) {
      if (slot.answered.load() == asked_[number]) break;
      sched_yield();
    }
    const uint64_t given = slot.values[0];
    if (slot.result == CUDA_SUCCESS && given != 0 && known_.size() < 64) known_.push_back(given);
  }

  RawClient& process_;
  std::mt19937_64 random_;
  std::vector<uint64_t> known_;
  std::array<uint32_t, forward_ring::kAnswerSlots> asked_{};
  std::array<uint32_t, forward_ring::kChunks> chunk_uses_{};
};

// Memory that was handed out waits for a minute to be opened (ForwardOptions::hold).
constexpr int kLongestHold_s = 90;

// Others than these: HOSTILE_SEEDS=FIRST,LAST.
std::pair<uint32_t, uint32_t> seeds() {
  std::pair<uint32_t, uint32_t> range{1, whole_tests() ? 40 : 8};
  const char* wish = getenv("HOSTILE_SEEDS");
  if (wish != nullptr) sscanf(wish, "%u,%u", &range.first, &range.second);
  return range;
}

TEST_F(HostileTest, AnyCallsInAnyOrderHarmNobody) {
  const uint64_t foreign = allocate(*honest_, kBlock);
  honest_->send(kFill, {honest_->stream, foreign, 0, 0x5a, 1, kBlock, 1});
  size_t made = 0;
  const auto [first, last_seed] = seeds();
  for (uint32_t seed = first; seed <= last_seed; ++seed) {
    const auto process = connect(2);
    // The one before may not have ended yet.
    CUresult result = CUDA_SUCCESS;
    ASSERT_TRUE(is_so_soon(
        [&] {
          result = process->ask(kAllocate, {process->context, kBlock});
          return result == CUDA_SUCCESS || process->was_hung_up_on(0);
        },
        kLongestHold_s));
    ASSERT_EQ(result, CUDA_SUCCESS)
        << " after HOSTILE_SEEDS=" << seed - 1 << "," << seed - 1 << ": " << host_.executor.state();
    const uint64_t own = process->value(0);
    AnyCalls calls(*process, seed,
                   {0,
                    1,
                    4,
                    7,
                    64,
                    512,
                    kBlock,
                    1 << 30,
                    uint64_t{1} << 32,
                    UINT64_MAX / 2,
                    UINT64_MAX,
                    own,
                    own + 64,
                    foreign,
                    foreign + 64,
                    honest_->stream,
                    honest_->context,
                    process->context,
                    process->stream,
                    forward_ring::kGraphToken | 3});
    for (int i = 0; i < 1000 && calls.make_one(); ++i) ++made;
    process->hang_up();
  }
  EXPECT_GT(made, 1000u);
  // What is the honest one's is as it was.
  EXPECT_EQ(honest_->copy(kCopyOut, honest_->stream, foreign, 4096), CUDA_SUCCESS);
  const char* bytes = honest_->pages().chunk_bytes[0];
  EXPECT_TRUE(std::all_of(bytes, bytes + 4096, [](char each) { return each == 0x5a; }));
  EXPECT_EQ(honest_->ask(kFree, {foreign}), CUDA_SUCCESS);
  // All that the others had comes back. What stays is of one of the seeds.
  const auto last = connect(2);
  EXPECT_TRUE(is_so_soon([&] { return free_memory(*last) == kMemory.count; }, kLongestHold_s));
}

// ---- How it goes

TEST_F(HostileTest, WhoeverDiesInTheMiddleOfACallLeavesNothing) {
  const std::string image = kernels();
  const auto begin_upload = [&](RawClient& process) {
    std::memcpy(process.pages().chunk_bytes[0], image.data(), 4096);
    process.send(kUpload, {0, 4096});
  };
  const auto ask_without_waiting = [](RawClient& process, CallCode code,
                                      std::initializer_list<uint64_t> arguments, uint16_t slot) {
    Call call = RawClient::call_of(code, arguments);
    call.slot = slot;
    process.write(call);
  };
  const std::vector<std::function<void(RawClient&)>> deaths = {
      [](RawClient&) {},
      begin_upload,
      [&](RawClient& process) {
        begin_upload(process);
        ask_without_waiting(process, kLoadModule, {process.context, 1}, 3);
      },
      [&](RawClient& process) {
        EXPECT_EQ(process.upload(image), CUDA_SUCCESS);
        ask_without_waiting(process, kLoadModule, {process.context, 1}, 3);
      },
      [&](RawClient& process) {
        for (uint16_t slot = 1; slot < forward_ring::kAnswerSlots; ++slot) {
          ask_without_waiting(process, kAllocate, {process.context, kBlock / 4}, slot);
        }
      },
      [&](RawClient& process) {
        process.send(kHostFunction, {process.stream, 5});
        for (uint16_t slot = 1; slot < forward_ring::kAnswerSlots; ++slot) {
          ask_without_waiting(process, kSynchronizeContext, {process.context}, slot);
        }
      },
      [&](RawClient& process) {
        // Its memory is to be freed when a function has returned that never will.
        const uint64_t address = allocate(process, kMemory.count / 2);
        process.send(kHostFunction, {process.stream, 5});
        process.send(kFreeAsync, {address, process.stream});
        ask_without_waiting(process, kDestroyContext, {process.context}, 1);
      },
      [&](RawClient& process) {
        const uint64_t address = allocate(process, kBlock);
        for (uint64_t chunk = 0; chunk < forward_ring::kChunks; ++chunk) {
          process.send(kCopyOut, {process.stream, address, chunk, forward_ring::kChunkBytes});
        }
      },
      [](RawClient& process) {
        // Half of a call.
        auto& control = process.pages().control;
        control.submitted = control.submitted.load() + 32;
        forward_ring::wake(control.server_sleeps);
      }};
  for (size_t i = 0; i < deaths.size(); ++i) {
    const auto process = connect(2);
    deaths[i](*process);
    process->hang_up();
    const auto next = connect(2);
    EXPECT_TRUE(is_so_soon([&] { return free_memory(*next) == kMemory.count; })) << i;
    expect_to_work(*next);
  }
}

TEST_F(HostileTest, SocketsThatSayNothingOrNonsenseHoldUpNobody) {
  const auto open_socket = [&] {
    OwnedFd made(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    const std::string path = host_.socket_of(2);
    std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
    const int connected =
        ::connect(made.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address));
    EXPECT_EQ(connected, 0);
    return made;
  };
  std::vector<OwnedFd> silent;
  for (int i = 0; i < 100; ++i) silent.push_back(open_socket());
  expect_to_work(*honest_);
  expect_to_work(*connect(2));
  for (const std::string& word :
       {std::string("x"), std::string(sizeof(forward_ring::Hello), '\0'), std::string(4096, 'y')}) {
    const OwnedFd socket = open_socket();
    ASSERT_TRUE(send_packet(socket.get(), word).ok());
    pollfd waiting = {socket.get(), POLLIN, 0};
    EXPECT_EQ(poll(&waiting, 1, 30'000), 1);
  }
  // One that talks on is hung up on.
  const auto talker = connect(2);
  talker->say("more");
  EXPECT_TRUE(talker->was_hung_up_on());
}

// A few lines of PTX may stand for a variable of any size. To the emulated device it has what lies
// in the file of its host code.
TEST(HostileModules, MemoryThatAnImageHidesCountsAsWell) {
  constexpr uint64_t kHidden = 80 << 20;
  const TemporaryFolder folder;
  const std::string path = folder / "hidden.so";
  std::ofstream(path, std::ios::binary) << kernels() << std::string(kHidden, '\0');
  ForwardingHost host({{"EMULATED_CUDA_KERNELS", path}});
  ASSERT_TRUE(host.executor.expect<protocol::ExecutorHello>());
  host.add_client(1, kMemory);
  host.add_client(2, Bytes::mib(200));
  const std::string image = ".version 9.0\n.target sm_90\n.visible .entry endless() { ret; }\n";
  const auto small = connect(host, 1), large = connect(host, 2);
  EXPECT_EQ(load(*small, image), CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(free_memory(*small), kMemory.count);
  ASSERT_EQ(load(*large, image), CUDA_SUCCESS);
  const uint64_t module = large->value(0);
  EXPECT_LE(free_memory(*large), Bytes::mib(200).count - kHidden);
  ASSERT_EQ(load(*large, image), CUDA_SUCCESS);
  EXPECT_EQ(load(*large, image), CUDA_ERROR_OUT_OF_MEMORY) << "there is no room for a third";
  EXPECT_EQ(large->ask(kUnloadModule, {module}), CUDA_SUCCESS);
  EXPECT_GT(free_memory(*large), kHidden);
  expect_to_work(*small);
}

void launch_endless(RawClient& process) {
  ASSERT_EQ(load(process, kernels()), CUDA_SUCCESS);
  const uint64_t module = process.value(0);
  ASSERT_EQ(process.ask_with(RawClient::call_of(kFindFunction, {module}), "endless"), CUDA_SUCCESS);
  process.send(kLaunch, {process.value(0), process.stream, 1 | uint64_t{1} << 32,
                         1 | uint64_t{1} << 32, 1 | uint64_t{1} << 32, 0, 0});
  ASSERT_EQ(process.ask(kQueryStream, {process.stream}), CUDA_ERROR_NOT_READY);
}

TEST(HostileEnds, AKernelThatNeverEndsEndsTheExecutorSoonAfterItsProcess) {
  ForwardingHost host({}, {"--client-drain-ms", "100"});
  ASSERT_TRUE(host.executor.expect<protocol::ExecutorHello>());
  host.add_client(1, kMemory);
  const auto process = connect(host, 1);
  launch_endless(*process);
  process->hang_up();
  const auto broken = host.executor.expect<protocol::Broken>();
  ASSERT_TRUE(broken.has_value());
  EXPECT_EQ(broken->error.code, ErrorCode::kDeadlineExceeded);
  EXPECT_EQ(WEXITSTATUS(host.executor.wait_for_exit()), 1);
}

// 32,768 things wait for a kernel that does not end: no more is read from its ring.
TEST(HostileEnds, WhoeverHasTooMuchWaitingForTheDeviceIsReadNoFurther) {
  ForwardingHost host({}, {"--client-drain-ms", "100"});
  ASSERT_TRUE(host.executor.expect<protocol::ExecutorHello>());
  host.add_client(1, kMemory);
  const auto process = connect(host, 1);
  std::vector<uint64_t> blocks;
  const Call allocate_small =
      RawClient::call_of(kAllocateAsync, {process->context, 512, process->stream});
  ASSERT_EQ(ask_often(*process, allocate_small, 33'000, &blocks), 33'000u);
  launch_endless(*process);
  for (const uint64_t block : blocks) process->send(kFreeAsync, {block, process->stream});
  auto& control = process->pages().control;
  EXPECT_TRUE(is_so_soon([&] {
    return control.server_sleeps.load() != 0 && control.consumed.load() < control.submitted.load();
  }));
  process->hang_up();
  EXPECT_TRUE(host.executor.expect<protocol::Broken>().has_value());
}

TEST(HostileEnds, ACallOfTheDriverThatNeverReturnsDoesTheSame) {
  ForwardingHost host({{"EMULATED_CUDA_FAULTS", "delay cuModuleLoadDataEx call 1 by 1000s"}},
                      {"--client-drain-ms", "100", "--client-last-call-ms", "200"});
  ASSERT_TRUE(host.executor.expect<protocol::ExecutorHello>());
  host.add_client(1, kMemory);
  host.add_client(2, kMemory);
  const auto other = connect(host, 2);
  const auto process = connect(host, 1);
  ASSERT_EQ(process->upload(kernels()), CUDA_SUCCESS);
  Call call = RawClient::call_of(kLoadModule, {process->context, 0});
  call.slot = 1;
  process->write(call);
  expect_to_work(*other);  // while the process is there it may take its time
  process->hang_up();
  const auto broken = host.executor.expect<protocol::Broken>();
  ASSERT_TRUE(broken.has_value());
  EXPECT_EQ(broken->error.code, ErrorCode::kDeadlineExceeded);
  EXPECT_TRUE(other->was_hung_up_on());
}

}  // namespace
}  // namespace lambent::forwarded_testing
