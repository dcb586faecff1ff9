// What functions that rest cost: nothing is looked at or written for them.
#include <unistd.h>

#include "node/worker/testing/worker_testing.h"

namespace lambent::worker {
namespace {

class WorkerAtRest : public WorkerTest {
 protected:
  size_t code_folders() const {
    size_t count = 0;
    for (const auto& each : std::filesystem::directory_iterator(folder.path() + "/state/code")) {
      count += each.is_directory() ? 1 : 0;
    }
    return count;
  }
  void remove(const std::string& name) {
    ASSERT_TRUE(await_change([&](auto done) {
                  worker->remove_function({kDefaultTenant, name}, std::move(done));
                }).ok());
  }
  // Other code from now on.
  void write_code(const std::string& text) {
    std::ofstream(folder.path() + "/source/bootstrap") << "#!/bin/sh\n# " << text << "\n";
    zip_base64 = base64_encode(archive::make_zip(folder.path() + "/source").value());
  }
};

TEST_F(WorkerAtRest, CodeGoesWithTheLastFunctionThatHasIt) {
  deploy("one");
  deploy("two");
  write_code("other");
  deploy("other");
  EXPECT_EQ(code_folders(), 2U);
  remove("one");
  remove("other");
  EXPECT_TRUE(until([&] { return code_folders() == 1; })) << "of the two with the same code one is";
  settle();
  EXPECT_EQ(code_folders(), 1U);
  EXPECT_EQ(invoke("two", "1").payload, "1");
  remove("two");
  EXPECT_TRUE(until([&] { return code_folders() == 0; }));
}

TEST_F(WorkerAtRest, CodeThatADeploymentBroughtForNothingGoes) {
  deploy("f");
  write_code("tried");
  ASSERT_TRUE(await_change([&](auto done) {
                worker->create_function(
                    {.spec = spec_of("g"), .zip_base64 = zip_base64, .dry_run = true},
                    std::move(done));
              }).ok());
  EXPECT_TRUE(until([&] { return code_folders() == 1; }));
  EXPECT_EQ(invoke("f", "1").payload, "1");
}

TEST_F(WorkerAtRest, CodeOfARevisionToGoBackToStays) {
  const FunctionSpec spec = deploy("f");
  for (int i = 1; i <= 2; ++i) {
    write_code("revision " + std::to_string(i));
    FunctionSpec next = *worker->find_function(spec.name);
    ASSERT_TRUE(await_change([&](auto done) {
                  worker->update_function({next, zip_base64}, std::move(done));
                }).ok());
  }
  settle();
  EXPECT_EQ(code_folders(), 3U);
  remove("f");
  EXPECT_TRUE(until([&] { return code_folders() == 0; }));
}

TEST_F(WorkerAtRest, OnlyWhatWasLearntOfFunctionsThatWereCalledIsSaved) {
  for (int i = 0; i < 20; ++i) deploy("rests-" + std::to_string(i));
  const FunctionSpec called = deploy("called");
  const auto saved = [&] { return store->load_all()->statistics; };
  for (int round = 1; round <= 2; ++round) {
    invoke("called", "{}");
    clock.advance(seconds(6));
    EXPECT_TRUE(until([&] {
      const auto statistics = saved();
      return statistics.size() == 1 && statistics[0].function == called.id &&
             statistics[0].executions == static_cast<uint64_t>(round);
    }));
  }
}

TEST_F(WorkerAtRest, AScrapeHasSeriesOfFunctionsThatWereCalledAndOfThoseAtWork) {
  for (int i = 0; i < 20; ++i) deploy("rests-" + std::to_string(i));
  deploy("called");
  deploy("works");
  invoke("called", "{}");
  hold_events();
  const auto running = submit("works", "{}");
  ASSERT_TRUE(until([&] { return held.size() == 1; }));
  worker->status().update_gauges();
  const std::string text = counts.text();
  const auto has = [&](const std::string& part) { return text.find(part) != std::string::npos; };
  const std::string tenant = ",tenant=\"" + std::to_string(kDefaultTenant.value) + "\"}";
  EXPECT_TRUE(has("lambent_flow_running{function=\"works\"" + tenant + " 1"))
      << text.substr(0, 2000);
  EXPECT_TRUE(has("lambent_flow_running{function=\"called\"" + tenant + " 0"));
  EXPECT_FALSE(has("rests-"));
  answer_held(0, "done");
  await(running);
}

}  // namespace
}  // namespace lambent::worker
