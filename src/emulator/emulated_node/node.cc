#include "emulator/emulated_node/node.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>

#include "emulator/emulated_node/byte_locks.h"
#include "emulator/emulated_node/node_socket.h"
#include "emulator/emulated_node/soundness.h"

namespace lambent::emulated_node {

namespace {

constexpr int64_t kReapInterval_ns = 2'000'000;  // real time, between lazy looks at the rows
int64_t real_now_ns() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1'000'000'000LL + now.tv_nsec;
}

int64_t virtual_now(const NodeState& state) {
  return state.epoch_virtual_ns +
         static_cast<int64_t>((real_now_ns() - state.epoch_real_ns) * state.spec.time_scale);
}

void initialise(DeviceModel& model, const NodeSpec& spec, int multiprocessors) {
  model.multiprocessors = multiprocessors;
  model.context_penalty = spec.device.context_penalty;
  model.window_ns =
      static_cast<int64_t>(spec.utilization_window_ns * std::max(1.0, spec.time_scale));
}

// The partitions that exist: whole devices, and in MIG mode their compute instances.
template <class Visit>
void for_each_partition(const NodeState& state, int devices, Visit visit) {
  for (int device = 0; device < devices; device++) {
    visit(device);
    const MigState& mig = state.devices[device].mig;
    for (int slot = 0; mig.enabled && slot < kMaxInstances; slot++) {
      if (mig.compute[slot].used) visit(partition_of(device, slot));
    }
  }
}

void clear_row(NodeState& state, int devices, uint32_t index, int64_t now_ns) {
  for_each_partition(state, devices, [&](int partition) {
    remove_process(state.partitions[partition].model, index);
  });
  for (int i = 0; i < devices; i++) give_up(state.devices[i].links, index, now_ns);
  state.holds[index] = {};
  drop_holder(state.shared, index);
  std::memset(static_cast<void*>(&state.rows[index]), 0, sizeof state.rows[index]);
}

std::string because(const std::string& what) { return what + ": " + std::strerror(errno); }

bool is_socket(const std::string& path) {
  struct stat info {};
  return stat(path.c_str(), &info) == 0 && S_ISSOCK(info.st_mode);
}

}  // namespace

void initialise(NodeState& state, const NodeSpec& spec) {
  state.spec = spec;
  state.layout = sizeof(NodeState);
  state.next_generation = 1;
  state.mps_enabled = spec.mps;
  state.epoch_real_ns = real_now_ns();
  for (int i = 0; i < spec.device_count; i++) {
    initialise(state.partitions[i].model, spec, spec.device.multiprocessors);
    initialise(state.devices[i].links);
    state.devices[i].mig.enabled = spec.mig.enabled;
  }
  // The magic number goes in last: a half-made file is made again.
  __atomic_store_n(&state.magic, kNodeMagic, __ATOMIC_RELEASE);
}

std::unique_ptr<Node> Node::open(const std::string& path, const std::string& machine,
                                 std::string* error) {
  if (is_socket(path)) return open_served(path, error);
  std::unique_ptr<Node> node(new Node);
  node->fd_ = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  if (node->fd_ < 0) {
    *error = because("cannot open the node file " + path);
    return nullptr;
  }
  if (!lock_within(node->fd_, kCreationByte, kPatience_ns)) {
    *error = because("cannot lock " + path);
    return nullptr;
  }
  struct stat info;
  bool made = fstat(node->fd_, &info) == 0 && info.st_size >= static_cast<off_t>(sizeof(NodeState));
  if (info.st_size != 0 && info.st_size != static_cast<off_t>(sizeof(NodeState))) {
    *error = path + " is not a node file of this version; remove it";
    return nullptr;
  }
  NodeSpec spec;
  if (!made) {
    if (!read_node_spec(machine, &spec, error)) return nullptr;
    (void)fchmod(node->fd_, 0666);  // other users share the node; only its owner can say so
    if (ftruncate(node->fd_, sizeof(NodeState)) != 0) {
      *error = because("cannot size " + path);
      return nullptr;
    }
  }
  if (!node->map(error)) return nullptr;
  if (__atomic_load_n(&node->shared_->magic, __ATOMIC_ACQUIRE) != kNodeMagic) {
    if (made) {
      if (!read_node_spec(machine, &spec, error)) return nullptr;
      std::memset(static_cast<void*>(node->shared_), 0, sizeof(NodeState));
    }
    initialise(*node->shared_, spec);
    node->apply_mig_spec(spec);
  }
  if (node->shared_->layout != sizeof(NodeState)) {
    *error = path + " is a node file of another version; remove it";
    return nullptr;
  }
  node->spec_ = node->shared_->spec;
  if (!is_possible(node->spec_)) {
    *error = path + " is damaged; remove it";
    return nullptr;
  }
  unlock(node->fd_, kCreationByte);
  return node;
}

// What is not to change comes from the file that cannot be written.
std::unique_ptr<Node> Node::open_served(const std::string& path, std::string* error) {
  std::unique_ptr<Node> node(new Node);
  NodeDescriptors descriptors = receive_node(path, error);
  if (descriptors.live < 0) return nullptr;
  node->fd_ = descriptors.live;
  struct stat live {
  }, pristine{};
  const bool fits = fstat(descriptors.live, &live) == 0 && live.st_size == sizeof(NodeState) &&
                    fstat(descriptors.pristine, &pristine) == 0 &&
                    pristine.st_size == sizeof(NodeState);
  void* memory = MAP_FAILED;
  if (fits) {
    memory = mmap(nullptr, sizeof(NodeState), PROT_READ, MAP_SHARED, descriptors.pristine, 0);
  }
  close(descriptors.pristine);
  if (memory == MAP_FAILED) {
    *error = "what " + path + " hands out is no node of this version";
    return nullptr;
  }
  node->pristine_ = static_cast<const NodeState*>(memory);
  node->spec_ = node->pristine_->spec;
  if (node->pristine_->magic != kNodeMagic || !is_possible(node->spec_)) {
    *error = "what " + path + " hands out is no node of this version";
    return nullptr;
  }
  return node->map(error) ? std::move(node) : nullptr;
}

std::unique_ptr<Node> Node::create(const std::string& path, const NodeSpec& spec,
                                   std::string* error) {
  std::unique_ptr<Node> node(new Node);
  node->fd_ = ::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (node->fd_ < 0) {
    *error = because("cannot make the node file " + path);
    return nullptr;
  }
  (void)lock_within(node->fd_, kCreationByte, kPatience_ns);  // no other process knows of it
  if (fchmod(node->fd_, 0666) != 0 || ftruncate(node->fd_, sizeof(NodeState)) != 0) {
    *error = because("cannot set up " + path);
    return nullptr;
  }
  if (!node->map(error)) return nullptr;
  initialise(*node->shared_, spec);
  node->apply_mig_spec(spec);
  node->spec_ = spec;
  unlock(node->fd_, kCreationByte);
  return node;
}

bool Node::map(std::string* error) {
  void* memory = mmap(nullptr, sizeof(NodeState), PROT_READ | PROT_WRITE, MAP_SHARED, fd_, 0);
  if (memory == MAP_FAILED) {
    *error = because("cannot map the node file");
    return false;
  }
  shared_ = static_cast<NodeState*>(memory);
  state_ = shared_;
  return true;
}

Node::~Node() {
  for (auto& spec : instance_specs_) delete spec.load();
  if (own_row_ != kNobody) release_row(own_row_);
  if (shared_) munmap(shared_, sizeof(NodeState));
  if (pristine_) munmap(const_cast<NodeState*>(pristine_), sizeof(NodeState));
  if (fd_ >= 0) close(fd_);
}

Node::Guard::Guard(Node& node) : node_(node), threads_(node.threads_) {
  locked_ = node.enter();
  NodeState& state = *node.current();
  if (state.writing) {  // the last holder died at work
    for_each_partition(state, node.spec_.device_count,
                       [&](int partition) { repair(state.partitions[partition].model); });
    state.row_bound = kMaxProcesses;
  }
  state.writing = node.own_row_ == kNobody ? kNobody : node.own_row_ + 1;
  now_ns_ = virtual_now(state);
  if (now_ns_ <
      state.partitions[0].model.now_ns) {  // the clock began again: the machine was restarted
    state.epoch_real_ns = real_now_ns();
    state.epoch_virtual_ns = now_ns_ = state.partitions[0].model.now_ns;
  }
  advance_models();
}

// Virtual instants stay exact although threads wake late: nothing moves past an instant at which
// a thread may still start something. One that does not come in time is left behind.
void Node::Guard::advance_models() {
  NodeState& state = *node_.current();
  int64_t real_ns = 0;  // read when needed
  auto overdue = [&](int64_t since_real_ns) {
    if (!real_ns) real_ns = real_now_ns();
    return real_ns - since_real_ns > kLongestStand_ns || real_ns < since_real_ns;
  };
  int64_t until_ns = now_ns_;
  for (uint32_t i = 0; i < std::min<uint32_t>(state.row_bound, kMaxProcesses); i++) {
    ClockHold& hold = state.holds[i];
    int64_t at_ns = __atomic_load_n(&hold.at_ns, __ATOMIC_ACQUIRE);
    if (at_ns == 0 || at_ns >= until_ns) continue;
    if (overdue(__atomic_load_n(&hold.since_real_ns, __ATOMIC_RELAXED))) {
      __atomic_store_n(&hold.at_ns, 0, __ATOMIC_RELEASE);
      state.clock_slips++;
    } else {
      until_ns = at_ns;
    }
  }
  for_each_partition(state, node_.spec_.device_count, [&](int index) {
    PartitionState& partition = state.partitions[index];
    advance(partition.model, until_ns);
    if (!stands_still(partition.model)) {
      partition.standing_since_real_ns = 0;
    } else if (partition.standing_since_real_ns == 0) {
      partition.standing_since_real_ns = real_now_ns();
    } else if (overdue(partition.standing_since_real_ns)) {
      stop_waiting(partition.model);
      partition.standing_since_real_ns = 0;
      state.clock_slips++;
      advance(partition.model, until_ns);
    }
  });
}

Node::Guard::~Guard() {
  node_.current()->writing = 0;
  if (locked_) unlock(node_.fd_, kLockByte);
}

void Node::Guard::reap(bool eager) {
  NodeState& state = *node_.current();
  int64_t real_ns = real_now_ns();
  if (!eager && real_ns - state.last_reap_ns < kReapInterval_ns && real_ns >= state.last_reap_ns) {
    return;
  }
  state.last_reap_ns = real_ns;
  uint32_t bound = 0;
  for (uint32_t i = 0; i < std::min<uint32_t>(state.row_bound, kMaxProcesses); i++) {
    if (!state.rows[i].used) continue;
    bool alive = i == node_.own_row_ || is_locked_by_others(node_.fd_, kFirstRowByte + i, 1);
    if (alive) {
      bound = i + 1;
    } else {
      clear_row(state, node_.spec_.device_count, i, now_ns_);
    }
  }
  state.row_bound = bound;
}

namespace {
double slowdown_of(const NodeState& state, int partition) {
  double factor = state.devices[device_of_partition(partition)].health.slowdown;
  return factor > 0 ? factor : 1;
}
}  // namespace

int64_t Node::Guard::transfer(int device, Direction direction, uint64_t bytes, bool pinned,
                              int64_t begin_ns, uint32_t process) {
  const DeviceSpec& spec = node_.spec_.device;
  LinkClock& link =
      node_.current()->devices[device_of_partition(device)].links.host[static_cast<int>(direction)];
  double rate = direction == Direction::kHostToDevice ? spec.host_to_device_bytes_per_s
                                                      : spec.device_to_host_bytes_per_s;
  if (!pinned) rate *= spec.pageable_factor;
  rate /= slowdown_of(*node_.state_, device);
  return occupy(link, nullptr, bytes, rate, begin_ns, process) + spec.link_latency_ns;
}

int64_t Node::Guard::transfer_between(int from, int to, Way way, uint64_t bytes, int64_t begin_ns,
                                      uint32_t process) {
  if (way == Way::kStaged) {
    begin_ns = transfer(from, Direction::kDeviceToHost, bytes, true, begin_ns, process);
    return transfer(to, Direction::kHostToDevice, bytes, true, begin_ns, process);
  }
  const NodeSpec& spec = node_.spec_;
  Links& giver = node_.current()->devices[device_of_partition(from)].links;
  Links& taker = node_.current()->devices[device_of_partition(to)].links;
  double slowdown = std::max(slowdown_of(*node_.state_, from), slowdown_of(*node_.state_, to));
  if (way == Way::kNvlink) {
    double rate = spec.topology.nvlink_bytes_per_s / slowdown;
    return occupy(giver.peer[0], &taker.peer[1], bytes, rate, begin_ns, process) +
           spec.topology.nvlink_latency_ns;
  }
  double rate =
      std::min(spec.device.device_to_host_bytes_per_s, spec.device.host_to_device_bytes_per_s);
  rate /= slowdown;
  LinkClock& up = giver.host[static_cast<int>(Direction::kDeviceToHost)];
  LinkClock& down = taker.host[static_cast<int>(Direction::kHostToDevice)];
  return occupy(up, &down, bytes, rate, begin_ns, process) + spec.device.link_latency_ns;
}

uint64_t own_pid_namespace() {
  struct stat info {};
  return stat("/proc/self/ns/pid", &info) == 0 ? info.st_ino : 0;
}

uint32_t Node::claim_row() {
  Guard guard(*this);
  if (is_cut_off()) return kNobody;
  guard.reap(true);
  for (uint32_t i = 0; i < kMaxProcesses; i++) {
    ProcessRow& row = guard->rows[i];
    if (row.used || !try_lock(fd_, kFirstRowByte + i)) continue;
    std::memset(static_cast<void*>(&row), 0, sizeof row);
    row.pid = getpid();
    row.pid_namespace = own_pid_namespace();
    row.generation = guard->next_generation++;
    std::snprintf(row.program, sizeof row.program, "%s", program_invocation_short_name);
    row.used = 1;
    guard->row_bound = std::max(guard->row_bound, i + 1);
    own_row_ = i;
    return i;
  }
  return kNobody;
}

void Node::release_row(uint32_t row) {
  Guard guard(*this);
  clear_row(*guard, spec_.device_count, row, guard.now_ns());
  unlock(fd_, kFirstRowByte + row);
  own_row_ = kNobody;
}

int64_t Node::now_ns() const { return virtual_now(*current()); }

void Node::sleep_until(int64_t virtual_ns, int64_t longest_real_ns) const {
  int64_t wait = static_cast<int64_t>((virtual_ns - now_ns()) / spec_.time_scale) + 1;
  wait = std::min(wait, longest_real_ns);
  if (wait <= 0) return;
  // Shorter than it takes to wake up: not worth a sleep.
  constexpr int64_t kNotWorthSleeping_ns = 15'000;
  if (wait < kNotWorthSleeping_ns) {
    int64_t until_ns = real_now_ns() + wait;
    while (real_now_ns() < until_ns) __builtin_ia32_pause();
    return;
  }
  timespec span{wait / 1'000'000'000, wait % 1'000'000'000};
  clock_nanosleep(CLOCK_MONOTONIC, 0, &span, nullptr);
}

void Node::hold_clock(int64_t at_ns) {
  if (own_row_ == kNobody) return;
  ClockHold& hold = current()->holds[own_row_];
  if (at_ns != 0) __atomic_store_n(&hold.since_real_ns, real_now_ns(), __ATOMIC_RELAXED);
  __atomic_store_n(&hold.at_ns, at_ns, __ATOMIC_RELEASE);
}

void Node::spend(int64_t virtual_ns) const {
  // Sleeping for microseconds would mostly measure the wake-up: debts are paid once they are worth
  // it, and what a sleep took too long is credited.
  constexpr int64_t kWorthSleeping_ns = 300'000;
  thread_local int64_t debt_ns = 0;
  debt_ns += static_cast<int64_t>(virtual_ns / spec_.time_scale);
  if (debt_ns < kWorthSleeping_ns) return;
  int64_t before = real_now_ns();
  timespec span{debt_ns / 1'000'000'000, debt_ns % 1'000'000'000};
  clock_nanosleep(CLOCK_MONOTONIC, 0, &span, nullptr);
  debt_ns -= real_now_ns() - before;
}

void Node::abandon_after_fork() {
  // The mapping keeps the open file, and with it the locks, as much as the descriptor does.
  munmap(shared_, sizeof(NodeState));
  close(fd_);
  shared_ = nullptr;
  state_ = nullptr;
  fd_ = -1;
  own_row_ = kNobody;
}

}  // namespace lambent::emulated_node
