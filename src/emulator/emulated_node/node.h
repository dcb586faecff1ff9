// The state that all processes of an emulated node share: one ordinary file, mapped by each, under
// one lock. Every participant moves the model on to the present before it reads or changes it; used
// from any thread of the driver, of NVML and of the emulated-gpu tool.
//
// The lock and the signs of life are open-file-description locks on bytes of the file (fcntl
// F_OFD_SETLK): the kernel drops them when the last descriptor of a process goes, however it dies,
// and they mean the same in every pid namespace. docs/decisions/0003-emulator-shared-state.md.
//
// Any process can damage the file or keep its lock. A process that finds it so is cut off: it goes
// on with a state of its own, in which all devices are lost, or for one that only looks and misses
// the lock: will be lost when it is kept for longer (docs/decisions/0059-gpu-walls.md).
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/base/mutex.h"
#include "emulator/emulated_node/contention.h"
#include "emulator/emulated_node/fault_plan.h"
#include "emulator/emulated_node/health.h"
#include "emulator/emulated_node/links.h"
#include "emulator/emulated_node/machine.h"
#include "emulator/emulated_node/mig.h"
#include "emulator/emulated_node/shared_memory.h"

namespace lambent::emulated_node {

constexpr int kMaxProcesses = 512;
// How long a process waits for the node's lock, in real time. One that only looks (NVML, the tool)
// waits less: lambent-device is expected to answer within two seconds.
constexpr int64_t kPatience_ns = 5'000'000'000;
constexpr int64_t kPatienceOfReaders_ns = 1'000'000'000;
constexpr int64_t kLongestStand_ns = 500'000'000;  // real time
static_assert(kMaxProcesses == kMaxHolders);
constexpr int kMostMpsClients = 48;  // since Volta
constexpr uint32_t kNobody = 0xFFFFFFFF;

struct DeviceState {
  Links links;
  MigState mig;
  DeviceHealth health;
};

// A whole device or a MIG device, by its index as mig.h has it.
struct PartitionState {
  DeviceModel model;
  int64_t standing_since_real_ns;  // 0: the model does not stand still
};

// How far the checkpoint of a process has come: a CUprocessState, read without the lock, and what
// the process holds on no device meanwhile.
struct CheckpointState {
  uint32_t state;
  uint32_t contexts[kMaxPartitions];
  uint64_t bytes[kMaxPartitions];
};

// One process that has initialised the driver. Its row index is also its lock byte.
struct ProcessRow {
  uint32_t used;
  int32_t pid;             // as the process sees it
  uint64_t pid_namespace;  // in which that id means it; 0: not known
  uint64_t generation;
  uint64_t bytes[kMaxPartitions];
  uint32_t contexts[kMaxPartitions];
  uint32_t mps_client;
  uint32_t managed_allocations;
  int32_t pending_work;  // operations in its streams; changed without the lock
  CheckpointState checkpoint;
  char program[32];
};

// A process's hold on the clock: models stand still at this instant, where it is about to start
// something. Set without the lock.
struct ClockHold {
  int64_t at_ns;  // 0: none
  int64_t since_real_ns;
};

// Tells this process's pid namespace from others; 0 where that cannot be seen.
uint64_t own_pid_namespace();

struct NodeState {
  uint64_t magic;
  uint64_t layout;  // sizeof(NodeState): a file of another version is refused
  // Whose lock it is while its holder changes things: its row and one, kNobody of who has no row.
  uint32_t writing;
  uint32_t row_bound;  // rows in use lie below
  uint64_t next_generation;
  int64_t epoch_real_ns, epoch_virtual_ns;
  int64_t last_reap_ns;
  uint32_t mps_enabled;
  NodeEvents events;
  char fault_plan[kMaxFaultPlanBytes + 1];  // of processes that start from now on
  NodeSpec spec;
  uint64_t clock_slips;  // how often a hold or an awaited kernel was given up
  DeviceState devices[kMaxDevices];
  PartitionState partitions[kMaxPartitions];
  ClockHold holds[kMaxProcesses];
  ProcessRow rows[kMaxProcesses];
  SharedMemory shared;
};

// Makes of zeros the state of a node that nothing has used yet. What the node does not have stays
// untouched, so that its pages take no memory.
void initialise(NodeState& state, const NodeSpec& spec);

class Node {
 public:
  // Opens the node file, making it from the preset or TOML file `machine` if it is absent or empty.
  // A socket at `path` hands out the files of a node that a worker keeps (node_socket.h).
  static std::unique_ptr<Node> open(const std::string& path, const std::string& machine,
                                    std::string* error);
  // Makes it new from `spec`; an existing file is refused.
  static std::unique_ptr<Node> create(const std::string& path, const NodeSpec& spec,
                                      std::string* error);
  ~Node();
  Node(const Node&) = delete;
  Node& operator=(const Node&) = delete;

  const NodeSpec& spec() const { return spec_; }
  const DeviceSpec& device() const { return spec_.device; }
  // Of a partition. That of a MIG device is kept from the first time that it is asked for: ask only
  // about those which this process uses, so that they cannot change.
  const DeviceSpec& spec_of(int partition) const;
  // Null if the devices have no MIG.
  const MigFamily* mig_family() const { return find_mig_family(spec_.mig.family); }

  // Holds the node's lock for its lifetime; when it is made all models stand at the present, or
  // where a process has to look or to start something first (for at most kLongestStand_ns).
  class IS_LOCK Guard {
   public:
    explicit Guard(Node& node) ACQUIRE(node.threads_);
    ~Guard() RELEASE();
    Guard(const Guard&) = delete;
    Guard& operator=(const Guard&) = delete;
    NodeState& operator*() { return *node_.current(); }
    NodeState* operator->() { return node_.current(); }
    int64_t now_ns() const { return now_ns_; }

    // Gives back what dead processes held: memory, kernels, their place on the links. `eager`
    // looks now; otherwise at most every few milliseconds.
    void reap(bool eager);
    DeviceModel& model(int partition) { return node_.current()->partitions[partition].model; }
    // Of a partition and what shares its memory: a device's instances, or the compute instances of
    // one GPU instance.
    uint64_t used_bytes(int partition) const;
    uint32_t contexts_on(int partition) const;
    int mps_clients() const;
    // The devices: whole ones, and in MIG mode their compute instances.
    std::vector<int> partitions() const;
    // Changes the MIG state of a device; the instances in use cannot be destroyed, and the mode not
    // while anything runs there.
    MigResult set_mig_mode(int device, bool enabled);
    MigResult add_compute_instance(int device, int gpu_slot, int slices, int start, int* slot);
    MigResult remove_compute_instance(int device, int slot);
    // A GPU instance and one compute instance of all of it.
    MigResult add_mig_device(int device, int profile_id, int start, int* slot);
    DeviceSpec spec_of(int partition) const;
    // Does to a device what a fault of the plan says; false if there is no such device.
    bool strike(const Fault& fault);
    // Queues a transfer that may begin at `begin_ns`; returns when it is through.
    int64_t transfer(int device, Direction direction, uint64_t bytes, bool pinned, int64_t begin_ns,
                     uint32_t process);
    // The same between two devices, on the way that they have (links.h); kStaged goes through the
    // host, one link after the other.
    int64_t transfer_between(int from, int to, Way way, uint64_t bytes, int64_t begin_ns,
                             uint32_t process);

   private:
    void advance_models();

    Node& node_;
    MutexLock threads_;
    bool locked_;  // false: the process is cut off
    int64_t now_ns_;
  };

  // Whether this process goes on without the node. One with a row stays cut off; one without looks
  // again with every Guard, and makes a damaged node of a worker again once no process has a row.
  bool is_cut_off() const { return current() != shared_; }

  // Claims a row for this process; kNobody if all are taken.
  uint32_t claim_row();
  void release_row(uint32_t row);

  // How often the contexts of the partition's device died, and of what the last time; without the
  // lock.
  uint32_t epoch(int partition) const {
    const DeviceHealth& health = current()->devices[device_of_partition(partition)].health;
    return __atomic_load_n(&health.epoch, __ATOMIC_ACQUIRE);
  }
  int death_reason(int partition) const {
    const DeviceHealth& health = current()->devices[device_of_partition(partition)].health;
    return __atomic_load_n(&health.reason, __ATOMIC_RELAXED);
  }
  // Waits until there were other than `seen` events, for so long at most.
  void wait_for_event(uint32_t seen, int timeout_ms) const;

  // A process's own row, without the lock: whether it may go on, how much is in its streams, and
  // how much managed memory it has.
  const uint32_t& process_state(uint32_t row) const {
    return current()->rows[row].checkpoint.state;
  }
  void wait_while_state(uint32_t row, uint32_t state) const;
  void wake_process(uint32_t row) const;
  void note_work(uint32_t row, int change) {
    __atomic_fetch_add(&current()->rows[row].pending_work, change, __ATOMIC_ACQ_REL);
  }
  void note_managed(uint32_t row, int change) {
    __atomic_fetch_add(&current()->rows[row].managed_allocations, change, __ATOMIC_ACQ_REL);
  }

  // Virtual time now, without the lock.
  int64_t now_ns() const;
  // Sleeps until the virtual instant, or shortly before `longest_real_ns` have passed.
  void sleep_until(int64_t virtual_ns, int64_t longest_real_ns) const;
  // The instant, or 0 for none, at which this process will start something: models do not go past
  // it. Without the lock; earlier than the last one only while that is still in force, or late.
  void hold_clock(int64_t at_ns);
  // Lets this thread spend virtual time on the host; small amounts are saved up.
  void spend(int64_t virtual_ns) const;

  // Around a fork: keeps all other threads of this process from the node, so that the child has it
  // whole.
  void lock_for_fork() ACQUIRE(threads_) { threads_.lock(); }
  void unlock_after_fork() RELEASE(threads_) { threads_.unlock(); }
  // In a forked child: releases the file, so that the parent's locks die with the parent.
  void abandon_after_fork();

  // Of a partition: "GPU-..." or "MIG-...".
  std::string device_uuid(int partition, char bytes[16]) const;
  static std::string pci_bus_id(int partition);

 private:
  Node() = default;
  bool map(std::string* error);
  static std::unique_ptr<Node> open_served(const std::string& path, std::string* error);
  void apply_mig_spec(const NodeSpec& spec);
  NodeState* current() const { return state_.load(std::memory_order_acquire); }
  // Takes the node's lock and finds its state sound; false if it could not, and this process is cut
  // off.
  bool enter() REQUIRES(threads_);
  void cut_off(const std::string& why) REQUIRES(threads_);
  void lose_devices() REQUIRES(threads_);

  int fd_ = -1;
  NodeState* shared_ = nullptr;          // the mapped file
  const NodeState* pristine_ = nullptr;  // of a worker's node: as it was made
  // What is used: shared_ or, while the process is cut off, own_state_.
  std::atomic<NodeState*> state_ = nullptr;
  std::unique_ptr<NodeState> own_state_;
  int64_t cut_off_since_ns_ = 0;  // real time
  NodeSpec spec_{};
  uint32_t own_row_ = kNobody;
  // Which thread of this process has the node: locks of the file tell only processes apart. Guards
  // what a Guard gives.
  Mutex threads_;
  mutable Mutex specs_mutex_;  // guards the making of instance_specs_, which are read without it
  mutable std::atomic<const DeviceSpec*> instance_specs_[kMaxPartitions] = {};
};

}  // namespace lambent::emulated_node
