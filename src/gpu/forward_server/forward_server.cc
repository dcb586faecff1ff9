#include "gpu/forward_server/forward_server.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstring>
#include <string_view>
#include <system_error>
#include <utility>

#include "core/base/packet.h"

namespace lambent::forward_server {
namespace {

using forward_ring::Hello;
using forward_ring::Welcome;

// Of one client; also those that have connected and said nothing yet.
constexpr size_t kMostProcesses = 128;

// What programs ask a device for before they use what is not forwarded: the answer is no.
constexpr CUdevice_attribute kNotForwarded[] = {
    CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY,
    CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY,
    CU_DEVICE_ATTRIBUTE_HOST_NATIVE_ATOMIC_SUPPORTED,
    CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS,
    CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS,
    CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM,
    CU_DEVICE_ATTRIBUTE_CAN_USE_STREAM_MEM_OPS_V1,
    CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS_V1,
    CU_DEVICE_ATTRIBUTE_CAN_USE_STREAM_WAIT_VALUE_NOR_V1,
    CU_DEVICE_ATTRIBUTE_COOPERATIVE_MULTI_DEVICE_LAUNCH,
    CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES,
    CU_DEVICE_ATTRIBUTE_DIRECT_MANAGED_MEM_ACCESS_FROM_HOST,
    CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED,
    CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED,
    CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED,
    CU_DEVICE_ATTRIBUTE_SPARSE_CUDA_ARRAY_SUPPORTED,
    CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED,
    CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_SUPPORTED,
    CU_DEVICE_ATTRIBUTE_MEMPOOL_SUPPORTED_HANDLE_TYPES,
    CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS,
    CU_DEVICE_ATTRIBUTE_CAN_USE_STREAM_WAIT_VALUE_NOR,
    CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED,
    CU_DEVICE_ATTRIBUTE_IPC_EVENT_SUPPORTED,
    CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_FABRIC_SUPPORTED,
    CU_DEVICE_ATTRIBUTE_MULTICAST_SUPPORTED,
};

unsigned usable_cores() {
  cpu_set_t cores;
  CPU_ZERO(&cores);
  if (sched_getaffinity(0, sizeof(cores), &cores) != 0) return 1;
  return static_cast<unsigned>(std::max(1, CPU_COUNT(&cores)));
}

}  // namespace

Result<std::unique_ptr<ForwardServer>> ForwardServer::create(
    loop::EventLoop& loop, const Splitting& splitting, const cuda::Context& context,
    CopyLinks links, ForwardOptions options, OnBroken on_broken) {
  std::unique_ptr<ForwardServer> server(
      new ForwardServer(loop, splitting, context, links, options, std::move(on_broken)));
  RETURN_IF_ERROR(server->describe_device());
  return server;
}

ForwardServer::ForwardServer(loop::EventLoop& loop, const Splitting& splitting,
                             const cuda::Context& context, CopyLinks links, ForwardOptions options,
                             OnBroken on_broken)
    : loop_(loop),
      options_(options),
      splitting_(splitting),
      handles_(splitting_.driver, loop.clock(), options.hold),
      server_context_{splitting.driver, context,       loop.clock(), options.drain, links,
                      handles_,         usable_cores()},
      on_broken_(std::move(on_broken)) {}

ForwardServer::~ForwardServer() {
  *alive_ = false;
  for (auto& [id, client] : clients_) {
    for (Connection& connection : client->connections) {
      if (connection.process != nullptr) connection.process->stop();
    }
  }
}

Result<void> ForwardServer::describe_device() {
  const cuda::Driver& driver = server_context_.driver;
  CUdevice device = 0;
  RETURN_IF_ERROR(driver.check(driver->device_get(&device, splitting_.ordinal), "cuDeviceGet"));
  Welcome& welcome = welcome_;
  RETURN_IF_ERROR(
      driver.check(driver->driver_get_version(&welcome.driver_version), "cuDriverGetVersion"));
  RETURN_IF_ERROR(driver.check(
      driver->device_get_name(welcome.name, sizeof(welcome.name) - 1, device), "cuDeviceGetName"));
  // Attributes that this driver does not know it refuses, and so does the client.
  welcome.attribute_count = forward_ring::kMostAttributes;
  for (uint32_t number = 0; number < forward_ring::kMostAttributes; ++number) {
    int value = 0;
    const auto attribute = static_cast<CUdevice_attribute>(number);
    const CUresult result = driver->device_get_attribute(&value, attribute, device);
    welcome.attributes[number] = result == CUDA_SUCCESS ? value : forward_ring::kNoAttribute;
  }
  for (const CUdevice_attribute attribute : kNotForwarded) {
    if (welcome.attributes[attribute] != forward_ring::kNoAttribute) {
      welcome.attributes[attribute] = 0;
    }
  }
  CUuuid uuid{};
  if (driver->device_get_uuid_v2(&uuid, device) == CUDA_SUCCESS) {
    std::memcpy(welcome.uuid, uuid.bytes, sizeof(welcome.uuid));
  }
  driver->device_get_pci_bus_id(welcome.bus_id, sizeof(welcome.bus_id) - 1, device);
  driver->ctx_get_stream_priority_range(&welcome.least_priority, &welcome.greatest_priority);
  for (uint32_t limit = 0; limit < forward_ring::kMostLimits; ++limit) {
    size_t value = 0;
    if (driver->ctx_get_limit(&value, static_cast<CUlimit>(limit)) == CUDA_SUCCESS) {
      welcome.limits[limit] = value;
    }
  }
  return {};
}

Result<void> ForwardServer::add(SandboxId id, Bytes memory, std::vector<uint32_t> groups,
                                OwnedFd listening, OwnedFd ledger) {
  if (clients_.count(id) != 0) {
    return Error{ErrorCode::kAlreadyExists, "the client is there already"};
  }
  const int flags = listening.valid() ? fcntl(listening.get(), F_GETFL) : -1;
  if (flags < 0 || fcntl(listening.get(), F_SETFL, flags | O_NONBLOCK) != 0) {
    return Error{ErrorCode::kInvalidArgument, "a client without a socket to listen on"};
  }
  auto client = std::make_unique<Client>();
  client->id = id;
  client->parts = {
      .number = id.value,
      .memory = std::make_shared<ClientMemory>(memory, std::move(ledger)),
      .pool = std::make_shared<ClientPool>(splitting_.driver, splitting_.ordinal, memory),
      .share = std::make_shared<ClientShare>(splitting_, std::move(groups))};
  client->listening = std::move(listening);
  client->watch = loop_.watch(client->listening.get(), true, false,
                              [this, client = client.get()](loop::Readiness) { accept(*client); });
  clients_.emplace(id, std::move(client));
  return {};
}

void ForwardServer::change_groups(SandboxId id, std::vector<uint32_t> groups) {
  const auto found = clients_.find(id);
  if (found != clients_.end()) found->second->parts.share->set(std::move(groups));
}

void ForwardServer::remove(SandboxId id) {
  const auto found = clients_.find(id);
  if (found == clients_.end()) return;
  Client& client = *found->second;
  client.removed = true;
  handles_.forget_client(id.value);
  client.watch.reset();
  client.listening.reset();
  for (auto each = client.connections.begin(); each != client.connections.end();) {
    hang_up(client, each++);
  }
  forget_if_empty(id);
}

bool ForwardServer::has_unfinished_kernels() const {
  for (const auto& [id, client] : clients_) {
    for (const Connection& each : client->connections) {
      if (each.process != nullptr && each.process->has_unfinished_kernels()) return true;
    }
  }
  return false;
}

void ForwardServer::tell_broken(CUresult why) {
  for (auto& [id, client] : clients_) {
    for (Connection& connection : client->connections) {
      if (connection.process != nullptr) connection.process->tell_broken(why);
    }
  }
}

void ForwardServer::accept(Client& client) {
  OwnedFd socket(accept4(client.listening.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (!socket.valid()) return;
  // The process sees that its peer is gone.
  if (client.connections.size() >= kMostProcesses) return;
  client.connections.emplace_back();
  Connection& connection = client.connections.back();
  connection.socket = std::move(socket);
  connection.watch =
      loop_.watch(connection.socket.get(), true, false,
                  [this, &client, &connection](loop::Readiness) { read(client, connection); });
}

void ForwardServer::read(Client& client, Connection& connection) {
  if (connection.process == nullptr && greet(client, connection)) return;
  const auto found = std::find_if(client.connections.begin(), client.connections.end(),
                                  [&](const Connection& each) { return &each == &connection; });
  // After the greeting nothing is said on the socket: this is its end.
  hang_up(client, found);
  forget_if_empty(client.id);
}

// False if the process is to be hung up on.
bool ForwardServer::greet(Client& client, Connection& connection) {
  Hello hello{};
  char buffer[sizeof(Hello)];
  const auto packet = receive_packet(connection.socket.get(), buffer);
  if (!packet.ok()) return false;
  if (!*packet) return true;  // not yet
  if ((*packet)->size != sizeof(Hello) || (*packet)->truncated) return false;
  std::memcpy(&hello, buffer, sizeof(hello));
  if (hello.magic != forward_ring::kHelloMagic) return false;
  Welcome welcome = welcome_;
  welcome.memory_bytes = client.parts.memory->limit().count;
  const std::string_view bytes(reinterpret_cast<const char*>(&welcome), sizeof(welcome));
  const auto refuse = [&](CUresult why) {
    welcome = {};
    welcome.refused = why;
    (void)send_packet(connection.socket.get(), bytes).ok();
    return false;
  };
  if (hello.version != forward_ring::kForwardVersion) {
    return refuse(CUDA_ERROR_SYSTEM_DRIVER_MISMATCH);
  }
  if (processes_ >= forward_ring::kMostServedProcesses) return refuse(CUDA_ERROR_OUT_OF_MEMORY);
  auto shared = std::make_shared<forward_ring::SharedMemory>();
  const OwnedFd memory(shared->create());
  if (!memory.valid() || !serve(client, connection, std::move(shared))) {
    return refuse(CUDA_ERROR_OUT_OF_MEMORY);
  }
  const int fds[] = {memory.get()};
  return send_packet(connection.socket.get(), bytes, fds).ok();
}

// False if there is no thread for it.
bool ForwardServer::serve(Client& client, Connection& connection,
                          std::shared_ptr<forward_ring::SharedMemory> shared) {
  const auto number = reinterpret_cast<uint64_t>(&connection);
  try {
    connection.process.reset(new ServedProcess(
        server_context_, client.parts, std::move(shared),
        [this, alive = alive_, id = client.id, number](ProcessEnd how, CUresult result) {
          // If the mailbox is full, the connection stays until the executor ends.
          (void)loop_.post([this, alive, id, number, how, result] {
            if (*alive) ended(id, number, how, result);
          });
        }));
  } catch (const std::system_error&) {
    return false;
  }
  ++processes_;
  return true;
}

void ForwardServer::hang_up(Client& client, std::list<Connection>::iterator connection) {
  connection->watch.reset();
  connection->socket.reset();
  if (connection->process == nullptr) {
    client.connections.erase(connection);
  } else if (!std::exchange(connection->ending, true)) {
    connection->told_to_end = loop_.clock().now();
    connection->process->stop();
    watch_ends();
  }
}

// A thread that is in the driver for ever would never tell.
void ForwardServer::watch_ends() {
  if (std::exchange(watches_ends_, true)) return;
  loop_.call_after(std::max<Duration>(options_.last_call / 4, milliseconds(1)),
                   [this, alive = alive_] {
                     if (*alive) look_at_ends();
                   });
}

void ForwardServer::look_at_ends() {
  watches_ends_ = false;
  const Instant now = loop_.clock().now();
  bool any = false;
  for (const auto& [id, client] : clients_) {
    for (const Connection& each : client->connections) {
      if (!each.ending || !each.process->is_served()) continue;
      any = true;
      if (now - each.told_to_end < options_.last_call) continue;
      return on_broken_(ProcessEnd::kHangs,
                        Error{ErrorCode::kDeadlineExceeded,
                              "a client's last call of the driver does not come to an end"});
    }
  }
  if (any) watch_ends();
}

void ForwardServer::ended(SandboxId id, uint64_t number, ProcessEnd how, CUresult result) {
  const auto found = clients_.find(id);
  if (found == clients_.end()) return;
  auto& connections = found->second->connections;
  const auto connection = std::find_if(
      connections.begin(), connections.end(),
      [&](const Connection& each) { return reinterpret_cast<uint64_t>(&each) == number; });
  if (connection == connections.end()) return;
  if (how == ProcessEnd::kBroken) {
    // Its process learns it with the others, by tell_broken().
    const auto error = server_context_.driver.check(result, "a forwarded call");
    if (!error.ok()) on_broken_(how, error.error());
  } else if (how == ProcessEnd::kHangs) {
    on_broken_(how, Error{ErrorCode::kDeadlineExceeded,
                          "what a client left on the device does not come to an end"});
  }
  connections.erase(connection);  // its thread has nothing more to do
  --processes_;
  forget_if_empty(id);
}

void ForwardServer::forget_if_empty(SandboxId id) {
  const auto found = clients_.find(id);
  if (found == clients_.end()) return;
  if (found->second->removed && found->second->connections.empty()) clients_.erase(found);
}

}  // namespace lambent::forward_server
