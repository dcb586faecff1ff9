// "Acknowledged means durable": a writer process is killed at a random point, again and again.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <set>

#include "core/base/random.h"
#include "node/catalog/catalog.h"
#include "node/catalog/testing/testing.h"

namespace lambent::catalog {
namespace {

std::string payload_of(uint64_t number) {
  return "payload " + std::to_string(number) + std::string(number % 3000, 'x');
}

// The child: puts invocations from `first` on without end, a few at a time, and writes each number
// to `out` once it is acknowledged.
[[noreturn]] void write_until_killed(const std::string& path, uint64_t first, int out) {
  TestLoop loop;
  auto catalog = Catalog::open(path, {}, loop.post());
  if (!catalog.ok()) _exit(1);
  size_t in_flight = 0;
  for (uint64_t number = first;; ++number) {
    ++in_flight;
    (*catalog)->put_async(sample_invocation(number, payload_of(number)), [&, number](auto done) {
      --in_flight;
      if (!done.ok() || ::write(out, &number, sizeof(number)) != sizeof(number)) _exit(1);
    });
    while (in_flight >= 8) loop.run_one();
  }
}

// Reads numbers until the other end is gone; kills it after the first `count`.
void read_and_kill(int in, pid_t child, uint64_t count, std::set<uint64_t>& acknowledged) {
  uint64_t number = 0;
  uint64_t seen = 0;
  while (::read(in, &number, sizeof(number)) == sizeof(number)) {
    acknowledged.insert(number);
    if (++seen == count) ::kill(child, SIGKILL);
  }
}

TEST(Crash, WhatWasAcknowledgedIsThereAfterTheWriterIsKilled) {
  const TemporaryFolder folder;
  const std::string path = folder / "catalog.db";
  const uint64_t seed = static_cast<uint64_t>(::getpid());
  SCOPED_TRACE("seed " + std::to_string(seed));
  SeededRandom random(seed);
  std::set<uint64_t> acknowledged;
  for (uint64_t round = 0; round < 15; ++round) {
    int ends[2];
    ASSERT_EQ(::pipe(ends), 0);
    const pid_t child = ::fork();
    if (child == 0) {
      ::close(ends[0]);
      write_until_killed(path, round * 1'000'000, ends[1]);
    }
    ::close(ends[1]);
    read_and_kill(ends[0], child, 1 + random.below(150), acknowledged);
    ::close(ends[0]);
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFSIGNALED(status)) << "the writer failed before it was killed";

    TestLoop loop;
    const auto catalog = Catalog::open(path, {}, loop.post());
    ASSERT_TRUE(catalog.ok()) << to_string(catalog.error());
    std::set<uint64_t> kept;
    const auto pending = (*catalog)->pending_async(0, 1'000'000);
    ASSERT_TRUE(pending.ok());
    for (const AsyncInvocation& one : *pending) {
      kept.insert(one.request.id.low);
      EXPECT_EQ(one.request.payload, payload_of(one.request.id.low));
    }
    for (const uint64_t number : acknowledged) EXPECT_TRUE(kept.contains(number)) << number;
  }
}

}  // namespace
}  // namespace lambent::catalog
