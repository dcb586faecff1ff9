// Whose turn it is on a link, told without any socket.
#include "gpu/monitor/link_arbiter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lambent::monitor {
namespace {

using protocol::LinkDirection;
using testing::ElementsAre;
using testing::IsEmpty;
using Grant = LinkArbiter::Grant;

constexpr Instant kStart{};
constexpr Bytes kQuantum = Bytes::mib(32);

class Link : public testing::Test {
 protected:
  // Clients 1 and 2 belong to sandbox 10, client 3 to sandbox 20, client 4 uses another device.
  Link() {
    arbiter_.add(1, 10, 0);
    arbiter_.add(2, 10, 0);
    arbiter_.add(3, 20, 0);
    arbiter_.add(4, 30, 1);
  }
  bool want(uint64_t client, LinkDirection direction = LinkDirection::kToHost) {
    return arbiter_.want(client, direction, kQuantum);
  }
  void done(uint64_t client) { arbiter_.done(client, LinkDirection::kToHost); }
  std::vector<uint64_t> turns(Instant now = kStart) {
    std::vector<uint64_t> clients;
    for (const Grant& grant : arbiter_.take_grants(now)) clients.push_back(grant.client);
    return clients;
  }

  LinkArbiter arbiter_{LinkOptions{.quantum = kQuantum, .turns = 1, .grace_period = seconds(2)}};
};

TEST_F(Link, OneTurnAtATimeAndTheNextWhenItIsOver) {
  EXPECT_TRUE(want(1));
  EXPECT_TRUE(want(3));
  EXPECT_THAT(turns(), ElementsAre(1));
  EXPECT_THAT(turns(), IsEmpty());
  done(1);
  EXPECT_THAT(turns(), ElementsAre(3));
}

TEST_F(Link, SandboxesTakeTurnsHoweverManyProcessesTheyHave) {
  want(1);
  want(2);
  want(3);
  EXPECT_THAT(turns(), ElementsAre(1));
  done(1);
  want(1);
  EXPECT_THAT(turns(), ElementsAre(3));
  done(3);
  want(3);
  EXPECT_THAT(turns(), ElementsAre(2));
  done(2);
  EXPECT_THAT(turns(), ElementsAre(3));
}

TEST_F(Link, DirectionsAndDevicesDoNotWaitForEachOther) {
  want(1);
  want(3, LinkDirection::kToDevice);
  want(4);
  EXPECT_EQ(turns().size(), 3u);
}

TEST_F(Link, ATurnIsOneQuantumAtMost) {
  arbiter_.want(1, LinkDirection::kToHost, Bytes::gib(4));
  EXPECT_THAT(arbiter_.take_grants(kStart),
              ElementsAre(Grant{1, LinkDirection::kToHost, kQuantum}));
  done(1);
  arbiter_.want(1, LinkDirection::kToHost, Bytes(5));
  EXPECT_THAT(arbiter_.take_grants(kStart),
              ElementsAre(Grant{1, LinkDirection::kToHost, Bytes(5)}));
}

TEST_F(Link, WhoDiesLeavesItsTurnAndItsWishes) {
  want(1);
  want(3);
  EXPECT_THAT(turns(), ElementsAre(1));
  want(1);
  arbiter_.remove(1);
  EXPECT_THAT(turns(), ElementsAre(3));
  done(3);
  EXPECT_THAT(turns(), IsEmpty());
  EXPECT_FALSE(want(1)) << "it is not known any more";
}

TEST_F(Link, ATurnThatNeverEndsIsGivenUp) {
  want(1);
  want(3);
  EXPECT_THAT(turns(), ElementsAre(1));
  EXPECT_EQ(arbiter_.next_expiry(), kStart + seconds(2));
  EXPECT_THAT(turns(kStart + seconds(1)), IsEmpty());
  EXPECT_THAT(turns(kStart + seconds(2)), ElementsAre(3));
  done(1);  // late: it takes no other turn away
  want(1);
  EXPECT_THAT(turns(kStart + seconds(2)), IsEmpty());
}

TEST_F(Link, NobodyQueuesMoreThanThereAreTurns) {
  EXPECT_TRUE(want(1));
  EXPECT_FALSE(want(1));
}

}  // namespace
}  // namespace lambent::monitor
