// ServedProcess: one process of a client: the thread that reads its ring and gives each call to the
// part that handles it, what the process holds by those parts, and its end. Made and ended on the
// loop thread; the rest runs on its own.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "core/base/time.h"
#include "gpu/cuda/device.h"
#include "gpu/cuda/driver.h"
#include "gpu/forward_ring/ring.h"
#include "gpu/forward_ring/shared_memory.h"
#include "gpu/forward_ring/waiting.h"
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

// What the processes of an executor share; outlives them all.
struct ServerContext {
  const cuda::Driver& driver;
  const cuda::Context& context;
  const Clock& clock;
  // Work that a process left behind may go on for so long; then it counts as one that never ends.
  const Duration drain;
  const CopyLinks links;
  MemoryHandles& handles;
  unsigned cores = 1;
  std::atomic<unsigned> awake{0};  // threads of processes that do not sleep
};

// How a process ended.
enum class ProcessEnd : uint8_t {
  kGone,       // it hung up, or was removed
  kMalformed,  // what it wrote into its ring was no call
  kBroken,     // the context is broken
  kHangs,      // what it left on the device does not come to an end
};

// A client, and what its processes have together: shared with their threads.
struct ClientParts {
  uint64_t number = 0;
  std::shared_ptr<ClientMemory> memory;
  std::shared_ptr<ClientPool> pool;
  std::shared_ptr<ClientShare> share;
};

class ServedProcess {
 public:
  using OnEnd = std::function<void(ProcessEnd, CUresult)>;

  // The thread begins at once. `on_end` is called on it, as its last deed.
  ServedProcess(ServerContext& server_context, ClientParts client,
                std::shared_ptr<forward_ring::SharedMemory> shared, OnEnd on_end);
  // How one goes: waits for the thread (stop() first). What is in a broken context, or beside work
  // that does not end, can be neither destroyed nor waited for: it stays until the executor ends.
  struct Release {
    void operator()(ServedProcess* process) const;
  };
  using Pointer = std::unique_ptr<ServedProcess, Release>;
  ServedProcess(const ServedProcess&) = delete;
  ServedProcess& operator=(const ServedProcess&) = delete;

  // It is to end: what it holds is freed once its work is over. Any thread.
  void stop();
  // Every call of it fails with this from now on. Any thread.
  void tell_broken(CUresult why);
  // As far as its thread has seen. Any thread.
  bool has_unfinished_kernels() const { return launched_.load() != finished_.load(); }
  // Whether its thread still does what the process asked for. Any thread.
  bool is_served() const { return is_served_.load(); }

 private:
  ~ServedProcess() = default;  // Release

  using Call = forward_ring::Call;

  void serve();
  CUresult begin();
  void serve_calls();
  bool may_read() const;
  bool read_calls();
  void sleep();
  void look_for_finished_kernels();
  bool wait_until_idle();
  void release_all();

  void handle(const Call& call);
  void destroy_context(const Call& call);
  void clear_context(uint64_t context);
  void unload_module(const Call& call);

  ServerContext& server_context_;
  const cuda::Driver& driver_;
  const ClientParts client_;
  // Shared with callbacks of the driver, which may come late.
  const std::shared_ptr<forward_ring::SharedMemory> shared_;
  forward_ring::SharedPages& pages_;
  const OnEnd on_end_;
  std::atomic<bool> stopping_{false}, is_served_{true};
  std::atomic<uint64_t> launched_{0}, finished_{0};  // kernels

  // All of the thread's own from here on.
  forward_ring::CallReader reader_;
  forward_ring::SpinBudget budget_;
  std::vector<char> data_;  // that came behind the call
  bool malformed_ = false;
  bool is_abandoned_ = false;  // set before on_end_

  // What it holds, and who handles its calls.
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
  Gates gates_;  // stop() opens them
  ChunkCopies chunk_copies_;
  HostFunctions host_functions_;
  Graphs graphs_;

  std::thread thread_;  // last: it uses all of the above
};

}  // namespace lambent::forward_server
