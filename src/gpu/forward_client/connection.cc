#include "gpu/forward_client/connection.h"

#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <new>

#include "core/base/plain_mutex.h"
#include "gpu/forward_ring/ring.h"
#include "gpu/forward_ring/shared_memory.h"
#include "gpu/forward_ring/waiting.h"

namespace lambent::forward_client {
namespace {

using forward_ring::Answered;
using forward_ring::Hello;
using forward_ring::kAnswerSlots;
using forward_ring::kChunks;
using forward_ring::SpinBudget;
using forward_ring::Welcome;

constexpr const char* kSocketVariable = "LAMBENT_FORWARD_SOCKET";
constexpr int kGreeting_ms = 30'000;
// How often a thread that waits makes sure that the executor is still there.
constexpr int kLook_ms = 200;
// Much longer than a worker takes to end a process whose executor is gone.
constexpr int kEnd_ms = 10'000;

PlainMutex g_connect_mutex;  // guards the making of the connection
PlainMutex g_ring_mutex;
PlainMutex g_chunk_mutex;

struct Slot {
  uint32_t asked = 0;
  SpinBudget budget;
};
struct ChunkUse {
  bool taken GUARDED_BY(g_chunk_mutex) = false;
  uint32_t uses = 0;  // calls that named it
  SpinBudget budget;
};

// All state of the library that concerns the connection. After a fork the child makes a new one.
struct Connection {
  forward_ring::SharedMemory memory;
  forward_ring::CallWriter writer GUARDED_BY(g_ring_mutex);
  Welcome welcome;
  int socket = -1;
  std::atomic<uint64_t> slots_taken{0};
  Slot slots[kAnswerSlots];
  ChunkUse chunks[kChunks];
  uint32_t next_chunk GUARDED_BY(g_chunk_mutex) = 0;
};
static_assert(kAnswerSlots == 64);

std::atomic<Connection*> g_connection{nullptr};
std::atomic<uint32_t> g_number{1};
std::atomic<int> g_lost{0};  // the executor is gone
bool g_handles_forks GUARDED_BY(g_connect_mutex) = false;
thread_local bool t_in_host_function = false;

// The child has neither the mapping nor a right to the socket: as long as it held that, the
// executor would take the parent for alive. Other threads of the parent may have held the locks.
void after_fork() {
  Connection* connection = g_connection.exchange(nullptr);
  if (connection != nullptr) {
    close(connection->socket);
    connection->memory.forget();
  }
  g_lost = 0;
  ++g_number;
  g_connect_mutex.free_in_child();
  g_ring_mutex.free_in_child();
  g_chunk_mutex.free_in_child();
}

int connect_to(const char* path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (std::strlen(path) >= sizeof(address.sun_path)) return -1;
  std::memcpy(address.sun_path, path, std::strlen(path) + 1);
  const int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
  if (fd < 0) return -1;
  int connected = 0;
  do {
    connected = connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address));
  } while (connected != 0 && errno == EINTR);
  if (connected == 0) return fd;
  close(fd);
  return -1;
}

// The descriptor of the shared memory; -1 if none came.
int receive_welcome(int socket, Welcome* welcome) {
  pollfd waiting = {socket, POLLIN, 0};
  int ready = 0;
  do {
    ready = poll(&waiting, 1, kGreeting_ms);
  } while (ready < 0 && errno == EINTR);
  if (ready != 1) return -1;
  iovec data = {welcome, sizeof(*welcome)};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof(control);
  const ssize_t size = recvmsg(socket, &message, MSG_CMSG_CLOEXEC);
  int fd = -1;
  const cmsghdr* header = size > 0 ? CMSG_FIRSTHDR(&message) : nullptr;
  if (header != nullptr && header->cmsg_type == SCM_RIGHTS) {
    std::memcpy(&fd, CMSG_DATA(header), sizeof(fd));
  }
  const bool good = size == sizeof(*welcome) && welcome->magic == forward_ring::kHelloMagic &&
                    welcome->version == forward_ring::kForwardVersion &&
                    welcome->attribute_count <= forward_ring::kMostAttributes;
  if (good) {
    welcome->name[sizeof(welcome->name) - 1] = '\0';
    welcome->bus_id[sizeof(welcome->bus_id) - 1] = '\0';
    return fd;
  }
  if (fd >= 0) close(fd);
  return -1;
}

CUresult greet(Connection& connection) {
  const char* path = std::getenv(kSocketVariable);
  if (path == nullptr) return CUDA_ERROR_NO_DEVICE;
  connection.socket = connect_to(path);
  if (connection.socket < 0) return CUDA_ERROR_NO_DEVICE;
  Hello hello;
  hello.process_id = static_cast<uint32_t>(getpid());
  if (::send(connection.socket, &hello, sizeof(hello), MSG_NOSIGNAL) != sizeof(hello)) {
    return CUDA_ERROR_NO_DEVICE;
  }
  const int fd = receive_welcome(connection.socket, &connection.welcome);
  if (fd < 0) {
    return connection.welcome.refused != 0 ? static_cast<CUresult>(connection.welcome.refused)
                                           : CUDA_ERROR_NO_DEVICE;
  }
  const bool mapped = connection.memory.map(fd);
  close(fd);
  return mapped ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult broken(const Connection& connection) {
  const uint32_t why = connection.memory.pages()->control.broken.load(std::memory_order_relaxed);
  if (why != 0) return static_cast<CUresult>(why);
  return g_lost.load(std::memory_order_relaxed) != 0 ? CUDA_ERROR_DEVICE_UNAVAILABLE : CUDA_SUCCESS;
}

// Whether it pays to wait on. The executor says nothing on the socket: if there is something, it
// is the end, of this process as well: the worker ends users of the executor, and calls what
// may be called again. A program that heard of it first would answer with an error of its own,
// which is no reason to call it again.
bool is_there(Connection& connection) {
  if (broken(connection) != CUDA_SUCCESS) return false;
  pollfd hung_up = {connection.socket, POLLIN, 0};
  if (poll(&hung_up, 1, 0) > 0) {
    poll(nullptr, 0, kEnd_ms);
    g_lost = 1;
  }
  return g_lost == 0;
}

SpinBudget* budget_if_allowed(Connection& connection, SpinBudget& budget) {
  const auto& control = connection.memory.pages()->control;
  return control.may_spin.load(std::memory_order_relaxed) != 0 ? &budget : nullptr;
}

// Under the ring's lock: another thread that calls could not write either.
CUresult write(Connection& connection, const Call& call, const Data& data) {
  const size_t bytes = data.size + data.more_size;
  const PlainLock lock(g_ring_mutex);
  if (const CUresult result = broken(connection)) return result;
  if (!connection.writer.has_room(bytes)) {
    auto& flag = connection.memory.pages()->control.client_waits_for_room;
    const auto has_room = [&] {
      g_ring_mutex.assert_held();
      return connection.writer.has_room(bytes);
    };
    const bool came = forward_ring::wait_until(flag, nullptr, kLook_ms, has_room,
                                               [&] { return is_there(connection); });
    if (!came) return broken(connection);
  }
  connection.writer.write(call, data.bytes, data.size, data.more, data.more_size);
  return CUDA_SUCCESS;
}

uint32_t take_slot(Connection& connection) {
  for (;;) {
    uint64_t taken = connection.slots_taken.load();
    if (taken == UINT64_MAX) {
      sched_yield();
      continue;
    }
    const auto slot = static_cast<uint32_t>(__builtin_ctzll(~taken));
    if (connection.slots_taken.compare_exchange_weak(taken, taken | uint64_t{1} << slot)) {
      return slot;
    }
  }
}

CUresult ask_of(Connection& connection, Call call, uint64_t* values, size_t count,
                const Data& data) {
  const uint32_t number = take_slot(connection);
  Slot& slot = connection.slots[number];
  forward_ring::AnswerSlot& answer = connection.memory.pages()->slots[number];
  call.slot = static_cast<uint16_t>(number);
  CUresult result = write(connection, call, data);
  if (result == CUDA_SUCCESS) {
    ++slot.asked;
    const bool came = forward_ring::wait_until(
        answer.client_sleeps, budget_if_allowed(connection, slot.budget), kLook_ms,
        [&] { return answer.answered.load(std::memory_order_acquire) == slot.asked; },
        [&] { return is_there(connection); });
    // A slot whose answer may still come is never used again.
    if (!came) return broken(connection);
    result = static_cast<CUresult>(answer.result);
    if (count > forward_ring::kAnswerValues) count = forward_ring::kAnswerValues;
    for (size_t i = 0; i < count; ++i) values[i] = answer.values[i];
  }
  connection.slots_taken.fetch_and(~(uint64_t{1} << number));
  return result;
}

bool is_done(Connection& connection, uint32_t chunk) {
  return connection.memory.pages()->chunks[chunk].done.load(std::memory_order_acquire) ==
         connection.chunks[chunk].uses;
}

CUresult wait_for_chunk(Connection& connection, uint32_t chunk) {
  const bool came = forward_ring::wait_until(
      connection.memory.pages()->chunks[chunk].client_sleeps,
      budget_if_allowed(connection, connection.chunks[chunk].budget), kLook_ms,
      [&] { return is_done(connection, chunk); }, [&] { return is_there(connection); });
  return came ? CUDA_SUCCESS : broken(connection);
}

}  // namespace

CUresult connect_once() {
  if (g_connection.load(std::memory_order_acquire) != nullptr) return connection_state();
  const PlainLock lock(g_connect_mutex);
  if (g_connection.load() != nullptr) return connection_state();
  if (!g_handles_forks) g_handles_forks = pthread_atfork(nullptr, nullptr, after_fork) == 0;
  void* memory = std::calloc(1, sizeof(Connection));
  if (memory == nullptr) return CUDA_ERROR_OUT_OF_MEMORY;
  auto* connection = new (memory) Connection;
  const CUresult result = greet(*connection);
  if (result != CUDA_SUCCESS) {
    if (connection->socket >= 0) close(connection->socket);
    connection->~Connection();
    std::free(memory);
    return result;
  }
  {
    const PlainLock ring(g_ring_mutex);
    connection->writer = forward_ring::CallWriter(connection->memory.pages());
  }
  g_connection.store(connection, std::memory_order_release);
  return CUDA_SUCCESS;
}

CUresult connection_state() {
  const Connection* connection = g_connection.load(std::memory_order_acquire);
  if (connection == nullptr) return CUDA_ERROR_NOT_INITIALIZED;
  return t_in_host_function ? CUDA_ERROR_NOT_PERMITTED : broken(*connection);
}

void enter_host_function() { t_in_host_function = true; }
void leave_host_function() { t_in_host_function = false; }

uint32_t connection_number() { return g_number.load(std::memory_order_relaxed); }

const Welcome& device() { return g_connection.load(std::memory_order_acquire)->welcome; }

Call make_call(CallCode code, uint64_t a0, uint64_t a1, uint64_t a2, uint64_t a3, uint64_t a4,
               uint64_t a5, uint64_t a6) {
  Call call;
  call.code = static_cast<uint16_t>(code);
  const uint64_t arguments[] = {a0, a1, a2, a3, a4, a5, a6};
  std::memcpy(call.arguments, arguments, sizeof(arguments));
  return call;
}

CUresult send(const Call& call, const Data& data) {
  Connection* connection = g_connection.load(std::memory_order_acquire);
  return connection == nullptr ? CUDA_ERROR_NOT_INITIALIZED : write(*connection, call, data);
}

CUresult ask(Call call, uint64_t* values, size_t count, const Data& data) {
  Connection* connection = g_connection.load(std::memory_order_acquire);
  if (connection == nullptr) return CUDA_ERROR_NOT_INITIALIZED;
  return ask_of(*connection, call, values, count, data);
}

CUresult take_chunk(Chunk* chunk) {
  Connection* connection = g_connection.load(std::memory_order_acquire);
  if (connection == nullptr) return CUDA_ERROR_NOT_INITIALIZED;
  for (;;) {
    bool found = false, is_free = false;
    {
      const PlainLock lock(g_chunk_mutex);
      // One that is free, else the one that has been the executor's longest.
      for (uint32_t i = 0; i < kChunks && !is_free; ++i) {
        const uint32_t number = (connection->next_chunk + i) % kChunks;
        if (connection->chunks[number].taken) continue;
        is_free = is_done(*connection, number);
        if (found && !is_free) continue;
        found = true;
        chunk->number = number;
      }
      if (found) {
        connection->chunks[chunk->number].taken = true;
        connection->next_chunk = (chunk->number + 1) % kChunks;
      }
    }
    if (found) break;
    if (const CUresult result = broken(*connection)) return result;
    sched_yield();  // other threads have them all
  }
  chunk->bytes = connection->memory.pages()->chunk_bytes[chunk->number];
  const CUresult result = wait_for_chunk(*connection, chunk->number);
  if (result != CUDA_SUCCESS) give_back(*chunk);
  return result;
}

CUresult send_with_chunk(const Call& call, const Chunk& chunk) {
  Connection* connection = g_connection.load(std::memory_order_acquire);
  const CUresult result = write(*connection, call, {});
  if (result == CUDA_SUCCESS) ++connection->chunks[chunk.number].uses;
  give_back(chunk);
  return result;
}

CUresult ask_with_chunk(const Call& call, const Chunk& chunk, uint64_t* values, size_t count) {
  Connection* connection = g_connection.load(std::memory_order_acquire);
  const bool has_slot =
      forward_ring::answered_how(static_cast<CallCode>(call.code)) == Answered::kSlotChunk;
  uint32_t& uses = connection->chunks[chunk.number].uses;
  ++uses;
  const CUresult result =
      has_slot ? ask_of(*connection, call, values, count, {}) : write(*connection, call, {});
  if (result != CUDA_SUCCESS && !has_slot) {
    --uses;  // it was not written
    return result;
  }
  if (const CUresult waited = wait_for_chunk(*connection, chunk.number)) return waited;
  if (has_slot) return result;
  return static_cast<CUresult>(connection->memory.pages()->chunks[chunk.number].result.load());
}

void give_back(const Chunk& chunk) {
  Connection* connection = g_connection.load(std::memory_order_acquire);
  if (connection == nullptr) return;
  const PlainLock lock(g_chunk_mutex);
  connection->chunks[chunk.number].taken = false;
}

}  // namespace lambent::forward_client
