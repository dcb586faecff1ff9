#include "gpu/executor/clients.h"

#include "core/base/packet.h"
#include "gpu/executor/testing/testing.h"

namespace lambent::executor {
namespace {

constexpr SandboxId kClient{4};

class ClientsTest : public EmulatedDevice {
 protected:
  void SetUp() override {
    EmulatedDevice::SetUp();
    if (IsSkipped()) return;
    shares_.emplace(*driver_, 0);
    clients_.emplace(Clients::Dependencies{.loop = loop_,
                                           .driver = *driver_,
                                           .context = *context_,
                                           .watch = watch_,
                                           .shares = *shares_},
                     0, forward_server::ForwardOptions{}, [](const Error&) {});
  }
  void TearDown() override { clients_.reset(); }
  // With a socket of the client's, if it is to have one.
  void add(bool has_socket) {
    std::vector<OwnedFd> fds;
    if (has_socket) {
      auto listening = listen_packets(sockets_ / "client", 0600);
      ASSERT_TRUE(listening.ok()) << to_string(listening.error());
      fds.push_back(std::move(*listening));
    }
    clients_->add({.client = kClient, .memory = Bytes::mib(1)}, std::move(fds));
  }

  const SystemClock clock_;
  loop::EventLoop loop_{clock_};
  TemporaryFolder sockets_;
  CUresult state_ = CUDA_SUCCESS;
  ContextWatch watch_{[this] { return state_; }, [](const auto&) {}};
  std::optional<MultiprocessorShares> shares_;
  std::optional<Clients> clients_;
};

TEST_F(ClientsTest, AClientIsServedFromItsMessageOnUntilItIsRemoved) {
  EXPECT_FALSE(clients_->has(kClient));
  ASSERT_NO_FATAL_FAILURE(add(true));
  EXPECT_TRUE(clients_->has(kClient));
  EXPECT_FALSE(clients_->has_unfinished_kernels());
  clients_->set_share(kClient, 50);
  clients_->remove(kClient);
  EXPECT_FALSE(clients_->has(kClient));
}

TEST_F(ClientsTest, AClientWithoutASocketIsNotServed) {
  ASSERT_NO_FATAL_FAILURE(add(false));
  EXPECT_FALSE(clients_->has(kClient));
  clients_->remove(kClient);
}

TEST_F(ClientsTest, AFaultIsNotLookedForWhileNoClientHasAProcess) {
  state_ = CUDA_ERROR_ILLEGAL_ADDRESS;
  clients_->look_for_faults();
  ASSERT_NO_FATAL_FAILURE(add(true));
  clients_->look_for_faults();
  EXPECT_FALSE(watch_.has_ended());
}

}  // namespace
}  // namespace lambent::executor
