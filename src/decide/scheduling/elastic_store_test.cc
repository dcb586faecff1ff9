#include "decide/scheduling/elastic_store.h"

#include <gtest/gtest.h>

#include "core/base/random.h"

namespace lambent::scheduling {
namespace {

// Four devices of 100 MiB; objects may have all that functions leave. Device 3 has a link only
// to 2.
class ElasticStore : public testing::Test {
 protected:
  ElasticStore() {
    options_.share_of_idle = 1;
    devices_ = {device({1, 2}), device({0, 2}), device({0, 1, 3}), device({2})};
  }
  static StoreDevice device(std::vector<uint32_t> neighbours) {
    return {.memory = Bytes::mib(100), .needed = {}, .neighbours = std::move(neighbours)};
  }
  uint32_t put(uint64_t size_mib, uint32_t place) {
    objects_.push_back({Bytes::mib(size_mib), place, false, objects_.size()});
    return static_cast<uint32_t>(objects_.size()) - 1;
  }
  StoreView view() const { return {devices_, objects_}; }

  StoreOptions options_;
  std::vector<StoreDevice> devices_;
  std::vector<StoredObject> objects_;
};

TEST_F(ElasticStore, LeavesANewObjectWhereItIsMadeAsLongAsThereIsRoom) {
  devices_[0].needed = Bytes::mib(60);
  EXPECT_EQ(place_for_new(options_, view(), 0, Bytes::mib(40)), 0u);
  options_.share_of_idle = 0.5;
  EXPECT_NE(place_for_new(options_, view(), 0, Bytes::mib(40)), 0u) << "half is for newcomers";
}

TEST_F(ElasticStore, PrefersTheNeighbourWithTheLeastPressureToTheHost) {
  devices_[0].needed = Bytes::mib(90);
  devices_[1].needed = Bytes::mib(50);
  put(60, 2);
  EXPECT_EQ(place_for_new(options_, view(), 0, Bytes::mib(20)), 1u);
  put(20, 1);
  EXPECT_EQ(place_for_new(options_, view(), 0, Bytes::mib(20)), 2u);
  EXPECT_EQ(place_for_new(options_, view(), 0, Bytes::mib(50)), kHost) << "only 3 has that much";
  options_.adaptive_movement = false;
  EXPECT_EQ(place_for_new(options_, view(), 0, Bytes::mib(20)), kHost);
}

TEST_F(ElasticStore, MovesAnObjectToWhoeverReadsItFromAfar) {
  const uint32_t object = put(30, 1);
  EXPECT_EQ(pull(options_, view(), object, 3), (StoreMove{object, 1, 3}));
  EXPECT_EQ(pull(options_, view(), object, 1), std::nullopt);
  devices_[3].needed = Bytes::mib(71);
  EXPECT_EQ(pull(options_, view(), object, 3), std::nullopt) << "no room";
  objects_[object].place = kHost;
  EXPECT_EQ(pull(options_, view(), object, 0), (StoreMove{object, kHost, 0}));
  objects_[object].in_use = true;
  EXPECT_EQ(pull(options_, view(), object, 0), std::nullopt);
}

TEST_F(ElasticStore, MovesTheLargestOutFirstAndTheOlderOfEqualOnes) {
  put(10, 0), put(20, 0), put(30, 0), put(20, 0);
  devices_[0].needed = Bytes::mib(40);
  // 80 lie where 60 may.
  EXPECT_EQ(relieve(options_, view(), 0), (std::vector<StoreMove>{{2, 0, 1}}));
  devices_[0].needed = Bytes::mib(80);
  EXPECT_EQ(relieve(options_, view(), 0), (std::vector<StoreMove>{{2, 0, 1}, {1, 0, 2}, {3, 0, 2}}))
      << "to the one that has less already";
  objects_[2].in_use = true;
  EXPECT_EQ(relieve(options_, view(), 0),
            (std::vector<StoreMove>{{1, 0, 1}, {3, 0, 2}, {0, 0, 1}}));
}

TEST_F(ElasticStore, MovesToTheHostWhenNoNeighbourHasRoom) {
  put(50, 3);
  devices_[2].needed = Bytes::mib(60);
  devices_[3].needed = Bytes::mib(60);
  EXPECT_EQ(relieve(options_, view(), 3), (std::vector<StoreMove>{{0, 3, kHost}}));
}

TEST_F(ElasticStore, MovesAnObjectOnlyToWhereItMayLie) {
  const uint32_t object = put(30, 0);
  devices_[0].needed = Bytes::mib(100);
  objects_[object].may_lie = 0b1101;
  EXPECT_EQ(relieve(options_, view(), 0), (std::vector<StoreMove>{{object, 0, 2}}));
  EXPECT_EQ(pull(options_, view(), object, 1), std::nullopt);
  objects_[object].may_lie = 0b1001;  // 3 is no neighbour
  EXPECT_EQ(relieve(options_, view(), 0), (std::vector<StoreMove>{{object, 0, kHost}}));
}

TEST_F(ElasticStore, LetsSpareCopiesGoFirstAndNowhere) {
  put(30, 0);
  const uint32_t small = put(10, 0);
  objects_[small].spare = true;
  devices_[0].needed = Bytes::mib(65);
  EXPECT_EQ(relieve(options_, view(), 0), (std::vector<StoreMove>{{small, 0, kHost}}));
  devices_[0].needed = Bytes::mib(75);
  EXPECT_EQ(relieve(options_, view(), 0), (std::vector<StoreMove>{{small, 0, kHost}, {0, 0, 1}}));
}

TEST_F(ElasticStore, AwareOfPressureMakesWayBeforeTheMemoryIsNeeded) {
  MemoryProfile model;
  model.kernels = {{milliseconds(15), Bytes::mib(10)}, {milliseconds(5), Bytes::mib(70)}};
  const RunningFunction running{&model, 0, {}};
  EXPECT_EQ(functions_need(options_, {&running, 1}), Bytes::mib(70));
  options_.aware_of_pressure = false;
  EXPECT_EQ(functions_need(options_, {&running, 1}), Bytes::mib(10));
}

TEST(AnyStore, FitsAfterRelief) {
  uint64_t to_devices = 0, to_host = 0;
  for (uint64_t seed = 1; seed <= 2000; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    SeededRandom random(seed);
    StoreOptions options{.share_of_idle = 0.25 * static_cast<double>(1 + random.below(4))};
    std::vector<StoreDevice> devices(1 + random.below(4));
    for (auto& device : devices) {
      device.memory = Bytes(100 + random.below(100));
      device.needed = Bytes(random.below(250));
      for (uint32_t other = 0; other < devices.size(); ++other) {
        if (random.below(2) == 0) device.neighbours.push_back(other);
      }
    }
    std::vector<StoredObject> objects(random.below(30));
    for (auto& object : objects) {
      const uint64_t place = random.below(devices.size() + 1);
      object = {.size = Bytes(random.below(40)),
                .place = place == devices.size() ? kHost : uint32_t(place),
                .in_use = random.below(5) == 0,
                .last_use = random.below(9)};
      object.spare = random.below(6) == 0;
      if (random.below(3) == 0) object.may_lie = random.below(16);
    }
    const StoreView view{devices, objects};
    const auto before = [&](uint32_t device) { return taken_by_objects(view, device); };
    const auto over = [&](uint32_t device) {
      return before(device) > room_for_objects(options, devices[device]);
    };
    for (uint32_t device = 0; device < devices.size(); ++device) {
      const bool was_over = over(device);
      std::vector<bool> fitted(devices.size());
      for (uint32_t other = 0; other < devices.size(); ++other) fitted[other] = !over(other);
      Bytes largest_left, smallest_moved(UINT64_MAX);
      const auto moves = relieve(options, view, device);
      ASSERT_TRUE(was_over || moves.empty());
      for (const StoreMove& move : moves) {
        StoredObject& object = objects[move.object];
        ASSERT_EQ(object.place, device) << "moved once, from here";
        ASSERT_EQ(move.from, device);
        ASSERT_FALSE(object.in_use);
        ASSERT_TRUE(over(device)) << "no more moves than needed";
        if (!object.spare) smallest_moved = std::min(smallest_moved, object.size);
        object.place = move.to;
        if (move.to == kHost) {
          ++to_host;
          for (const uint32_t other : devices[device].neighbours) {
            if (other == device || object.spare || (object.may_lie >> other & 1) == 0) continue;
            object.place = other;
            ASSERT_TRUE(over(other)) << "a neighbour had room";
            object.place = kHost;
          }
        } else {
          ++to_devices;
          ASSERT_FALSE(object.spare);
          ASSERT_EQ(object.may_lie >> move.to & 1, 1u);
          ASSERT_TRUE(fitted[move.to]) << "it was too full before";
          ASSERT_FALSE(over(move.to)) << "it is too full now";
          ASSERT_EQ(std::ranges::count(devices[device].neighbours, move.to), 1);
        }
      }
      bool movable = false;
      for (const StoredObject& object : objects) {
        if (object.place != device || object.in_use || object.size == Bytes()) continue;
        movable = true;
        if (!object.spare) largest_left = std::max(largest_left, object.size);
      }
      ASSERT_TRUE(!over(device) || !movable);
      if (!moves.empty() && movable) {
        ASSERT_LE(largest_left, smallest_moved);
      }
      const uint32_t place = place_for_new(options, view, device, Bytes(20));
      if (place != kHost) {
        ASSERT_LE(before(place) + Bytes(20), room_for_objects(options, devices[place]));
      }
    }
  }
  EXPECT_GT(to_devices, 500u);  // or it would show nothing
  EXPECT_GT(to_host, 500u);
}

}  // namespace
}  // namespace lambent::scheduling
