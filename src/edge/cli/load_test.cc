// lambent load against a server that answers as a worker does. What is held is what was counted,
// never how fast it was.
#include "edge/cli/load.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <fstream>
#include <mutex>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <thread>

#include "core/base/testing/testing.h"
#include "core/http/server.h"

namespace lambent::cli {
namespace {

using testing::HasSubstr;
using Json = nlohmann::json;

// Answers every invocation on a thread of its own; functions whose name says so fail.
class FakeWorker {
 public:
  FakeWorker() {
    auto listener = http::listen_tcp("127.0.0.1", 0);
    CHECK(listener.ok(), "a loopback port");
    port_ = http::port_of(*listener);
    thread_ = std::thread([this, listening = std::move(*listener)]() mutable {
      SystemClock clock;
      loop::EventLoop loop(clock);
      http::Server server(loop, {}, [this](http::Request request, http::Responder responder) {
        responder.send(answer(request));
      });
      CHECK(server.listen(std::move(listening)).ok(), "it listens");
      while (!stops_) loop.run_once(milliseconds(5));
    });
  }
  ~FakeWorker() {
    stops_ = true;
    thread_.join();
  }

  Destination destination() const {
    return {.endpoint = {.host = "127.0.0.1", .port = port_},
            .credentials = {.token = "lambent_x", .tenant = "red"}};
  }
  std::set<std::string> targets() {
    const std::lock_guard lock(mutex_);
    return targets_;
  }
  std::set<std::string> bodies() {
    const std::lock_guard lock(mutex_);
    return bodies_;
  }
  // Of all requests, of the first connections and of those that send the load.
  std::set<std::string> senders() {
    const std::lock_guard lock(mutex_);
    return senders_;
  }

 private:
  http::Response answer(const http::Request& request) {
    {
      const std::lock_guard lock(mutex_);
      senders_.insert(std::string(request.headers.get("authorization")) + ", " +
                      std::string(request.headers.get("x-lambent-tenant")));
      if (request.method == "POST") {
        targets_.insert(request.target);
        bodies_.insert(request.body);
      }
    }
    http::Response response;
    const auto is_about = [&](std::string_view word) {
      return request.target.find(word) != std::string::npos;
    };
    if (is_about("missing")) {
      response.status = 404;
      response.headers.add("X-Amzn-ErrorType", "ResourceNotFoundException");
      response.body = R"({"Message":"there is no function 'missing'"})";
      return response;
    }
    if (is_about("busy") && request.method == "POST") {
      response.status = 429;
      response.headers.add("X-Amzn-ErrorType", "TooManyRequestsException");
      response.body = R"({"Message":"the queue is full"})";
      return response;
    }
    if (is_about("prompt")) response.headers.add("X-Lambent-Slo", "in_time");
    if (is_about("tardy")) response.headers.add("X-Lambent-Slo", "late");
    if (is_about("broken")) {
      response.headers.add("X-Amz-Function-Error", "Unhandled");
      response.body = R"({"errorMessage":"no"})";
      return response;
    }
    response.headers.add("X-Lambent-Start", is_about("cold") ? "cold" : "warm");
    response.body = "{}";
    return response;
  }

  std::atomic<bool> stops_{false};
  uint16_t port_ = 0;
  std::mutex mutex_;
  std::set<std::string> targets_, bodies_, senders_;
  std::thread thread_;
};

class Load : public testing::Test {
 protected:
  int run(LoadOptions options, bool json = true) {
    options.seconds = 0.2;
    options.warm_up_seconds = 0;
    options.give_up_seconds = 30;
    HttpTransport transport(worker.destination());
    Console console{.out = out, .err = err, .json = json};
    return run_load_verb(transport, worker.destination(), console, options);
  }

  FakeWorker worker;
  std::ostringstream out, err;
};

TEST_F(Load, ClientsTakeTurnsAmongTheFunctionsAsFastAsAnswersCome) {
  ASSERT_EQ(run({.functions = {"f", "g"}, .clients = 3, .payload = R"({"n":1})"}), 0);
  const Json json = Json::parse(out.str());
  ASSERT_EQ(json.size(), 1u);
  EXPECT_EQ(json[0]["run"], "offline");
  EXPECT_GT(json[0]["succeeded"], 0);
  EXPECT_EQ(json[0]["failed"], 0);
  EXPECT_EQ(json[0]["starts"], (Json{{"warm", json[0]["succeeded"]}}));
  EXPECT_EQ(json[0]["cdf"].size(), 102u);
  EXPECT_EQ(json[0]["cdf"].back()[1], 1.0);
  EXPECT_EQ(worker.targets(), (std::set<std::string>{"/2015-03-31/functions/f/invocations",
                                                     "/2015-03-31/functions/g/invocations"}));
  EXPECT_EQ(worker.bodies(), (std::set<std::string>{R"({"n":1})"}));
}

TEST_F(Load, EveryRequestSaysWhoSendsIt) {
  ASSERT_EQ(run({.functions = {"f"}}), 0);
  EXPECT_EQ(worker.senders(), (std::set<std::string>{"Bearer lambent_x, red"}));
}

TEST_F(Load, OnlineAsksAtAShareOfThePeakThatItMeasuredFirst) {
  ASSERT_EQ(run({.functions = {"f"}, .online = true, .rate_of_peak = 0.25}), 0);
  const Json json = Json::parse(out.str());
  ASSERT_EQ(json.size(), 2u);
  EXPECT_EQ(json[1]["run"], "online");
  EXPECT_DOUBLE_EQ(json[1]["rate"], 0.25 * json[0]["throughput"].get<double>());
  EXPECT_GT(json[1]["succeeded"], 0);
}

TEST_F(Load, TheMakespanOfAnOnlineRunIsFromItsFirstRequestToItsLastAnswer) {
  const SystemClock clock;
  const Instant begin = clock.now();
  const LoadTotals totals = run_load({.destination = worker.destination(),
                                      .functions = {"f"},
                                      .rate = 500,
                                      .seconds = 0.2,
                                      .warm_up_seconds = 0.2,
                                      .give_up_seconds = 30},
                                     {});
  const double whole_s = to_seconds(clock.now() - begin);
  ASSERT_TRUE(totals.makespan_s);
  ASSERT_FALSE(totals.latencies_s.empty());
  // No request took longer than all of them together, and the first that counts comes after those
  // that warm up.
  EXPECT_GE(*totals.makespan_s, totals.latencies_s.back());
  EXPECT_LE(*totals.makespan_s, whole_s - 0.2);
}

TEST_F(Load, WhereClientsStopWithTheTimeThereIsNoMakespan) {
  ASSERT_EQ(run({.functions = {"f"}}), 0);
  EXPECT_TRUE(Json::parse(out.str())[0]["makespan_s"].is_null());
}

TEST_F(Load, WhereRequestsWereDroppedThereIsNoMakespan) {
  ASSERT_EQ(run({.functions = {"f"}, .online = true, .rate = 100'000, .most_outstanding = 1}), 0);
  const Json json = Json::parse(out.str());
  EXPECT_GT(json[0]["errors"]["DROPPED"], 0);
  EXPECT_TRUE(json[0]["makespan_s"].is_null());
}

TEST_F(Load, AGivenRateIsAskedForAtOnce) {
  ASSERT_EQ(run({.functions = {"f"}, .online = true, .rate = 500}), 0);
  const Json json = Json::parse(out.str());
  ASSERT_EQ(json.size(), 1u);
  EXPECT_EQ(json[0]["rate"], 500.0);
}

TEST_F(Load, SlosAreCountedAsTheWorkerSaysWhereThereAreAny) {
  ASSERT_EQ(run({.functions = {"prompt", "tardy", "tardy-and-broken", "f"}, .clients = 4}), 0);
  const Json json = Json::parse(out.str());
  EXPECT_GT(json[0]["slo_hit_ratio"], 0.0);
  EXPECT_LT(json[0]["slo_hit_ratio"], 1.0);
  out.str("");
  ASSERT_EQ(run({.functions = {"prompt"}}, false), 0);
  EXPECT_THAT(out.str(), HasSubstr("offline: 100.0 % of "));
  EXPECT_THAT(out.str(), HasSubstr(" requests with an SLO kept it\n"));
  out.str("");
  ASSERT_EQ(run({.functions = {"f"}}), 0);
  EXPECT_TRUE(Json::parse(out.str())[0]["slo_hit_ratio"].is_null());
}

TEST_F(Load, ErrorsAreCountedByTheirCodeBesideWhatSucceeds) {
  ASSERT_EQ(run({.functions = {"f", "busy", "broken"}, .clients = 3}), 0);
  const Json json = Json::parse(out.str());
  EXPECT_GT(json[0]["errors"]["RESOURCE_EXHAUSTED"], 0);
  EXPECT_GT(json[0]["errors"]["FUNCTION_ERROR"], 0);
  EXPECT_GT(json[0]["succeeded"], 0);
}

TEST_F(Load, AFunctionThatIsNotThereIsSaidBeforeAnythingIsSent) {
  EXPECT_NE(run({.functions = {"f", "missing"}}), 0);
  EXPECT_THAT(err.str(), HasSubstr("missing"));
  EXPECT_TRUE(worker.targets().empty());
}

TEST_F(Load, WhereNothingSucceedsTheMostFrequentErrorIsTheVerbs) {
  EXPECT_NE(run({.functions = {"busy"}}), 0);
  EXPECT_THAT(err.str(), HasSubstr("the queue is full"));
}

TEST_F(Load, AFunctionThatAlwaysFailsIsNotTakenForAWorkerThatIsNotThere) {
  EXPECT_EQ(run({.functions = {"broken"}}), kExitFunctionError);
  EXPECT_THAT(err.str(), HasSubstr("no request succeeded"));
}

TEST_F(Load, TheDistributionGoesIntoAFileAndTheTableShowsTheRest) {
  const TemporaryFolder folder;
  const std::string path = folder.path() + "/load.csv";
  ASSERT_EQ(run({.functions = {"cold"}, .csv = path}, false), 0);
  EXPECT_THAT(out.str(), HasSubstr("P90 ms"));
  EXPECT_THAT(out.str(), HasSubstr(" cold"));
  EXPECT_THAT(out.str(), testing::Not(HasSubstr("the percentiles leave them out")));
  std::ifstream file(path);
  std::string head;
  std::getline(file, head);
  EXPECT_EQ(head, "run,share,latency_ms");
}

TEST_F(Load, TheTableWarnsWherePercentilesLeaveMuchOut) {
  // An answer takes longer than the next request waits.
  ASSERT_EQ(
      run({.functions = {"f"}, .online = true, .rate = 100'000, .most_outstanding = 1}, false), 0);
  EXPECT_THAT(out.str(), HasSubstr(" DROPPED: 1 were outstanding"));
  EXPECT_THAT(out.str(), HasSubstr("% of the requests were dropped or not answered; the "
                                   "percentiles leave them out"));
}

TEST_F(Load, ARunThatIsLateSendsAllThatWasMeantToBeSent) {
  // Its first call holds the run until its time is over, before anything was sent.
  const SystemClock clock;
  const auto hold = [&](uint64_t) {
    const Instant until = clock.now() + milliseconds(100);
    while (clock.now() < until) std::this_thread::yield();
  };
  LoadRunOptions options{.destination = worker.destination(),
                         .functions = {"f"},
                         .rate = 2'000,
                         .seconds = 0.05,
                         .warm_up_seconds = 0,
                         .most_outstanding = 0};
  const LoadTotals dropped = run_load(options, hold);
  EXPECT_GT(dropped.failed(), 50u);  // 100 on average, always the same with one seed
  EXPECT_EQ(dropped.errors.at("DROPPED"), dropped.failed());
  EXPECT_EQ(dropped.left_out(), 1);
  EXPECT_GT(dropped.worst_lateness_s, 0.01);
  options.most_outstanding = 1000;
  EXPECT_EQ(run_load(options, hold).succeeded, dropped.failed());
}

TEST_F(Load, APayloadThatCannotBeReadEndsIt) {
  EXPECT_NE(run({.functions = {"f"}, .payload_file = "/nonexistent/payload"}), 0);
  EXPECT_THAT(err.str(), HasSubstr("/nonexistent/payload"));
}

TEST(LoadTotals, WhatWasDroppedOrNotAnsweredIsLeftOut) {
  const LoadTotals totals{.succeeded = 6,
                          .errors = {{"DROPPED", 1}, {"UNANSWERED", 2}, {"UNAVAILABLE", 1}}};
  EXPECT_EQ(totals.left_out(), 0.3);
  EXPECT_EQ(LoadTotals().left_out(), 0);
}

TEST(LoadTotals, QuantilesAreByNearestRank) {
  const LoadTotals totals{.latencies_s = {1, 2, 3, 4}};
  EXPECT_EQ(totals.latency_at(0.5), 2);
  EXPECT_EQ(totals.latency_at(0.75), 3);
  EXPECT_EQ(totals.latency_at(1), 4);
  EXPECT_EQ(totals.latency_at(0), 1);
  EXPECT_EQ(LoadTotals().latency_at(0.5), 0);
}

}  // namespace
}  // namespace lambent::cli
