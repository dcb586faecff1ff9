// What the tests of ObjectStore stand on: a store with a clock and a disk that the test turns.
#pragma once

#include <gtest/gtest.h>

#include <deque>
#include <filesystem>

#include "core/base/sealed_memory.h"
#include "core/base/testing/testing.h"
#include "node/objects/object_store.h"

namespace lambent::objects {

inline constexpr TenantId kTenant(1);

inline ObjectId id(uint32_t number) { return {InvocationId{3, 4}, number}; }

// A disk that works when it is told to.
class HeldDisk {
 public:
  Disk disk() {
    return [this](std::function<void()> work, std::function<void()> completion) {
      if (full) return false;
      tasks_.emplace_back(std::move(work), std::move(completion));
      return true;
    };
  }
  // All that was asked for, and what comes of it.
  void work() {
    while (!tasks_.empty()) {
      auto [work, completion] = std::move(tasks_.front());
      tasks_.pop_front();
      work();
      completion();
    }
  }
  bool idle() const { return tasks_.empty(); }
  bool full = false;

 private:
  std::deque<std::pair<std::function<void()>, std::function<void()>>> tasks_;
};

class ObjectStoreTest : public ::testing::Test {
 protected:
  ObjectStoreTest() { start(); }

  void start() {
    ObjectStoreOptions options;
    options.folder = folder_ / "spill";
    options.index.memory = Bytes(100);
    options.index.disk = Bytes(1000);
    options.index.tenant_quota = Bytes(1000);
    options.index.time_to_live = seconds(10);
    store_ = std::make_unique<ObjectStore>(loop_, log_, disk_.disk(), options);
  }

  Result<void> put(uint32_t number, std::string bytes) {
    auto memfd = sealed_memory(bytes);
    return store_->store(kTenant, id(number), raw_tensor(Bytes(bytes.size())), std::move(*memfd));
  }
  // What a client that opens it gets to see: its bytes or an error; "" before anything came.
  WaitId get(uint32_t number, std::string& seen, Instant deadline = kNever,
             TenantId tenant = kTenant) {
    return store_->open(tenant, id(number), deadline, [&seen](Result<OpenedObject> result) {
      ASSERT_EQ(seen, "") << "called twice";
      if (!result.ok()) {
        seen = to_string(result.error());
        return;
      }
      EXPECT_EQ(*check_sealed(result->memfd.get()), result->size);
      seen = *read_memory(result->memfd.get(), Bytes(0), result->size);
    });
  }
  std::string get_now(uint32_t number) {
    std::string seen;
    get(number, seen, loop_.now());
    disk_.work();
    return seen;
  }
  void pass(Duration time) {
    clock_.advance(time);
    loop_.run_once(Duration(0));
  }
  std::vector<std::string> files() {
    std::vector<std::string> paths;
    for (const auto& entry : std::filesystem::directory_iterator(folder_ / "spill")) {
      paths.push_back(entry.path());
    }
    return paths;
  }

  TemporaryFolder folder_;
  FakeClock clock_;
  loop::EventLoop loop_{clock_};
  NullLogSink log_;
  HeldDisk disk_;
  std::unique_ptr<ObjectStore> store_;
};

}  // namespace lambent::objects
