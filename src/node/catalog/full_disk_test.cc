// A disk without space: refused, nothing lost, well again once there is space.
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>

#include "node/catalog/catalog.h"
#include "node/catalog/testing/testing.h"

namespace lambent::catalog {
namespace {

struct Filled {
  uint64_t acknowledged = 0;
  std::optional<Error> refusal;
};

// Puts invocations until one is refused.
Filled fill(Catalog& catalog, TestLoop& loop, uint64_t first, size_t payload) {
  Filled filled;
  for (uint64_t number = first; number < first + 10'000; ++number) {
    const auto outcome = loop.await<InvocationId>([&](auto done) {
      catalog.put_async(sample_invocation(number, std::string(payload, 'x')), done);
    });
    if (!outcome.ok()) {
      filled.refusal = outcome.error();
      break;
    }
    ++filled.acknowledged;
  }
  return filled;
}

Result<void> finish(Catalog& catalog, TestLoop& loop, uint64_t number) {
  return loop.await<void>([&](auto done) {
    catalog.finish_async(kDefaultTenant, sample_result(number), seconds(1), {}, done);
  });
}

TEST(FullDisk, ADatabaseAtItsLimitRefusesAndTakesAgainWhatWasFreed) {
  const TemporaryFolder folder;
  TestLoop loop;
  auto catalog =
      Catalog::open(folder / "catalog.db", {.database_limit = Bytes::mib(1)}, loop.post());
  ASSERT_TRUE(catalog.ok()) << to_string(catalog.error());

  const Filled filled = fill(**catalog, loop, 0, 20'000);
  ASSERT_TRUE(filled.refusal.has_value());
  EXPECT_EQ(filled.refusal->code, ErrorCode::kStorageFull);
  EXPECT_NE(filled.refusal->message.find("space"), std::string::npos);
  EXPECT_GT(filled.acknowledged, 30u);
  EXPECT_EQ((*catalog)->load_all()->pending, filled.acknowledged);

  // A finished invocation gives back the space of its event; an expired one all of it.
  ASSERT_TRUE(finish(**catalog, loop, 0).ok());
  ASSERT_TRUE(finish(**catalog, loop, 1).ok());
  ASSERT_TRUE(
      loop.await<uint64_t>([&](auto done) { (*catalog)->expire_results(seconds(2), done); }).ok());
  EXPECT_GE(fill(**catalog, loop, 20'000, 20'000).acknowledged, 1u);
}

TEST(FullDisk, SmallChangesOfABatchGetInWhereALargeOneDoesNotFit) {
  const TemporaryFolder folder;
  TestLoop loop;
  auto catalog =
      Catalog::open(folder / "catalog.db", {.database_limit = Bytes::mib(1)}, loop.post());
  ASSERT_TRUE(catalog.ok());
  std::vector<Result<InvocationId>> outcomes;
  for (const auto& [number, size] : {std::pair(1, 10), std::pair(2, 2'000'000), std::pair(3, 10)}) {
    (*catalog)->put_async(sample_invocation(static_cast<uint64_t>(number),
                                            std::string(static_cast<size_t>(size), 'x')),
                          [&](auto outcome) { outcomes.push_back(std::move(outcome)); });
  }
  while (outcomes.size() < 3) loop.run_one();
  EXPECT_TRUE(outcomes[0].ok());
  EXPECT_EQ(outcomes[1].error().code, ErrorCode::kStorageFull);
  EXPECT_TRUE(outcomes[2].ok());
  EXPECT_EQ((*catalog)->load_all()->pending, 2u);
}

// A file system of 2 MiB that only this process sees.
bool mount_small_disk(const std::string& path) {
  return ::unshare(CLONE_NEWNS) == 0 &&
         ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
         ::mkdir(path.c_str(), 0700) == 0 &&
         ::mount("lambent-test", path.c_str(), "tmpfs", 0, "size=2m") == 0;
}

TEST(FullDisk, ARealDiskThatFillsUpRefusesAndRecovers) {
  const TemporaryFolder folder;
  const std::string disk = folder / "disk";
  if (!mount_small_disk(disk)) GTEST_SKIP() << "may not mount a file system here";
  const std::string filler = disk + "/filler";
  std::ofstream(filler) << std::string(512 * 1024, 'x');
  TestLoop loop;
  auto catalog = Catalog::open(disk + "/catalog.db", {}, loop.post());
  ASSERT_TRUE(catalog.ok()) << to_string(catalog.error());

  const Filled before = fill(**catalog, loop, 0, 20'000);
  ASSERT_TRUE(before.refusal.has_value());
  EXPECT_EQ(before.refusal->code, ErrorCode::kStorageFull) << before.refusal->message;
  EXPECT_GT(before.acknowledged, 10u);
  std::filesystem::remove(filler);
  const Filled after = fill(**catalog, loop, 20'000, 20'000);
  EXPECT_GT(after.acknowledged, 5u);

  catalog->reset();
  catalog = Catalog::open(disk + "/catalog.db", {}, loop.post());
  ASSERT_TRUE(catalog.ok()) << to_string(catalog.error());
  EXPECT_EQ((*catalog)->load_all()->pending, before.acknowledged + after.acknowledged);
  catalog->reset();
  ::umount2(disk.c_str(), MNT_DETACH);
}

}  // namespace
}  // namespace lambent::catalog
