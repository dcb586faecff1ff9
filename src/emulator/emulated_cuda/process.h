// Everything that this process has of the emulated driver: its devices, contexts, modules, streams
// and events. Made by cuInit and kept until the process ends; the API functions use it, any thread.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/base/mutex.h"
#include "emulator/emulated_cuda/arrays.h"
#include "emulator/emulated_cuda/block_pool.h"
#include "emulator/emulated_cuda/capture.h"
#include "emulator/emulated_cuda/graph_exec.h"
#include "emulator/emulated_cuda/graph_memory.h"
#include "emulator/emulated_cuda/interprocess.h"
#include "emulator/emulated_cuda/interprocess_event.h"
#include "emulator/emulated_cuda/managed.h"
#include "emulator/emulated_cuda/memory.h"
#include "emulator/emulated_cuda/modules.h"
#include "emulator/emulated_cuda/partitioning.h"
#include "emulator/emulated_cuda/peers.h"
#include "emulator/emulated_cuda/pools.h"
#include "emulator/emulated_cuda/stream.h"
#include "emulator/emulated_cuda/textures.h"
#include "emulator/emulated_cuda/virtual_memory.h"
#include "emulator/emulated_node/node.h"
#include "emulator/emulated_node/settings.h"
#include "gpu/cuda_abi/driver_types.h"

namespace lambent::emulated_cuda {

using namespace emulated_node;  // whose words are ours: the driver is the node's other half

// Live objects by the address that the program holds as a handle: a stale or invented handle is an
// error, never a crash. The objects are shared with work that is still queued.
template <class T>
class Handles {
 public:
  T* insert(std::shared_ptr<T> object) {
    const MutexLock lock(mutex_);
    T* handle = object.get();
    objects_[handle] = std::move(object);
    return handle;
  }
  std::shared_ptr<T> find(const void* handle) const {
    const MutexLock lock(mutex_);
    auto it = objects_.find(handle);
    return it == objects_.end() ? nullptr : it->second;
  }
  std::vector<std::shared_ptr<T>> all() const {
    const MutexLock lock(mutex_);
    std::vector<std::shared_ptr<T>> found;
    for (const auto& [handle, object] : objects_) found.push_back(object);
    return found;
  }
  std::shared_ptr<T> remove(const void* handle) {
    const MutexLock lock(mutex_);
    auto it = objects_.find(handle);
    if (it == objects_.end()) return nullptr;
    auto object = std::move(it->second);
    objects_.erase(it);
    return object;
  }
  template <class Predicate>
  std::vector<std::shared_ptr<T>> remove_if(Predicate predicate) {
    const MutexLock lock(mutex_);
    std::vector<std::shared_ptr<T>> removed;
    for (auto it = objects_.begin(); it != objects_.end();) {
      if (!predicate(*it->second)) {
        ++it;
        continue;
      }
      removed.push_back(std::move(it->second));
      it = objects_.erase(it);
    }
    return removed;
  }

 private:
  mutable Mutex mutex_;
  std::unordered_map<const void*, std::shared_ptr<T>> objects_ GUARDED_BY(mutex_);
};

// Adds to the priority of what a client of MPS below normal priority runs.
constexpr int kBelowNormalPriority = 16;

struct Context {
  int ordinal;  // as the program sees it
  int device;   // in the node
  unsigned flags;
  bool primary;
  uint64_t id;
  unsigned api_version = 0;
  size_t limits[CU_LIMIT_MAX] = {};
  CUfunc_cache cache = CU_FUNC_CACHE_PREFER_NONE;
  // Of a green context: the primary one that it is part of, and what its kernels may run on.
  std::shared_ptr<Context> root;
  const GreenContext* green = nullptr;
  MultiprocessorSet members{};  // empty: all
  uint32_t epoch = 0;           // of its device, when it was made
  int affinity = 0;             // most multiprocessors, under MPS; 0: no limit
  std::atomic<int> uses{1};     // cuCtxAttach adds one, cuCtxDetach takes one away

  std::shared_ptr<Stream> legacy;
  // Guards the order in which work enters the streams of this context, and the list of them.
  Mutex order;
  std::vector<std::weak_ptr<Stream>> streams GUARDED_BY(order);
  std::vector<CompletionPtr> gates GUARDED_BY(order);  // what all later work waits for

  // What went wrong on the device: from then on every call says so, until the context is gone.
  CUresult error() const { return static_cast<CUresult>(error_.load(std::memory_order_relaxed)); }
  void fail(CUresult error) {
    int none = CUDA_SUCCESS;
    error_.compare_exchange_strong(none, error);
  }

 private:
  std::atomic<int> error_{CUDA_SUCCESS};
};

// What it stands for is the end of the work that it was last recorded behind, in this process or,
// if it is shared, in another. Any thread.
class Event {
 public:
  Event(void* context, unsigned flags, std::unique_ptr<InterprocessEvent> shared = nullptr)
      : context(context), flags(flags), shared(std::move(shared)) {}
  // The last record of this process. A waiting thread asks last_end (events.h) instead.
  CompletionPtr recorded(uint64_t* number = nullptr) const {  // null: never recorded
    const MutexLock lock(mutex_);
    if (number) *number = number_;
    return recorded_;
  }
  // `number`: what begin_record gave.
  void record(CompletionPtr end, uint64_t number) {
    const MutexLock lock(mutex_);
    recorded_ = std::move(end);
    number_ = number;
    captured_ = nullptr;
    is_captured_.store(false, std::memory_order_release);
  }
  // The point of a capture at which it was last recorded; null: in none.
  std::shared_ptr<CapturePoint> captured() const {
    const MutexLock lock(mutex_);
    return captured_;
  }
  bool is_captured() const { return is_captured_.load(std::memory_order_acquire); }
  void record_captured(std::shared_ptr<CapturePoint> point) {
    const MutexLock lock(mutex_);
    captured_ = std::move(point);
    is_captured_.store(true, std::memory_order_release);
  }

  void* const context;
  const unsigned flags;
  const std::unique_ptr<InterprocessEvent> shared;  // null: only of this process

 private:
  mutable Mutex mutex_;
  CompletionPtr recorded_ GUARDED_BY(mutex_);
  // Of the record that recorded_ ends, where the event is shared.
  uint64_t number_ GUARDED_BY(mutex_) = 0;
  std::shared_ptr<CapturePoint> captured_ GUARDED_BY(mutex_);
  std::atomic<bool> is_captured_{false};
};

struct Primary {
  int references = 0;
  unsigned flags = 0;
  std::shared_ptr<Context> context;
};

class Process {
 public:
  // The driver's state, or the reason why there is none.
  // While the process is locked for a checkpoint, get() waits.
  static CUresult get(Process** process);
  static CUresult get_even_locked(Process** process);
  static CUresult initialise();

  // What a device of the node is like.
  const DeviceSpec& spec(int device) const { return node->spec_of(device); }
  CUresult device_of(CUdevice ordinal, int* device) const;
  bool is_lost(int partition) const;
  int ordinal_of(int device) const;  // -1: the program does not see it
  // How the partition reaches the memory of another; kStaged: through the host only.
  Way way_to_peer(int partition, int peer) const;
  bool can_access_peer(int partition, int peer) const {
    return way_to_peer(partition, peer) != Way::kStaged;
  }

  // What went wrong in the context, or befell its device after it was made: then every call says
  // so.
  CUresult health_of(const Context& context) const {
    if (node->epoch(context.device) == context.epoch) return context.error();
    return static_cast<CUresult>(node->death_reason(context.device));
  }
  CUresult create_context(int ordinal, unsigned flags, bool primary, Context** context);
  void destroy_context(std::shared_ptr<Context> context);

  // Counts device memory of this process; false if the device has not that much left.
  bool count_bytes(int device, uint64_t bytes);
  // The same, if need be by moving managed memory of this process to the host.
  bool claim_bytes(int device, uint64_t bytes);
  void uncount_bytes(int device, uint64_t bytes);
  // Device memory of a context, counted; CUDA_ERROR_OUT_OF_MEMORY if there is not so much.
  CUresult allocate_device(Context& context, size_t bytes, CUdeviceptr* address);
  // Gives an allocation of device memory back; false if none begins at this address.
  bool free_device_memory(CUdeviceptr address);

  Settings settings;
  std::unique_ptr<Node> node;
  std::unique_ptr<ClockHolds> holds;
  uint32_t row = kNobody;
  uint64_t generation = 0;
  std::vector<int> visible;  // partition of each ordinal
  MpsClient mps;

  Memory memory;
  VirtualMemory virtual_memory{memory};
  Pools pools{*this};
  Managed managed{*this};
  Peers peers;
  OpenedMemory opened_memory;
  std::shared_ptr<Backing> backing = std::make_shared<Backing>();  // as the memory made of it lives
  BlockPool blocks;
  Handles<Context> contexts;
  Handles<Array> arrays;
  Handles<MipmappedArray> mipmapped_arrays;
  Handles<Texture> textures;
  Handles<Surface> surfaces;
  Handles<Stream> streams;
  Handles<Event> events;
  Handles<Module> modules;
  Handles<Function> functions;
  GraphMemory graph_memory{*this};
  GraphIndex graphs;
  Handles<GraphExec> execs;
  std::vector<std::weak_ptr<Capture>> captures GUARDED_BY(graphs.mutex);
  std::atomic<int> open_captures{0};
  UserReferences user_references GUARDED_BY(graphs.mutex);  // the program's
  std::unordered_map<const void*, std::weak_ptr<UserObject>> user_objects GUARDED_BY(graphs.mutex);
  Handles<GreenContext> green_contexts;
  Handles<ResourceDescriptor> descriptors;
  Handles<Library> libraries;
  Handles<Kernel> kernels;
  SideModules side_modules;
  Mutex primary_mutex;
  Primary primaries[kMaxPartitions] GUARDED_BY(primary_mutex);
  std::atomic<uint64_t> next_id{1};
};

// Whether the calling thread is in a call of the program's that a stream made, or runs blocks of
// kernels: from there the driver may not be called.
bool& in_host_call();

// The context that is current to the calling thread.
std::vector<Context*>& context_stack();
CUresult current(Process** process, std::shared_ptr<Context>* context);

// Stream priorities: the least is 0, greater ones are smaller numbers.
constexpr int kGreatestPriority = -5;
int clamp_priority(int priority);

// What a program may give as a stream: 0, the two special values, or a handle.
// `context` comes in as the current one and goes out as the stream's own.
CUresult resolve_stream(Process& process, CUstream handle, std::shared_ptr<Context>* context,
                        std::shared_ptr<Stream>* stream);
// Queues work behind `after` and in the order that the legacy stream imposes. API functions do not
// come here: they enqueue operations.
CompletionPtr submit(Process& process, Context& context, Stream& stream,
                     std::vector<CompletionPtr> after, Work work);
void synchronize(Context& context);
// The same, and a primary context stands for its green contexts too.
void synchronize_with_green(Process& process, Context& context);

// Notes, once for each name, that a call was refused and why.
void log_refusal(const char* name, const char* reason);

}  // namespace lambent::emulated_cuda
