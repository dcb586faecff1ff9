#include "emulator/emulated_cuda/process.h"

#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <set>

#include "core/base/mutex.h"
#include "emulator/emulated_cuda/entry_points.h"
#include "emulator/emulated_cuda/visible_devices.h"

namespace lambent::emulated_cuda {

namespace {

uint64_t round_to(uint64_t bytes, uint64_t unit) { return (bytes + unit - 1) & ~(unit - 1); }

Mutex g_mutex;                             // guards the making of g_process
std::atomic<Process*> g_process{nullptr};  // never freed: threads of the driver outlive main
std::atomic<bool> g_forked{false};         // this process is a child of one that had a driver

// The lock is taken by one of these and released by another.
void before_fork() NO_THREAD_SAFETY_ANALYSIS {
  if (Process* process = g_process.load()) process->node->lock_for_fork();
}
void after_fork_in_parent() NO_THREAD_SAFETY_ANALYSIS {
  if (Process* process = g_process.load()) process->node->unlock_after_fork();
}
void after_fork_in_child() NO_THREAD_SAFETY_ANALYSIS {
  Process* process = g_process.load();
  if (!process) return;
  process->node->unlock_after_fork();
  process->node->abandon_after_fork();
  g_forked = true;
}

}  // namespace

CUresult Process::get(Process** out) {
  if (CUresult result = get_even_locked(out)) return result;
  const Process& process = **out;
  const uint32_t& state = process.node->process_state(process.row);
  for (;;) {
    uint32_t now = __atomic_load_n(&state, __ATOMIC_ACQUIRE);
    if (now == CU_PROCESS_STATE_RUNNING) return CUDA_SUCCESS;
    if (now == CU_PROCESS_STATE_FAILED) return CUDA_ERROR_UNKNOWN;
    process.node->wait_while_state(process.row, now);
  }
}

CUresult Process::get_even_locked(Process** process) {
  if (g_forked) return CUDA_ERROR_NOT_INITIALIZED;
  *process = g_process.load(std::memory_order_acquire);
  return *process ? CUDA_SUCCESS : CUDA_ERROR_NOT_INITIALIZED;
}

CUresult Process::initialise() {
  if (g_forked) return CUDA_ERROR_NOT_INITIALIZED;
  const MutexLock lock(g_mutex);
  if (g_process.load()) return CUDA_SUCCESS;
  auto process = std::make_unique<Process>();
  process->settings = read_settings();
  if (!process->settings.launch_mode_valid) {
    log_refusal("cuInit", "EMULATED_CUDA_LAUNCH_MODE is neither compute nor model");
    return CUDA_ERROR_INVALID_VALUE;
  }
  std::string error;
  process->node = Node::open(process->settings.node_path, process->settings.machine, &error);
  if (!process->node) {
    log_refusal("cuInit", error.c_str());
    return CUDA_ERROR_OPERATING_SYSTEM;
  }
  process->holds = std::make_unique<ClockHolds>(*process->node);
  process->visible = visible_partitions(process->settings, *process->node);
  if (process->node->is_cut_off()) return CUDA_ERROR_SYSTEM_NOT_READY;
  if (process->visible.empty()) return CUDA_ERROR_NO_DEVICE;
  process->row = process->node->claim_row();
  if (process->node->is_cut_off()) return CUDA_ERROR_SYSTEM_NOT_READY;
  if (process->row == kNobody) {
    log_refusal("cuInit", "too many processes use this node");
    return CUDA_ERROR_DEVICE_UNAVAILABLE;
  }
  {
    Node::Guard guard(*process->node);
    ProcessRow& mine = guard->rows[process->row];
    process->generation = mine.generation;
    if (guard->mps_enabled) {
      if (guard.mps_clients() >= kMostMpsClients) return CUDA_ERROR_MPS_MAX_CLIENTS_REACHED;
      mine.mps_client = 1;
      process->mps = mps_client(process->settings);
    }
  }
  process->node->spend(process->node->device().init_ns);
  g_process.store(process.release(), std::memory_order_release);
  pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
  take_up_faults(*g_process.load());
  return CUDA_SUCCESS;
}

bool Process::is_lost(int partition) const {
  return Node::Guard(*node)->devices[device_of_partition(partition)].health.lost != 0;
}

CUresult Process::device_of(CUdevice ordinal, int* device) const {
  if (ordinal < 0 || ordinal >= static_cast<int>(visible.size())) return CUDA_ERROR_INVALID_DEVICE;
  *device = visible[ordinal];
  return CUDA_SUCCESS;
}

int Process::ordinal_of(int device) const {
  auto it = std::find(visible.begin(), visible.end(), device);
  return it == visible.end() ? -1 : static_cast<int>(it - visible.begin());
}

Way Process::way_to_peer(int partition, int peer) const {
  bool whole = slot_of_partition(partition) < 0 && slot_of_partition(peer) < 0;
  return whole ? way_between(node->spec(), partition, peer)
               : Way::kStaged;  // MIG devices have none
}

CUresult Process::create_context(int ordinal, unsigned flags, bool primary, Context** out) {
  int device_index;
  if (CUresult result = device_of(ordinal, &device_index)) return result;
  if (is_lost(device_index)) {
    return node->is_cut_off() ? CUDA_ERROR_SYSTEM_NOT_READY : CUDA_ERROR_UNKNOWN;
  }
  if (!claim_bytes(device_index, spec(device_index).context_bytes)) return CUDA_ERROR_OUT_OF_MEMORY;
  auto context = std::make_shared<Context>();
  context->ordinal = ordinal;
  context->device = device_index;
  context->flags = flags;
  context->primary = primary;
  context->id = next_id++;
  context->limits[CU_LIMIT_STACK_SIZE] = 1024;
  context->limits[CU_LIMIT_PRINTF_FIFO_SIZE] = 1 << 20;
  context->limits[CU_LIMIT_MALLOC_HEAP_SIZE] = 8 << 20;
  context->legacy =
      std::make_shared<Stream>(context.get(), CU_STREAM_DEFAULT, 0, next_id++, *holds, true);
  {
    Node::Guard guard(*node);
    const DeviceHealth& health = guard->devices[device_of_partition(device_index)].health;
    context->epoch = health.epoch;
    guard->rows[row].contexts[device_index]++;
  }
  node->spend(spec(device_index).context_ns);
  *out = contexts.insert(std::move(context));
  return CUDA_SUCCESS;
}

void Process::destroy_context(std::shared_ptr<Context> context) {
  synchronize(*context);
  void* handle = context.get();
  context->legacy->close();
  auto gone_streams = streams.remove_if([&](Stream& s) { return s.context == handle; });
  {
    const MutexLock lock(context->order);
    for (auto& weak : context->streams) {
      if (auto stream = weak.lock()) gone_streams.push_back(std::move(stream));
    }
  }
  for (const auto& stream : gone_streams) {
    abandon_capture(*this, stream);
    stream->close();
  }
  events.remove_if([&](Event& event) { return event.context == handle; });
  pools.forget(handle);
  managed.forget(handle);
  peers.forget(handle);
  mipmapped_arrays.remove_if([&](auto& array) { return array.whole->context == handle; });
  arrays.remove_if([&](Array& array) { return array.context == handle; });
  textures.remove_if([&](Texture& texture) { return texture.context == handle; });
  surfaces.remove_if([&](Surface& surface) { return surface.context == handle; });
  graph_memory.forget(handle);
  uint64_t freed = memory.release_all(handle) + spec(context->device).context_bytes;
  auto gone = modules.remove_if([&](Module& module) { return module.context == handle; });
  for (auto& module : gone) {
    functions.remove_if([&](Function& function) { return function.module == module.get(); });
    freed += module->counted_bytes;
  }
  Node::Guard guard(*node);
  ProcessRow& mine = guard->rows[row];
  mine.bytes[context->device] -= std::min(mine.bytes[context->device], freed);
  if (mine.contexts[context->device]) mine.contexts[context->device]--;
}

bool Process::count_bytes(int device_index, uint64_t bytes) {
  Node::Guard guard(*node);
  guard.reap(false);
  uint64_t capacity = spec(device_index).memory_bytes;
  uint64_t most_bytes = UINT64_MAX;
  for (auto [ordinal, limit] : mps.most_bytes) {
    bool meant = ordinal < static_cast<int>(visible.size()) && visible[ordinal] == device_index;
    if (meant) most_bytes = limit;
  }
  uint64_t own = guard->rows[row].bytes[device_index];
  auto fits = [&] {
    uint64_t used = guard.used_bytes(device_index);
    if (bytes > most_bytes || own > most_bytes - bytes) return false;
    return bytes <= capacity && used <= capacity - bytes;
  };
  if (!fits()) {
    guard.reap(true);
    if (!fits()) return false;
  }
  guard->rows[row].bytes[device_index] += bytes;
  return true;
}

bool Process::claim_bytes(int device_index, uint64_t bytes) {
  return count_bytes(device_index, bytes) ||
         managed.make_room(device_index, [&] { return count_bytes(device_index, bytes); });
}

void Process::uncount_bytes(int device_index, uint64_t bytes) {
  Node::Guard guard(*node);
  uint64_t& mine = guard->rows[row].bytes[device_index];
  mine -= std::min(mine, bytes);
}

CUresult Process::allocate_device(Context& context, size_t bytes, CUdeviceptr* address) {
  if (!address || bytes == 0) return CUDA_ERROR_INVALID_VALUE;
  if (bytes > spec(context.device).memory_bytes) return CUDA_ERROR_OUT_OF_MEMORY;
  uint64_t counted = round_to(bytes, spec(context.device).allocation_granularity);
  if (!count_bytes(context.device, counted)) {
    pools.trim_all();
    if (!claim_bytes(context.device, counted)) return CUDA_ERROR_OUT_OF_MEMORY;
  }
  double scale = settings.model_mode ? node->spec().memory_scale : 1.0;
  size_t backing = static_cast<size_t>(std::ceil(bytes / std::max(1.0, scale)));
  auto allocation = memory.allocate(bytes, counted, backing, context.device, &context);
  if (!allocation) {
    uncount_bytes(context.device, counted);
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  node->spend(spec(context.device).allocation_ns);
  *address = allocation->base;
  return CUDA_SUCCESS;
}

bool Process::free_device_memory(CUdeviceptr address) {
  if (graph_memory.known(address)) {
    GraphMemory::Hold until_now;
    return graph_memory.free(address, &until_now);
  }
  auto freed = memory.release(address, MemoryKind::kDevice);
  if (!freed) return memory.release(address, MemoryKind::kImported).has_value();
  uncount_bytes(freed->device, freed->counted_bytes);
  return true;
}

std::vector<Context*>& context_stack() {
  thread_local std::vector<Context*> stack;
  return stack;
}

bool& in_host_call() {
  thread_local bool inside = false;
  return inside;
}

CUresult current(Process** process, std::shared_ptr<Context>* context) {
  if (in_host_call()) return CUDA_ERROR_NOT_PERMITTED;
  if (CUresult result = Process::get(process)) return result;
  auto& stack = context_stack();
  if (stack.empty() || !stack.back()) return CUDA_ERROR_INVALID_CONTEXT;
  *context = (*process)->contexts.find(stack.back());
  return *context ? (*process)->health_of(**context) : CUDA_ERROR_CONTEXT_IS_DESTROYED;
}

namespace {

// The per-thread default streams of one thread, closed when it ends.
struct ThreadStreams {
  std::unordered_map<uint64_t, std::shared_ptr<Stream>> by_context_id;
  ~ThreadStreams() {
    for (auto& [id, stream] : by_context_id) stream->close();
  }
};

std::shared_ptr<Stream> per_thread_stream(Process& process, Context& context) {
  thread_local ThreadStreams mine;
  auto& stream = mine.by_context_id[context.id];
  if (!stream) {
    stream =
        std::make_shared<Stream>(&context, CU_STREAM_DEFAULT, 0, process.next_id++, *process.holds);
    const MutexLock lock(context.order);
    context.streams.push_back(stream);
  }
  return stream;
}

}  // namespace

int clamp_priority(int priority) { return std::clamp(priority, kGreatestPriority, 0); }

CUresult resolve_stream(Process& process, CUstream handle, std::shared_ptr<Context>* context,
                        std::shared_ptr<Stream>* stream) {
  if (handle == nullptr || handle == CU_STREAM_LEGACY) {
    *stream = (*context)->legacy;
    return CUDA_SUCCESS;
  }
  if (handle == CU_STREAM_PER_THREAD) {
    *stream = per_thread_stream(process, **context);
    return CUDA_SUCCESS;
  }
  *stream = process.streams.find(handle);
  if (!*stream) return CUDA_ERROR_INVALID_HANDLE;
  if ((*stream)->context == context->get()) return CUDA_SUCCESS;
  *context = process.contexts.find((*stream)->context);
  return *context ? process.health_of(**context) : CUDA_ERROR_CONTEXT_IS_DESTROYED;
}

CompletionPtr submit(Process& process, Context& context, Stream& stream,
                     std::vector<CompletionPtr> after, Work work) {
  const MutexLock lock(context.order);
  auto wait_for = [&](const Stream& other) {
    CompletionPtr end = other.last();
    if (end && !end->done()) after.push_back(std::move(end));
  };
  std::erase_if(context.gates, [](const CompletionPtr& gate) { return gate->done(); });
  after.insert(after.end(), context.gates.begin(), context.gates.end());
  if (&stream == context.legacy.get()) {
    std::erase_if(context.streams, [](const auto& weak) { return weak.expired(); });
    for (const auto& weak : context.streams) {
      auto other = weak.lock();
      if (other && !(other->flags & CU_STREAM_NON_BLOCKING)) wait_for(*other);
    }
  } else if (!(stream.flags & CU_STREAM_NON_BLOCKING)) {
    wait_for(*context.legacy);
  }
  return stream.submit(process.node->now_ns(), std::move(after), std::move(work));
}

void synchronize(Context& context) {
  for (const auto& end : ends_of(context)) end->wait();
}

void synchronize_with_green(Process& process, Context& context) {
  synchronize(context);
  for (const auto& green : process.green_contexts.all()) {
    if (green->context->root.get() == &context) synchronize(*green->context);
  }
}

void log_refusal(const char* name, const char* reason) {
  static Mutex mutex;  // guards the names, and keeps lines whole
  static std::set<std::string>* seen = new std::set<std::string>;
  const MutexLock lock(mutex);
  if (!seen->insert(name).second) return;
  static std::string* path = new std::string(read_settings().log_path);
  FILE* file = path->empty() ? stderr : std::fopen(path->c_str(), "ae");
  if (!file) return;
  std::fprintf(file, "emulated CUDA: %s: %s\n", name, reason);
  if (file == stderr) {
    std::fflush(file);
  } else {
    std::fclose(file);
  }
}

}  // namespace lambent::emulated_cuda
