// What is offloaded comes onto the device as far as the worker grants it, over the emulated driver:
// the worker counts it as not there.
#include <chrono>

#include "gpu/shim/testing/working_set_fixture.h"

namespace lambent::shim {
namespace {

using protocol::MemoryMessage;

constexpr uint64_t kPiece = kPieceMiB * kMiB;

// The program holds all that it may.
class WorkingSetGrants : public WorkingSetMoves {
 protected:
  WorkingSetGrants() { limit_to(Bytes(kPieces * kPiece)); }
};

TEST_F(WorkingSetGrants, AreAskedForWhatIsFetched) {
  Tenant tenant = this->tenant();
  hold(tenant);
  settle_on(tenant, 0);
  EXPECT_EQ(tenant.worker().wants(), 0);
  const long long before = free_mib();
  use(tenant, "parameter", 1);
  EXPECT_EQ(tenant.worker().wants(), 1);
  EXPECT_EQ(tenant.worker().wanted_bytes(), kPiece);
  EXPECT_EQ(free_mib(), before - static_cast<long long>(kPieceMiB));
  use(tenant, "parameter", 1);
  EXPECT_EQ(tenant.worker().wants(), 1) << "it is there";
  expect_right(tenant);
}

TEST_F(WorkingSetGrants, LeaveItOffloadedWhereTheyAreRefused) {
  Tenant tenant = this->tenant();
  hold(tenant);
  settle_on(tenant, 0);
  tenant.worker().set_grants(WorkerSide::Grants::kNothing);
  const long long before = free_mib();
  use(tenant, "parameter", 1);
  EXPECT_EQ(tenant.worker().wants(), 1);
  EXPECT_EQ(free_mib(), before);
  use(tenant, "parameter", 0);
  EXPECT_EQ(tenant.worker().move_out().offloaded_bytes, (kPieces - 2) * kPiece)
      << "with the next move it comes in, and the worker is told so beforehand";
  EXPECT_EQ(tenant.worker().move_in().bytes, 2 * kPiece);
  expect_right(tenant);
}

// Every refusal holds for a second of real time, in which the program does not ask again.
TEST_F(WorkingSetGrants, AreNoFetchesWhereTheyAreRefused) {
  Tenant tenant = this->tenant();
  hold(tenant);
  settle_on(tenant, 0);
  tenant.worker().set_grants(WorkerSide::Grants::kNothing);
  const auto give_up = std::chrono::steady_clock::now() + std::chrono::minutes(1);
  while (tenant.worker().wants() < 6 && std::chrono::steady_clock::now() < give_up) {
    use(tenant, "parameter", 1);
  }
  ASSERT_EQ(tenant.worker().wants(), 6);
  use(tenant, "parameter", 0);
  EXPECT_EQ(tenant.worker().move_out().offloaded_bytes, (kPieces - 2) * kPiece);
  EXPECT_EQ(tenant.worker().move_in().bytes, 2 * kPiece) << "only these two were used";
  expect_right(tenant);
}

TEST_F(WorkingSetGrants, AreAskedForEverythingAfterAFewFetches) {
  Tenant tenant = this->tenant();
  hold(tenant);
  settle_on(tenant, 0);
  const long long before = free_mib();
  for (size_t piece = 1; piece <= 4; ++piece) use(tenant, "parameter", piece);
  EXPECT_EQ(tenant.worker().wanted_bytes(), 4 * kPiece);
  EXPECT_EQ(free_mib(), before - static_cast<long long>(4 * kPieceMiB));
  use(tenant, "parameter", 5);
  EXPECT_EQ(tenant.worker().wanted_bytes(), (kPieces - 1) * kPiece);
  EXPECT_EQ(free_mib(), before - static_cast<long long>((kPieces - 1) * kPieceMiB));
  expect_right(tenant);
}

// The program waits for its grace period, which is real time.
TEST_F(WorkingSetGrants, AreFetchedByTheAgentWhereTheyComeTooLate) {
  Tenant tenant = this->tenant();
  hold(tenant);
  settle_on(tenant, 0);
  tenant.worker().set_grants(WorkerSide::Grants::kLater);
  tenant.program().tell("parameter 1");
  EXPECT_EQ(tenant.worker().wait_for_want(), kPiece);
  EXPECT_EQ(tenant.hear("used"), "1");
  use(tenant, "parameter", 1);
  EXPECT_EQ(tenant.worker().wants(), 1) << "the answer is still to come";
  tenant.worker().grant(kPiece);
  const MemoryMessage out = tenant.worker().move_out();
  EXPECT_EQ(out.bytes, 2 * kPiece) << "both were there";
  EXPECT_EQ(tenant.worker().move_in().bytes, 2 * kPiece);
  expect_right(tenant);
}

TEST_F(WorkingSetGrants, BringInWhatWasUsedFirstWhereTheyAreTooSmall) {
  Tenant tenant = this->tenant();
  hold(tenant);
  settle_on(tenant, 0);
  tenant.worker().set_grants(WorkerSide::Grants::kNothing);
  use(tenant, "parameter", 5);
  use(tenant, "parameter", 3);
  const long long before = free_mib();
  tenant.worker().grant(kPiece);
  // The agent takes one message after the other: when it answers this, it has fetched.
  EXPECT_EQ(tenant.worker().move_in().status, 0U);
  const long long after = before - static_cast<long long>(kPieceMiB);
  EXPECT_EQ(free_mib(), after);
  EXPECT_EQ(tenant.ask("free 3", "freed"), "3");
  EXPECT_EQ(free_mib(), after) << "it is still offloaded";
  EXPECT_EQ(tenant.ask("free 4", "freed"), "4") << "which was number 5 before";
  EXPECT_EQ(free_mib(), before);
}

TEST_F(WorkingSetGrants, HoldForMemoryThatIsMadeInThePlaceOfWhatWasFreedOffloaded) {
  const auto device = this->device({});
  Tenant tenant = this->tenant();
  hold(tenant);
  settle_on(tenant, 0);
  const long long before = free_mib();
  for (size_t left = kPieces; left > 1; --left) {
    ASSERT_EQ(tenant.ask("free 1", "freed"), "1");
  }
  tenant.worker().set_grants(WorkerSide::Grants::kNothing);
  ASSERT_EQ(tenant.ask("hold 7 4", "held"), std::to_string(kPieces));
  EXPECT_EQ(free_mib(), before) << "the device has no more room for it than before";
  use(tenant, "parameter", 4);
  EXPECT_EQ(free_mib(), before);
  EXPECT_EQ(tenant.worker().move_out().offloaded_bytes, 0U) << "all of it is used";
  EXPECT_EQ(tenant.worker().move_in().bytes, kPieces * kPiece);
  EXPECT_EQ(device->offloaded_bytes_once(0), 0U);
  expect_right(tenant);
}

TEST_F(WorkingSetGrants, AreNotNeededForWhatTheLimitLeaves) {
  limit_to(Bytes((kPieces + 2) * kPiece));
  Tenant tenant = this->tenant();
  hold(tenant);
  settle_on(tenant, 0);
  tenant.worker().set_grants(WorkerSide::Grants::kNothing);
  const long long before = free_mib();
  use(tenant, "parameter", 1);
  use(tenant, "parameter", 2);
  EXPECT_EQ(tenant.worker().wants(), 0)
      << "the worker counts all of the limit but what is offloaded";
  EXPECT_EQ(free_mib(), before - static_cast<long long>(2 * kPieceMiB));
  use(tenant, "parameter", 3);
  EXPECT_EQ(tenant.worker().wants(), 1);
  expect_right(tenant);
}

}  // namespace
}  // namespace lambent::shim
