// ServedProcess: one process of a client: the thread that reads its ring and calls the driver for
// it, and all that it holds. Made and ended on the loop thread; the rest runs on its own.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "core/base/mutex.h"
#include "core/base/time.h"
#include "gpu/cuda/device.h"
#include "gpu/cuda/driver.h"
#include "gpu/forward_ring/graph_image.h"
#include "gpu/forward_ring/ring.h"
#include "gpu/forward_ring/shared_memory.h"
#include "gpu/forward_ring/waiting.h"
#include "gpu/forward_server/address_ranges.h"
#include "gpu/forward_server/client_memory.h"
#include "gpu/forward_server/client_pool.h"
#include "gpu/forward_server/client_share.h"
#include "gpu/forward_server/completions.h"
#include "gpu/forward_server/executable_graph.h"
#include "gpu/forward_server/handles.h"
#include "gpu/forward_server/streams.h"

namespace lambent::forward_server {

// What the processes of an executor share; outlives them all.
struct ServerContext {
  const cuda::Driver& driver;
  const cuda::Context& context;
  const Clock& clock;
  // Work that a process left behind may go on for so long; then it counts as one that never ends.
  const Duration drain;
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

class ServedProcess {
 public:
  using OnEnd = std::function<void(ProcessEnd, CUresult)>;

  // The thread begins at once. `on_end` is called on it, as its last deed.
  ServedProcess(ServerContext& server_context, std::shared_ptr<ClientMemory> memory,
                std::shared_ptr<ClientPool> pool, std::shared_ptr<ClientShare> share,
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

  struct Event {
    SharedEvent event;
    uint64_t context = 0;
  };
  struct Module {
    CUmodule module = nullptr;
    uint64_t context = 0;
    Bytes counted;          // device memory
    Bytes counted_on_host;  // what is known of its functions
    std::unordered_map<CUfunction, uint64_t> functions;
    std::unordered_map<std::string, CUdeviceptr> globals;
  };
  struct Function {
    CUfunction function = nullptr;
    uint64_t module = 0;
    ParameterPlaces parameters;
    uint64_t parameter_bytes = 0;
  };

  void serve();
  bool may_read() const;
  bool read_calls();
  void sleep();
  void look_for_finished_kernels();
  void drain();
  bool wait_until_idle();
  void release_all();

  void handle(const Call& call);
  void answer(const Call& call, CUresult result, std::initializer_list<uint64_t> values = {});
  // The same with what went wrong in earlier calls that were not answered.
  void answer_with_earlier(const Call& call, CUresult result,
                           std::initializer_list<uint64_t> values = {});
  void let_chunk_go(uint32_t chunk, CUresult result);
  // Of a call that is not answered.
  void note(CUresult result);
  // A result that means the context is broken ends the process.
  CUresult seen(CUresult result);

  // served_memory.cc
  void memory_info(const Call& call);
  void allocate(const Call& call, bool in_order);
  void free(const Call& call);
  CUresult free_in_order(const Call& call);
  void freed_in_order(Bytes counted);
  CUresult copy_inline(const Call& call);
  void copy_chunk(const Call& call, bool to_device);
  CUresult copy_rows(const Call& call);
  CUresult fill(const Call& call);
  CUresult lock_pages();
  void forget(CUdeviceptr address);

  // served_work.cc
  void create_context(const Call& call);
  void destroy_context(const Call& call);
  void clear_context(uint64_t context);
  void synchronize_context(const Call& call);
  void create_stream(const Call& call);
  CUresult stream_to_ask(uint64_t number, CUstream* stream);
  void synchronize_stream(const Call& call);
  void query_stream(const Call& call);
  CUresult wait_event(const Call& call);
  void create_event(const Call& call);
  CUresult destroy_event(const Call& call);
  CUresult record_event(const Call& call);
  void query_event(const Call& call);
  void synchronize_event(const Call& call);
  void elapsed_time(const Call& call);
  CUresult launch(const Call& call);
  CUresult host_function(const Call& call);
  void next_host_function(const Call& call);
  void host_function_is_due(uint64_t ticket);
  CUresult host_function_done(const Call& call);
  CUresult add_gates();
  CUresult take_gate(size_t* index);
  void open_all_gates();  // any thread

  // served_graphs.cc
  void instantiate_graph(const Call& call);
  void update_graph(const Call& call);
  void set_graph_node(const Call& call);
  void enable_graph_node(const Call& call);
  CUresult upload_graph(const Call& call);
  CUresult launch_graph(const Call& call);
  CUresult queue_graph(const Call& call, ExecutableGraph* graph);
  CUresult destroy_graph(const Call& call);
  CUresult read_graph(const std::string& image, uint64_t context, std::vector<GraphNode>* nodes,
                      uint64_t* wrong);
  CUresult hold(ExecutableGraph& graph, const std::vector<GraphNode>& nodes);
  CUresult check_node(const forward_ring::GraphNodeView& view, uint64_t context, GraphNode* node);
  CUresult take_host_places(const std::vector<GraphNode>& nodes,
                            std::vector<ExecutableGraph::HostPlace>* places);
  bool owns_memory_of(const ExecutableGraph& graph) const;
  CUresult hold_for_functions(ExecutableGraph& graph);
  void tell_when_due(CUstream stream, const ExecutableGraph& graph,
                     const ExecutableGraph::HostPlace& place);
  void release_graph(ExecutableGraph& graph);
  void release_destroyed_graphs();
  ExecutableGraph* find_graph(uint64_t number);
  // Nothing of them runs any more.
  void release_graphs_if(const std::function<bool(const ExecutableGraph&)>& is_one);

  // served_modules.cc
  void upload(const Call& call);
  void load_module(const Call& call);
  void unload_module(const Call& call);
  void drop_module(uint64_t number);
  void find_function(const Call& call);
  void find_global(const Call& call);
  void list_functions(const Call& call);
  void function_name(const Call& call);
  void function_parameters(const Call& call);
  void function_attribute(const Call& call);
  void set_function_attribute(const Call& call);
  void set_cache_config(const Call& call);
  void occupancy(const Call& call);
  void occupancy_shared_memory(const Call& call);
  CUresult add_function(uint64_t module, CUfunction function, uint64_t* number);
  CUresult load_counted(std::string& image, std::string* log, Module* module);

  const char* data() const { return data_.data(); }
  size_t data_bytes(const Call& call) const { return call.bytes - sizeof(Call); }

  ServerContext& server_context_;
  const cuda::Driver& driver_;
  const std::shared_ptr<ClientMemory> memory_;
  const std::shared_ptr<ClientPool> pool_;
  const std::shared_ptr<ClientShare> share_;
  // Shared with callbacks of the driver, which may come late.
  const std::shared_ptr<forward_ring::SharedMemory> shared_;
  forward_ring::SharedPages& pages_;
  const OnEnd on_end_;
  std::atomic<bool> stopping_{false}, is_served_{true};
  std::atomic<uint64_t> launched_{0}, finished_{0};  // kernels

  // All of the thread's own from here on.
  forward_ring::CallReader reader_;
  forward_ring::SpinBudget budget_;
  std::vector<char> data_;
  std::array<uint32_t, forward_ring::kAnswerSlots> answered_{};
  std::array<bool, forward_ring::kAnswerSlots> slot_busy_{};
  std::array<uint32_t, forward_ring::kChunks> done_{};
  std::array<bool, forward_ring::kChunks> chunk_busy_{};
  bool malformed_ = false;
  bool is_abandoned_ = false;  // set before on_end_
  CUresult broken_ = CUDA_SUCCESS;
  CUresult earlier_ = CUDA_SUCCESS;  // the first that no call was told of yet
  bool pages_locked_ = false, tried_to_lock_ = false;

  std::unique_ptr<Completions> completions_;
  CUstream memory_stream_ = nullptr;  // for allocations and their zeros
  CUstream free_stream_ = nullptr;
  std::unordered_map<uint64_t, uint64_t> contexts_;  // its default stream
  uint64_t last_context_ = 0;
  Streams streams_;
  HandleTable<Event> events_;
  HandleTable<Module> modules_;
  HandleTable<Function> functions_;
  HandleTable<std::shared_ptr<ExecutableGraph>> graphs_{nullptr};
  // They may be running still; those of the first are waited for.
  std::vector<std::shared_ptr<ExecutableGraph>> graphs_to_end_, destroyed_graphs_;
  AddressRanges ranges_;
  size_t frees_to_come_ = 0;               // that streams have not reached
  std::vector<Call> waiting_allocations_;  // for those
  std::string image_;                      // that comes in parts
  std::vector<void*> parameters_;

  // Host functions: each holds its stream, or its graph, at a word of its own until the process
  // has run it.
  struct Gate {
    volatile uint32_t* word = nullptr;
    CUdeviceptr address = 0;
    uint32_t turn = 0;
  };
  struct Held {
    size_t gate = 0;
    uint32_t turn = 0;
    uint64_t token = 0;
    bool handed_out = false;   // the process was told to run the function
    bool is_of_graph = false;  // which keeps its gate
    bool is_refused = false;   // with its launch: it holds nothing, and the process is told
  };
  // While it adds a gate or shuts one: stop() opens them from outside, for the thread may be in a
  // call to the driver that goes on only when one opens.
  Mutex gates_mutex_;
  std::vector<Gate> gates_;
  std::vector<void*> gate_pages_;
  std::vector<size_t> free_gates_;
  std::unordered_map<uint64_t, Held> held_;  // by ticket: a stream's function's is its token
  uint64_t last_ticket_ = forward_ring::kGraphToken;
  std::deque<uint64_t> due_functions_;  // their tickets
  std::optional<Call> waits_for_function_;

  std::thread thread_;  // last: it uses all of the above
};

}  // namespace lambent::forward_server
