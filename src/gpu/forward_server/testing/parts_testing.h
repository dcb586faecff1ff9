// PartsTest: the parts that hold what one process of a client has, on the emulated driver, without
// the process's thread and ring: a test gives calls to a part and reads the answers. One thread.
#pragma once

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <functional>
#include <initializer_list>
#include <iterator>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/base/testing/testing.h"
#include "gpu/cuda/device.h"
#include "gpu/cuda/driver.h"
#include "gpu/forward_ring/calls.h"
#include "gpu/forward_ring/shared_memory.h"
#include "gpu/forward_server/address_ranges.h"
#include "gpu/forward_server/answers.h"
#include "gpu/forward_server/chunk_copies.h"
#include "gpu/forward_server/client_memory.h"
#include "gpu/forward_server/client_pool.h"
#include "gpu/forward_server/client_share.h"
#include "gpu/forward_server/completions.h"
#include "gpu/forward_server/events.h"
#include "gpu/forward_server/functions.h"
#include "gpu/forward_server/gates.h"
#include "gpu/forward_server/graphs.h"
#include "gpu/forward_server/host_functions.h"
#include "gpu/forward_server/image_upload.h"
#include "gpu/forward_server/memory_handles.h"
#include "gpu/forward_server/modules.h"
#include "gpu/forward_server/process_exports.h"
#include "gpu/forward_server/process_memory.h"
#include "gpu/forward_server/streams.h"

namespace lambent::forward_server {

// The device, and what the processes of a client share.
class PartsTestDevice {
 public:
  PartsTestDevice()
      : driver(load()), context(enter(*driver)), splitting{*driver}, share(splitting, {}) {
    const int fd = shared.create();
    CHECK(fd >= 0, "a test can make shared memory");
    close(fd);
  }

  std::unique_ptr<cuda::Driver> driver;
  cuda::Context context;
  Splitting splitting;
  ClientShare share;
  forward_ring::SharedMemory shared;

 private:
  static std::unique_ptr<cuda::Driver> load() {
    static const TemporaryFolder folder;
    setenv("EMULATED_CUDA_NODE", (folder / "node").c_str(), 1);
    setenv("EMULATED_CUDA_CONFIG", "tiny", 1);
    dlopen(LAMBENT_BINARY_DIR "/lib/emulated/libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    auto loaded = cuda::Driver::load();
    CHECK(loaded.ok(), "the emulated driver is built");
    return std::move(*loaded);
  }
  static cuda::Context enter(const cuda::Driver& driver) {
    auto made = cuda::Context::create(driver, 0);
    CHECK(made.ok() && made->enter().ok(), "the emulated device has a context");
    return std::move(*made);
  }
};

// Turns as the test gives them.
class GivenTurns : public CopyTurns {
 public:
  bool is_free = true;  // a copy that asks may go
  struct Asked {
    uint64_t client = 0;
    Bytes size;
    std::function<void()> go;
  };
  std::vector<Asked> asked;
  // Each once, in their order.
  std::vector<uint64_t> ended() const {
    const MutexLock lock(mutex_);
    return ended_;
  }

  Turn begin(uint64_t client, Bytes size, std::function<void()> go) override {
    asked.push_back({client, size, std::move(go)});
    return {asked.size(), is_free};
  }
  void end(uint64_t copy) override {
    const MutexLock lock(mutex_);
    if (std::find(ended_.begin(), ended_.end(), copy) == ended_.end()) ended_.push_back(copy);
  }
  bool is_quiet() const override { return is_free; }

 private:
  mutable Mutex mutex_;
  std::vector<uint64_t> ended_ GUARDED_BY(mutex_);
};

class PartsTest : public testing::Test {
 protected:
  using enum forward_ring::CallCode;
  using Call = forward_ring::Call;
  using CallCode = forward_ring::CallCode;

  static constexpr Bytes kLimit = Bytes::mib(4);
  static constexpr Duration kHold = seconds(60);

  PartsTest()
      : driver_(*device_.driver),
        pages_(*device_.shared.pages()),
        memory_handles_(driver_, clock_, kHold),
        client_memory_(std::make_shared<ClientMemory>(kLimit, OwnedFd())),
        client_pool_(std::make_shared<ClientPool>(driver_, 0, kLimit)),
        memory_(*client_memory_),
        pool_(*client_pool_),
        answers_(driver_, pages_),
        completions_(driver_, [] {}),
        upload_(memory_, pages_, answers_),
        streams_(driver_, device_.share, memory_.quotas.streams, completions_, answers_),
        events_(driver_, memory_.quotas.events, streams_, completions_, answers_),
        exports_(memory_handles_, {7, client_memory_, client_pool_}, ranges_, streams_, answers_),
        process_memory_(driver_, {memory_, pool_, exports_}, ranges_, streams_, completions_,
                        answers_),
        functions_(driver_, memory_, pages_, streams_, answers_),
        modules_(driver_, memory_, pages_, ranges_, upload_, streams_, functions_, answers_),
        gates_(driver_),
        chunk_copies_(driver_, {7, {&to_device_, &to_host_}}, pages_, ranges_, streams_,
                      completions_, gates_, answers_),
        host_functions_(driver_, streams_, completions_, gates_, answers_),
        checker_(ranges_, functions_, modules_, events_),
        graphs_(driver_, memory_, upload_, streams_, completions_, {gates_, host_functions_},
                checker_, answers_) {
    EXPECT_EQ(process_memory_.begin(), CUDA_SUCCESS);
    EXPECT_TRUE(ask(streams_, kCreateContext, {}));
    context_ = value(0);
    stream_ = value(1);
  }
  ~PartsTest() override {
    gates_.open_all();
    poll_until([&] { return completions_.is_empty(); });
    for (const uint64_t context : streams_.contexts()) clear(context);
    process_memory_.release();
    chunk_copies_.release();
    completions_.release();
    gates_.release();
    upload_.release();
  }
  void clear(uint64_t context) {
    for (CUstream stream : streams_.all_of(context)) driver_->stream_synchronize(stream);
    graphs_.release_all_of_context(context);
    modules_.unload_all_of(context);
    process_memory_.free_all_of(context);
    events_.destroy_all_of(context);
    streams_.destroy_context(context);
  }

  static Call call_of(CallCode code, std::initializer_list<uint64_t> arguments) {
    Call call;
    call.code = static_cast<uint16_t>(code);
    std::copy(arguments.begin(), arguments.end(), call.arguments);
    return call;
  }
  // Gives the part a call that is not answered, or only by a chunk. False: it is another part's.
  template <typename Part>
  bool send(Part& part, CallCode code, std::initializer_list<uint64_t> arguments,
            std::string data = {}) {
    return give(part, call_of(code, arguments), std::move(data));
  }
  // The same for a call that is answered in the first slot, now or later.
  template <typename Part>
  bool ask(Part& part, CallCode code, std::initializer_list<uint64_t> arguments,
           std::string data = {}) {
    Call call = call_of(code, arguments);
    call.slot = 0;
    ++asked_;
    return give(part, call, std::move(data));
  }
  bool is_answered() const { return pages_.slots[0].answered.load() == asked_; }
  CUresult result() const {
    EXPECT_TRUE(is_answered());
    return static_cast<CUresult>(pages_.slots[0].result);
  }
  uint64_t value(size_t index) const { return pages_.slots[0].values[index]; }

  // Completes what the device has done until the condition holds; false if it does not.
  template <typename Condition>
  bool poll_until(Condition condition) {
    for (int tries = 0; tries < 10'000; ++tries) {
      completions_.poll();
      if (condition()) return true;
      usleep(1000);  // the emulated device works in threads of its own, which take real time
    }
    return false;
  }
  // The result of the call that was asked last.
  CUresult wait_for_answer() {
    EXPECT_TRUE(poll_until([&] { return is_answered(); }));
    return result();
  }
  // The first failure that was noted and not answered yet.
  CUresult wait_for_stream(uint64_t stream) {
    EXPECT_TRUE(ask(streams_, kSynchronizeStream, {stream}));
    return wait_for_answer();
  }

  uint64_t create_stream(uint32_t flags = CU_STREAM_NON_BLOCKING) {
    EXPECT_TRUE(ask(streams_, kCreateStream, {context_, flags, 0}));
    EXPECT_EQ(result(), CUDA_SUCCESS);
    return value(0);
  }
  uint64_t allocate(uint64_t bytes) {
    EXPECT_TRUE(ask(process_memory_, kAllocate, {context_, bytes}));
    EXPECT_EQ(result(), CUDA_SUCCESS);
    return value(0);
  }
  // Holds the stream until the gate that is returned is opened for its turn.
  size_t hold(uint64_t stream) {
    size_t gate = 0;
    CUstream held = nullptr;
    EXPECT_EQ(gates_.take(&gate), CUDA_SUCCESS);
    EXPECT_EQ(streams_.use(stream, &held), CUDA_SUCCESS);
    EXPECT_EQ(driver_->stream_wait_value_32(held, gates_.address(gate), gates_.shut(gate),
                                            CU_STREAM_WAIT_VALUE_GEQ),
              CUDA_SUCCESS);
    return gate;
  }
  void open(size_t gate) { gates_.open(gate, gates_.turn(gate)); }
  // Through the first chunk.
  void upload(const std::string& image) {
    for (size_t at = 0; at < image.size();) {
      const size_t part = std::min(image.size() - at, forward_ring::kChunkBytes);
      std::memcpy(pages_.chunk_bytes[0], image.data() + at, part);
      EXPECT_TRUE(send(upload_, kUpload, {0, part}));
      at += part;
    }
  }
  // The kernels of the conformance suite.
  uint64_t load_kernels() {
    std::ifstream file(LAMBENT_BINARY_DIR "/tests/conformance_kernels/host-x86_64.so");
    upload(std::string((std::istreambuf_iterator<char>(file)), {}));
    EXPECT_TRUE(ask(modules_, kLoadModule, {context_, 0}));
    EXPECT_EQ(result(), CUDA_SUCCESS);
    return value(0);
  }
  uint64_t find_kernel(uint64_t module, const std::string& name) {
    EXPECT_TRUE(ask(modules_, kFindFunction, {module}, name));
    EXPECT_EQ(result(), CUDA_SUCCESS);
    return value(0);
  }
  char first_byte(uint64_t address) {
    char byte = 0;
    EXPECT_EQ(driver_->memcpy_d_to_h(&byte, address, 1), CUDA_SUCCESS);
    return byte;
  }
  // Whether nothing of this client's host memory is taken.
  bool has_all_host_memory() {
    if (!memory_.take_upload(Bytes::mib(512))) return false;
    memory_.give_back_upload(Bytes::mib(512));
    return true;
  }

  PartsTestDevice device_;
  const cuda::Driver& driver_;
  forward_ring::SharedPages& pages_;
  GivenTurns to_device_, to_host_;
  FakeClock clock_;
  MemoryHandles memory_handles_;
  const std::shared_ptr<ClientMemory> client_memory_;
  const std::shared_ptr<ClientPool> client_pool_;
  ClientMemory& memory_;
  ClientPool& pool_;
  Answers answers_;
  Completions completions_;
  AddressRanges ranges_;
  ImageUpload upload_;
  Streams streams_;
  Events events_;
  ProcessExports exports_;
  ProcessMemory process_memory_;
  Functions functions_;
  Modules modules_;
  Gates gates_;
  ChunkCopies chunk_copies_;
  HostFunctions host_functions_;
  GraphChecker checker_;
  Graphs graphs_;
  uint64_t context_ = 0, stream_ = 0;

 private:
  template <typename Part>
  bool give(Part& part, const Call& call, std::string data) {
    EXPECT_TRUE(answers_.expect(call));
    if constexpr (requires { part.handle(call); }) {
      return part.handle(call);
    } else {
      return part.handle(call, std::span(data.data(), data.size()));
    }
  }

  uint32_t asked_ = 0;
};

}  // namespace lambent::forward_server
