// ExecutorParts: the parts of an executor on an emulated device in the test's own process, with the
// worker's end of its socket. Included by tests only; one thread, which is the loop's.
#pragma once

#include <sys/socket.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/base/packet.h"
#include "core/base/sealed_memory.h"
#include "gpu/executor/connection.h"
#include "gpu/executor/contents.h"
#include "gpu/executor/instance_loader.h"
#include "gpu/executor/kept_objects.h"
#include "gpu/executor/request_buffers.h"
#include "gpu/executor/testing/function_testing.h"
#include "gpu/executor/testing/testing.h"

namespace lambent::executor {

// The memory of an executor, and functions that are loaded; nothing runs by itself.
class ExecutorParts : public EmulatedDevice {
 protected:
  void SetUp() override {
    EmulatedDevice::SetUp();
    if (IsSkipped()) return;
    auto pool = MemoryPool::create(*driver_, 0);
    ASSERT_TRUE(pool.ok()) << to_string(pool.error());
    pool_ = std::move(*pool);
    store_ = std::make_unique<DeviceStore>(*pool_);
    store_->set_limit(Bytes::mib(64));
    to_device_ = engine(LinkDirection::kToDevice);
    to_host_ = engine(LinkDirection::kToHost);
    Contents::Hooks hooks;
    hooks.open = [this](ObjectId object) { asked_.push_back(object); };
    hooks.export_ended = [](ObjectId) {};
    hooks.arrived = [](ObjectId, Bytes) {};
    hooks.progress = [this] { on_progress_(); };
    contents_ = std::make_unique<Contents>(*store_, *to_device_, nullptr, std::move(hooks));
    KeptObjects::Hooks kept;
    kept.written = [this](ObjectId object, Result<OwnedFd> file) {
      written_.emplace_back(object, std::move(file));
    };
    kept.progress = [this] { on_progress_(); };
    kept_ = std::make_unique<KeptObjects>(loop_, *context_, *store_, *pool_, *to_host_,
                                          std::move(kept));
    int ends[2] = {-1, -1};
    ASSERT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends), 0);
    worker_ = OwnedFd(ends[0]);
    connection_.emplace(
        loop_, OwnedFd(ends[1]), [](const auto&, const auto&) {}, [] {});
  }
  void TearDown() override {
    kept_.reset();
    to_device_.reset();
    to_host_.reset();
    loaded_.clear();
    reserved_.reset();
  }

  std::unique_ptr<TransferEngine> engine(LinkDirection direction) {
    auto made = TransferEngine::create(loop_, *driver_, *context_, direction, {});
    EXPECT_TRUE(made.ok()) << to_string(made.error());
    return std::move(*made);
  }
  std::unique_ptr<InstanceLoader> loader() {
    const auto capability = context_->compute_capability();
    EXPECT_TRUE(capability.ok());
    return std::make_unique<InstanceLoader>(*driver_, 0, *capability,
                                            InstanceLoader::Options{.device_loops = false});
  }
  static InstanceLoader::Order order(uint64_t instance, const Files& files) {
    InstanceLoader::Order order;
    order.instance = SandboxId(instance);
    order.graph = "graph.json";
    order.memory = Bytes::mib(64);
    for (const auto& [name, content] : files) {
      auto file = sealed_memory(content);
      CHECK(file.ok(), "a test has memory");
      order.names.push_back(name);
      order.files.push_back(std::move(*file));
    }
    return order;
  }
  // An instance that may pin so much; no other has had this number in the store.
  RequestedInstance load(uint64_t id, const Files& files, Bytes memory = Bytes::mib(64)) {
    if (loader_ == nullptr) loader_ = loader();
    auto loaded = loader_->load(order(id, files));
    CHECK(loaded.ok(), "a test's function can be loaded");
    loaded_.push_back(std::move(*loaded));
    if (!reserved_) reserved_.emplace(*pool_);
    return {SandboxId(id), memory, *loaded_.back(), *reserved_};
  }
  // What a request of these values by value is, for the only input; `payload_` holds them.
  kernel_graph::Request raw(const RequestedInstance& instance, const std::vector<int>& values) {
    payload_ = bytes_of(values);
    return decoded(instance, "application/octet-stream");
  }
  kernel_graph::Request json(const RequestedInstance& instance, const std::string& text) {
    payload_ = text;
    return decoded(instance, "application/json");
  }
  kernel_graph::Request decoded(const RequestedInstance& instance, const std::string& type) {
    auto request = instance.loaded.codec.decode(type, payload_);
    EXPECT_TRUE(request.ok()) << to_string(request.error());
    return std::move(*request);
  }
  // An object on the device, of zeros.
  ObjectId object(uint32_t number, TensorType type) {
    const ObjectId object{{1, 2}, number};
    const auto size = byte_size(type);
    EXPECT_TRUE(size.ok());
    const auto placed = store_->place(DeviceName::of(object), *size, 0);
    EXPECT_TRUE(placed.ok());
    EXPECT_EQ((*driver_)->memset_d8(placed->address, 0, size->count), CUDA_SUCCESS);
    EXPECT_TRUE(context_->synchronize().ok());  // no stream of an instance waits for it
    store_->find(DeviceName::of(object))->type = std::move(type);
    store_->unpin(DeviceName::of(object));
    return object;
  }
  std::vector<int> on_device(CUdeviceptr address, size_t count) {
    std::vector<int> values(count);
    EXPECT_EQ((*driver_)->memcpy_d_to_h(values.data(), address, count * sizeof(int)), CUDA_SUCCESS);
    return values;
  }
  uint32_t pins(const DeviceName& name) {
    const auto* entry = store_->find(name);
    return entry == nullptr ? 0 : entry->pins;
  }
  // Turns the loop until this holds; false if it never does.
  template <typename Condition>
  bool turn_until(Condition holds) {
    for (int i = 0; i < 1000 && !holds(); ++i) loop_.run_once(milliseconds(100));
    return holds();
  }
  // The next message to the worker, which must be of this kind.
  template <typename Message>
  std::optional<Message> sent(std::vector<OwnedFd>* fds = nullptr) {
    std::vector<char> buffer(protocol::kExecutorMessage.count);
    std::optional<Packet> packet;
    const bool came = turn_until([&] {
      auto received = receive_packet(worker_.get(), buffer);
      if (received.ok() && *received) packet = std::move(**received);
      return packet.has_value();
    });
    EXPECT_TRUE(came) << "no message";
    if (!came) return std::nullopt;
    auto message = protocol::decode_executor_message({buffer.data(), packet->size});
    EXPECT_TRUE(message.ok() && std::holds_alternative<Message>(*message)) << message->index();
    if (!message.ok() || !std::holds_alternative<Message>(*message)) return std::nullopt;
    if (fds != nullptr) *fds = std::move(packet->fds);
    return std::get<Message>(std::move(*message));
  }

  const SystemClock clock_;
  loop::EventLoop loop_{clock_};
  OwnedFd worker_;
  std::optional<Connection> connection_;
  std::unique_ptr<MemoryPool> pool_;
  std::unique_ptr<DeviceStore> store_;
  std::unique_ptr<Contents> contents_;
  std::unique_ptr<KeptObjects> kept_;
  std::vector<ObjectId> asked_;  // of the worker
  std::vector<std::pair<ObjectId, Result<OwnedFd>>> written_;
  std::function<void()> on_progress_ = [] {};
  std::unique_ptr<InstanceLoader> loader_;
  std::optional<Reservation> reserved_;
  std::vector<std::unique_ptr<LoadedInstance>> loaded_;
  std::string payload_;
  std::unique_ptr<TransferEngine> to_device_, to_host_;
};

}  // namespace lambent::executor
