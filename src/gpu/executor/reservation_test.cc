#include "gpu/executor/reservation.h"

#include <optional>

#include "gpu/executor/testing/testing.h"

namespace lambent::executor {
namespace {

class ReservationTest : public EmulatedDevice {
 protected:
  void SetUp() override {
    EmulatedDevice::SetUp();
    if (IsSkipped()) return;
    auto pool = MemoryPool::create(*driver_, 0);
    ASSERT_TRUE(pool.ok()) << to_string(pool.error());
    pool_ = std::move(*pool);
    pool_->set_limit(Bytes::mib(8));
    reservation_.emplace(*pool_);
  }
  void TearDown() override { reservation_.reset(); }

  std::unique_ptr<MemoryPool> pool_;
  std::optional<Reservation> reservation_;
};

TEST_F(ReservationTest, ReservedBlocksAreTakenUntilTheyAreReleasedAndStayMapped) {
  reservation_->add(Bytes::mib(2));
  reservation_->add(Bytes::mib(4));
  EXPECT_EQ(pool_->used(), Bytes::mib(6));
  EXPECT_FALSE(pool_->take(Bytes::mib(4), 1).ok());
  reservation_->release();
  EXPECT_EQ(pool_->used(), Bytes(0));
  EXPECT_EQ(pool_->mapped(), Bytes::mib(6));
  reservation_->release();
  EXPECT_EQ(pool_->used(), Bytes(0));
}

TEST_F(ReservationTest, WhatThePoolHasNotIsNotReserved) {
  reservation_->add(Bytes::mib(6));
  reservation_->add(Bytes::mib(6));
  EXPECT_EQ(pool_->used(), Bytes::mib(6));
}

TEST_F(ReservationTest, AReservationReleasesItsBlocksWithItself) {
  reservation_->add(Bytes::mib(2));
  reservation_.reset();
  EXPECT_EQ(pool_->used(), Bytes(0));
}

}  // namespace
}  // namespace lambent::executor
