#include "node/catalog/catalog.h"

#include <gtest/gtest.h>

#include <fstream>

#include "node/catalog/testing/testing.h"

namespace lambent::catalog {
namespace {

class CatalogTest : public testing::Test {
 protected:
  CatalogTest() { reopen(); }

  void reopen(CatalogOptions options = {}) {
    catalog_.reset();
    auto opened = Catalog::open(path_, options, loop_.post());
    ASSERT_TRUE(opened.ok()) << to_string(opened.error());
    catalog_ = std::move(*opened);
  }
  Result<FunctionSpec> put(const FunctionSpec& spec) {
    return loop_.await<FunctionSpec>([&](auto done) { catalog_->put_function(spec, done); });
  }
  Result<void> remove(const FunctionName& name) {
    return loop_.await<void>([&](auto done) { catalog_->remove_function(name, done); });
  }
  Result<InvocationId> put(const AsyncInvocation& invocation) {
    return loop_.await<InvocationId>([&](auto done) { catalog_->put_async(invocation, done); });
  }
  Result<void> begin(uint64_t number) {
    return loop_.await<void>([&](auto done) {
      catalog_->begin_async(kDefaultTenant, sample_invocation(number).request.id, done);
    });
  }
  Result<void> finish(uint64_t number, Duration expires_at = seconds(2'000'000'000)) {
    return loop_.await<void>([&](auto done) {
      catalog_->finish_async(kDefaultTenant, sample_result(number), expires_at, {}, done);
    });
  }
  Result<void> retry(uint64_t number, const AsyncRetry& retry) {
    return loop_.await<void>([&](auto done) {
      catalog_->retry_async(kDefaultTenant, sample_invocation(number).request.id, retry, done);
    });
  }
  Result<void> finish_with(uint64_t number, const AsyncSuccessor& successor) {
    InvocationResult result = sample_result(number);
    result.runs = 3;
    result.destination = "audit as x";
    return loop_.await<void>([&](auto done) {
      catalog_->finish_async(kDefaultTenant, result, seconds(2'000'000'000), successor, done);
    });
  }
  std::optional<AsyncInvocation> pending(uint64_t number) {
    auto found = loop_.await<std::optional<AsyncInvocation>>([&](auto done) {
      catalog_->find_pending(kDefaultTenant, sample_invocation(number).request.id, done);
    });
    EXPECT_TRUE(found.ok());
    return found.ok() ? *found : std::nullopt;
  }
  Result<std::optional<InvocationResult>> result(uint64_t number,
                                                 TenantId tenant = kDefaultTenant) {
    return loop_.await<std::optional<InvocationResult>>([&](auto done) {
      catalog_->async_result(tenant, sample_invocation(number).request.id, done);
    });
  }
  Result<uint64_t> expire(Duration now) {
    return loop_.await<uint64_t>([&](auto done) { catalog_->expire_results(now, done); });
  }
  Result<void> save(const std::vector<FunctionStatistics>& statistics) {
    return loop_.await<void>([&](auto done) { catalog_->save_statistics(statistics, done); });
  }

  TemporaryFolder folder_;
  const std::string path_ = folder_ / "catalog.db";
  TestLoop loop_;
  std::unique_ptr<Catalog> catalog_;
};

TEST_F(CatalogTest, WhatATenantsInvocationsTakeIsCounted) {
  const auto counted = [this](TenantId tenant = kDefaultTenant) {
    return catalog_->async_bytes(tenant).count;
  };
  AsyncInvocation invocation = sample_invocation(1, std::string(1000, 'x'));
  invocation.request.client_context.clear();
  AsyncInvocation of_other = sample_invocation(2, std::string(70, 'y'));
  of_other.request.function.tenant = TenantId(9);
  of_other.request.client_context = "abc";
  ASSERT_TRUE(put(invocation).ok());
  ASSERT_TRUE(put(of_other).ok());
  EXPECT_EQ(counted(), limits::kAsyncOverhead.count + 1000);
  EXPECT_EQ(counted(TenantId(9)), limits::kAsyncOverhead.count + 73);
  EXPECT_EQ(counted(TenantId(10)), 0u);
  // One that is refused, or tried again, adds nothing.
  EXPECT_FALSE(put(invocation).ok());
  ASSERT_TRUE(begin(1).ok());
  ASSERT_TRUE(retry(1, {.runs = 1}).ok());
  EXPECT_EQ(counted(), limits::kAsyncOverhead.count + 1000);
  // The result takes the place of the payload.
  ASSERT_TRUE(finish(1, seconds(100)).ok());
  const InvocationResult result = sample_result(1);
  const uint64_t finished =
      limits::kAsyncOverhead.count + result.payload.size() + result.log_tail.size();
  EXPECT_EQ(counted(), finished);
  reopen();
  ASSERT_TRUE(catalog_->load_all().ok());
  EXPECT_EQ(counted(), finished);
  EXPECT_EQ(counted(TenantId(9)), limits::kAsyncOverhead.count + 73);
  EXPECT_EQ(expire(seconds(99)).value(), 0u);
  EXPECT_EQ(counted(), finished);
  EXPECT_EQ(expire(seconds(100)).value(), 1u);
  EXPECT_EQ(counted(), 0u);
  EXPECT_EQ(counted(TenantId(9)), limits::kAsyncOverhead.count + 73);
}

TEST_F(CatalogTest, WhatFollowsAnInvocationIsCounted) {
  AsyncInvocation invocation = sample_invocation(1);
  ASSERT_TRUE(put(invocation).ok());
  const AsyncSuccessor successor{.id = sample_invocation(2).request.id,
                                 .name = invocation.request.function,
                                 .payload = [](std::string_view) { return std::string(400, 'z'); }};
  ASSERT_TRUE(finish_with(1, successor).ok());
  const InvocationResult result = sample_result(1);
  EXPECT_EQ(catalog_->async_bytes(kDefaultTenant).count,
            2 * limits::kAsyncOverhead.count + invocation.request.client_context.size() +
                result.payload.size() + result.log_tail.size() + 400);
}

TEST_F(CatalogTest, AFunctionComesBackAsItWasAfterARestart) {
  const auto kept = put(sample_function("f"));
  ASSERT_TRUE(kept.ok());
  EXPECT_EQ(kept->id, FunctionId(1));
  reopen();
  const auto snapshot = catalog_->load_all();
  ASSERT_TRUE(snapshot.ok());
  EXPECT_EQ(snapshot->functions, std::vector<FunctionSpec>{*kept});
}

TEST_F(CatalogTest, AChangeReplacesEverythingOfTheFunction) {
  FunctionSpec spec = *put(sample_function("f"));
  spec.revision = 2;
  spec.environment = {{"OTHER", "1"}};
  spec.tags.clear();
  spec.gpu = {};
  spec.runtime = Runtime::kProvided;
  ASSERT_TRUE(put(spec).ok());
  reopen();
  EXPECT_EQ(catalog_->load_all()->functions, std::vector<FunctionSpec>{spec});
}

TEST_F(CatalogTest, ANameIsTakenOncePerTenant) {
  ASSERT_TRUE(put(sample_function("f")).ok());
  EXPECT_EQ(put(sample_function("f")).error().code, ErrorCode::kAlreadyExists);
  EXPECT_EQ(put(sample_function("f", TenantId(2))).error().code, ErrorCode::kNotFound)
      << "there is no such tenant";
  Tenant tenant;
  tenant.name = "other";
  const auto other = loop_.await<Tenant>([&](auto done) { catalog_->put_tenant(tenant, done); });
  EXPECT_TRUE(put(sample_function("f", other->id)).ok());
  EXPECT_EQ(catalog_->load_all()->functions.size(), 2u);
}

TEST_F(CatalogTest, OneTenantCannotChangeOrRemoveTheFunctionOfAnother) {
  FunctionSpec spec = *put(sample_function("f"));
  spec.name.tenant = TenantId(2);
  EXPECT_EQ(put(spec).error().code, ErrorCode::kNotFound);
  EXPECT_EQ(remove(spec.name).error().code, ErrorCode::kNotFound);
  EXPECT_EQ(catalog_->load_all()->functions.size(), 1u);
}

TEST_F(CatalogTest, AnIdIsNeverGivenTwice) {
  ASSERT_TRUE(put(sample_function("a")).ok());
  ASSERT_TRUE(remove({kDefaultTenant, "a"}).ok());
  reopen();
  EXPECT_EQ(put(sample_function("a"))->id, FunctionId(2));
}

TEST_F(CatalogTest, AReservedIdIsNoFunctionsEver) {
  const auto reserve = [&] {
    return loop_.await<FunctionId>([&](auto done) { catalog_->reserve_function_id(done); });
  };
  EXPECT_EQ(reserve().value(), FunctionId(1)) << "before the first function";
  EXPECT_EQ(put(sample_function("a"))->id, FunctionId(2));
  EXPECT_EQ(reserve().value(), FunctionId(3));
  reopen();
  EXPECT_EQ(reserve().value(), FunctionId(4));
  EXPECT_EQ(put(sample_function("b"))->id, FunctionId(5));
  EXPECT_EQ(catalog_->load_all()->functions.size(), 2u);
}

TEST_F(CatalogTest, ARemovedFunctionTakesItsStatisticsButLeavesItsResults) {
  const FunctionSpec spec = *put(sample_function("f"));
  ASSERT_TRUE(save({{kDefaultTenant, spec.id, seconds(1)}}).ok());
  AsyncInvocation invocation = sample_invocation(1);
  invocation.function = spec.id;
  ASSERT_TRUE(put(invocation).ok());
  ASSERT_TRUE(put(sample_invocation(2)).ok());
  ASSERT_TRUE(finish(2).ok());
  ASSERT_TRUE(remove(spec.name).ok());
  EXPECT_TRUE(catalog_->load_all()->statistics.empty());
  ASSERT_EQ(catalog_->pending_async(0, 10)->size(), 1u);
  EXPECT_EQ(catalog_->pending_async(0, 10)->front().function, FunctionId());
  EXPECT_EQ(catalog_->pending_async(0, 10)->front().request.function.name, "f");
  EXPECT_TRUE(result(2)->has_value());
}

TEST_F(CatalogTest, PendingInvocationsComeBackInOrderOfSubmission) {
  for (const uint64_t number : {5, 3, 9, 1}) {
    ASSERT_TRUE(put(sample_invocation(number, "payload " + std::to_string(number))).ok());
  }
  ASSERT_TRUE(finish(3).ok());
  ASSERT_TRUE(begin(9).ok());
  reopen();
  EXPECT_EQ(catalog_->load_all()->pending, 3u);
  const auto first = *catalog_->pending_async(0, 2);
  const auto rest = *catalog_->pending_async(first.back().sequence, 2);
  ASSERT_EQ(first.size(), 2u);
  ASSERT_EQ(rest.size(), 1u);
  EXPECT_EQ(first[0].request.payload, "payload 5");
  EXPECT_EQ(first[1].request.payload, "payload 9");
  EXPECT_EQ(first[1].attempts, 1u);
  EXPECT_EQ(rest[0].request.payload, "payload 1");
  EXPECT_EQ(rest[0].request.id, sample_invocation(1).request.id);
}

TEST_F(CatalogTest, AnAsynchronousInvocationIsKeptWhole) {
  AsyncInvocation invocation = sample_invocation(1, std::string("\0\xff binary", 9));
  invocation.function = put(sample_function("f"))->id;
  invocation.request.content_type = "application/octet-stream";
  invocation.request.client_context = "{\"a\":1}";
  invocation.request.trace_id = "Root=1-2-3";
  invocation.request.idempotency_key = "key";
  invocation.request.needs = {ObjectId{{1, 2}, 3}, ObjectId{{4, 5}, 6}};
  ASSERT_TRUE(put(invocation).ok());
  const AsyncInvocation kept = catalog_->pending_async(0, 1)->front();
  EXPECT_EQ(kept.request.payload, invocation.request.payload);
  EXPECT_EQ(kept.request.content_type, invocation.request.content_type);
  EXPECT_EQ(kept.request.client_context, invocation.request.client_context);
  EXPECT_EQ(kept.request.trace_id, invocation.request.trace_id);
  EXPECT_EQ(kept.request.idempotency_key, invocation.request.idempotency_key);
  EXPECT_EQ(kept.request.needs, invocation.request.needs);
  EXPECT_EQ(kept.submitted_at, invocation.submitted_at);
  EXPECT_EQ(kept.function, invocation.function);
}

TEST_F(CatalogTest, ARepeatIsKeptOnceUntilTheResultOfTheFirstExpires) {
  const auto keyed = [](uint64_t number, const std::string& key, TenantId tenant) {
    AsyncInvocation invocation = sample_invocation(number, "{}", tenant);
    invocation.request.idempotency_key = key;
    return invocation;
  };
  const InvocationId first = keyed(1, "k", kDefaultTenant).request.id;
  EXPECT_EQ(*put(keyed(1, "k", kDefaultTenant)), first);
  EXPECT_EQ(*put(keyed(2, "k", kDefaultTenant)), first);
  ASSERT_TRUE(begin(1).ok());
  reopen();
  EXPECT_EQ(*put(keyed(3, "k", kDefaultTenant)), first) << "it runs";
  EXPECT_EQ(catalog_->load_all()->pending, 1u);
  ASSERT_TRUE(finish(1, seconds(10)).ok());
  EXPECT_EQ(*put(keyed(4, "k", kDefaultTenant)), first) << "it has a result";

  const auto find = [&](TenantId tenant, const std::string& key) {
    return loop_.await<std::optional<InvocationId>>(
        [&](auto done) { catalog_->find_async(tenant, key, std::move(done)); });
  };
  EXPECT_EQ(*find(kDefaultTenant, "k"), first);
  EXPECT_EQ(*find(kDefaultTenant, "other"), std::nullopt);
  EXPECT_EQ(*find(kDefaultTenant, ""), std::nullopt);
  EXPECT_EQ(*find(TenantId(2), "k"), std::nullopt);

  EXPECT_NE(*put(keyed(5, "other", kDefaultTenant)), first);
  EXPECT_NE(*put(keyed(6, "k", TenantId(2))), first);
  EXPECT_NE(*put(keyed(7, "", kDefaultTenant)), *put(keyed(8, "", kDefaultTenant)));
  EXPECT_EQ(catalog_->load_all()->pending, 4u);

  ASSERT_TRUE(expire(seconds(10)).ok());
  EXPECT_NE(*put(keyed(9, "k", kDefaultTenant)), first) << "nothing is left of the first";
}

TEST_F(CatalogTest, AResultIsReadableByItsTenantAlone) {
  ASSERT_TRUE(put(sample_invocation(1)).ok());
  EXPECT_FALSE(result(1)->has_value());
  EXPECT_EQ(result(1, TenantId(2)).error().code, ErrorCode::kNotFound);
  EXPECT_EQ(result(2).error().code, ErrorCode::kNotFound);
  ASSERT_TRUE(finish(1).ok());
  const InvocationResult kept = **result(1);
  const InvocationResult meant = sample_result(1);
  EXPECT_EQ(kept.id, meant.id);
  EXPECT_EQ(kept.outcome, meant.outcome);
  EXPECT_EQ(kept.payload, meant.payload);
  EXPECT_EQ(kept.error_type, meant.error_type);
  EXPECT_EQ(kept.error, meant.error);
  EXPECT_EQ(kept.start, meant.start);
  EXPECT_EQ(kept.phases, meant.phases);
  EXPECT_EQ(kept.device, meant.device);
  EXPECT_EQ(kept.device_memory_peak, meant.device_memory_peak);
  EXPECT_EQ(kept.host_memory_peak, meant.host_memory_peak);
  EXPECT_EQ(kept.log_tail, meant.log_tail);
  EXPECT_EQ(kept.revision, meant.revision);
}

TEST_F(CatalogTest, AResultNamesAllDevicesOfItsRunAfterARestart) {
  ASSERT_TRUE(put(sample_invocation(1)).ok());
  InvocationResult meant = sample_result(1);
  meant.beside = {DeviceId(2), DeviceId(64)};
  const auto finished = loop_.await<void>([&](auto done) {
    catalog_->finish_async(kDefaultTenant, meant, seconds(2'000'000'000), {}, done);
  });
  ASSERT_TRUE(finished.ok());
  reopen();
  EXPECT_EQ((**result(1)).device, DeviceId(1));
  EXPECT_EQ((**result(1)).beside, meant.beside);
}

TEST_F(CatalogTest, NowhereIsNoDevice) {
  for (const auto device : {std::optional<DeviceId>(), std::optional(DeviceId(0))}) {
    const uint64_t number = device ? 2 : 1;
    ASSERT_TRUE(put(sample_invocation(number)).ok());
    InvocationResult meant = sample_result(number);
    meant.device = device;
    const auto finished = loop_.await<void>([&](auto done) {
      catalog_->finish_async(kDefaultTenant, meant, seconds(2'000'000'000), {}, done);
    });
    ASSERT_TRUE(finished.ok());
    EXPECT_EQ((**result(number)).device, device);
  }
}

TEST_F(CatalogTest, AnInvocationHasOneResult) {
  ASSERT_TRUE(put(sample_invocation(1)).ok());
  EXPECT_EQ(put(sample_invocation(1)).error().code, ErrorCode::kAlreadyExists);
  ASSERT_TRUE(finish(1).ok());
  EXPECT_EQ(finish(1).error().code, ErrorCode::kNotFound);
  EXPECT_EQ(begin(1).error().code, ErrorCode::kNotFound);
}

TEST_F(CatalogTest, WhatIsTriedAgainIsKeptWithItsTimeAndBeginsAfresh) {
  ASSERT_TRUE(put(sample_invocation(1)).ok());
  for (int i = 0; i < 2; ++i) ASSERT_TRUE(begin(1).ok());
  ASSERT_TRUE(retry(1, {.runs = 1, .due_at = seconds(77), .last_failure = "E: no"}).ok());
  reopen();
  const auto kept = catalog_->pending_async(0, 10);
  ASSERT_EQ(kept->size(), 1u);
  EXPECT_EQ(kept->front().runs, 1u);
  EXPECT_EQ(kept->front().due_at, seconds(77));
  EXPECT_EQ(kept->front().last_failure, "E: no");
  EXPECT_EQ(kept->front().attempts, 0u) << "workers that end under the next run count";
  EXPECT_EQ(pending(1)->request.payload, sample_invocation(1).request.payload);
  ASSERT_TRUE(finish(1).ok());
  EXPECT_FALSE(pending(1));
  EXPECT_EQ(retry(1, {}).error().code, ErrorCode::kNotFound) << "it has its result";
  EXPECT_EQ(retry(2, {}).error().code, ErrorCode::kNotFound);
}

TEST_F(CatalogTest, WhatFollowsAResultIsAcceptedWithItOnce) {
  const FunctionId audit = put(sample_function("audit"))->id;
  ASSERT_TRUE(put(sample_invocation(1)).ok());
  AsyncSuccessor successor{.id = sample_invocation(2).request.id,
                           .name = {kDefaultTenant, "audit"},
                           .function = audit,
                           .submitted_at = seconds(9),
                           .chain = 4};
  successor.payload = [](std::string_view source) { return "of " + std::string(source); };
  ASSERT_TRUE(finish_with(1, successor).ok());
  AsyncSuccessor second = successor;
  second.id = sample_invocation(3).request.id;
  EXPECT_EQ(finish_with(1, second).error().code, ErrorCode::kNotFound);
  EXPECT_FALSE(pending(3)) << "no second record of one result";
  reopen();
  EXPECT_EQ((**result(1)).runs, 3u);
  EXPECT_EQ((**result(1)).destination, "audit as x");
  const auto next = pending(2);
  ASSERT_TRUE(next);
  EXPECT_EQ(next->request.payload, "of " + sample_invocation(1).request.payload);
  EXPECT_EQ(next->function, audit);
  EXPECT_EQ(next->request.function.name, "audit");
  EXPECT_EQ(next->chain, 4u);
  EXPECT_EQ(next->submitted_at, seconds(9));
}

TEST_F(CatalogTest, ResultsExpireAndPendingOnesDoNot) {
  for (const uint64_t number : {1, 2, 3}) ASSERT_TRUE(put(sample_invocation(number)).ok());
  ASSERT_TRUE(finish(1, seconds(100)).ok());
  ASSERT_TRUE(finish(2, seconds(200)).ok());
  EXPECT_EQ(*expire(seconds(150)), 1u);
  EXPECT_EQ(result(1).error().code, ErrorCode::kNotFound);
  EXPECT_TRUE(result(2)->has_value());
  EXPECT_FALSE(result(3)->has_value());
}

TEST_F(CatalogTest, StatisticsReplaceOlderOnesAndSkipFunctionsThatAreGone) {
  const FunctionId id = put(sample_function("f"))->id;
  const FunctionStatistics older{kDefaultTenant, id,         seconds(1), seconds(2),
                                 seconds(3),     4,          5,          6,
                                 seconds(7),     seconds(8), 9,          10};
  FunctionStatistics newer = older;
  newer.executions = 7;
  ASSERT_TRUE(save({older}).ok());
  ASSERT_TRUE(save({newer, {kDefaultTenant, FunctionId(77)}, {TenantId(2), id}}).ok());
  reopen();
  EXPECT_EQ(catalog_->load_all()->statistics, std::vector<FunctionStatistics>{newer});
}

TEST_F(CatalogTest, KeepsTheNewestProfileOfEachPipeline) {
  const FunctionSpec kept = *put(sample_function("kept"));
  const FunctionSpec gone = *put(sample_function("gone"));
  const auto save = [&](const PipelineProfileRecord& record) {
    return loop_.await<void>([&](auto done) { catalog_->save_profile(record, done); });
  };
  const PipelineProfileRecord newer{kept.name.tenant, kept.id, 2, "{\"profile\": 1}"};
  ASSERT_TRUE(save({kept.name.tenant, kept.id, 1, "{}"}).ok());
  ASSERT_TRUE(save(newer).ok());
  ASSERT_TRUE(save({gone.name.tenant, gone.id, 1, "{}"}).ok());
  ASSERT_TRUE(remove(gone.name).ok());
  EXPECT_TRUE(save({gone.name.tenant, gone.id, 1, "{}"}).ok()) << "it is skipped";
  reopen();
  EXPECT_EQ(catalog_->load_all()->profiles, std::vector<PipelineProfileRecord>{newer});
}

TEST_F(CatalogTest, KeepsWhatIsHeldAgainstEachGpu) {
  const auto save = [&](const DeviceRecord& record) {
    return loop_.await<void>([&](auto done) { catalog_->save_device(record, done); });
  };
  const DeviceRecord second{"GPU-2", false, "", "Xid 48: \"it\"", uint64_t{1} << 40, 2, true};
  const DeviceRecord first{"GPU-1", true, "new fan", "", 0, 0, false};
  ASSERT_TRUE(save({"GPU-2", true, "old", "", 1, 1, false}).ok());
  ASSERT_TRUE(save(second).ok());
  ASSERT_TRUE(save(first).ok());
  reopen();
  EXPECT_EQ(catalog_->load_all()->devices, (std::vector<DeviceRecord>{first, second}));
}

TEST_F(CatalogTest, AFailedChangeTakesNoOtherOfItsBatchWithIt) {
  std::vector<Result<InvocationId>> outcomes;
  for (const uint64_t number : {1, 1, 2, 2, 3}) {
    catalog_->put_async(sample_invocation(number),
                        [&](auto outcome) { outcomes.push_back(std::move(outcome)); });
  }
  while (outcomes.size() < 5) loop_.run_one();
  EXPECT_TRUE(outcomes[0].ok() && outcomes[2].ok() && outcomes[4].ok());
  EXPECT_FALSE(outcomes[1].ok() || outcomes[3].ok());
  EXPECT_EQ(catalog_->load_all()->pending, 3u);
}

TEST_F(CatalogTest, AFullQueueRefusesAtOnceAndLosesNothingItAccepted) {
  reopen({.queue_limit = 3, .batch_limit = 1});
  size_t accepted = 0;
  size_t refused = 0;
  size_t answered = 0;
  for (uint64_t number = 0; number < 2000; ++number) {
    catalog_->put_async(sample_invocation(number), [&](const auto& outcome) {
      ++answered;
      if (outcome.ok()) {
        ++accepted;
      } else {
        EXPECT_EQ(outcome.error().code, ErrorCode::kResourceExhausted);
        ++refused;
      }
    });
  }
  EXPECT_GT(refused, 0u);
  while (answered < 2000) loop_.run_one();
  EXPECT_EQ(catalog_->load_all()->pending, accepted);
}

TEST_F(CatalogTest, PayloadsThatWaitAreBoundedInBytes) {
  reopen({.queue_bytes = Bytes::kib(4)});
  const auto outcome = put(sample_invocation(1, std::string(8192, 'x')));
  EXPECT_EQ(outcome.error().code, ErrorCode::kResourceExhausted);
}

TEST_F(CatalogTest, AMailboxThatIsFullForAWhileDelaysCompletions) {
  loop_.refuse_next(5);
  EXPECT_TRUE(put(sample_invocation(1)).ok());
}

TEST_F(CatalogTest, WhatWasQueuedIsCommittedBeforeTheCatalogEnds) {
  for (uint64_t number = 0; number < 100; ++number) {
    catalog_->put_async(sample_invocation(number), [](const auto&) {});
  }
  reopen();
  EXPECT_EQ(catalog_->load_all()->pending, 100u);
}

TEST_F(CatalogTest, TwoWorkersCannotShareADatabase) {
  const auto second = Catalog::open(path_, {}, loop_.post());
  ASSERT_FALSE(second.ok());
  EXPECT_EQ(second.error().code, ErrorCode::kFailedPrecondition);
  EXPECT_NE(second.error().message.find("another worker"), std::string::npos);
}

TEST_F(CatalogTest, ADamagedDatabaseIsDataLossWithAdvice) {
  for (uint64_t number = 0; number < 200; ++number) {
    ASSERT_TRUE(put(sample_invocation(number, std::string(3000, 'x'))).ok());
  }
  catalog_.reset();
  {
    std::fstream file(path_, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(4096);
    file << std::string(20 * 4096, '\x5a');
  }
  const auto damaged = Catalog::open(path_, {}, loop_.post());
  ASSERT_FALSE(damaged.ok());
  EXPECT_EQ(damaged.error().code, ErrorCode::kDataLoss);
  EXPECT_NE(damaged.error().message.find("backup"), std::string::npos);
  std::ofstream(path_, std::ios::trunc) << std::string(10'000, 'n');
  EXPECT_EQ(Catalog::open(path_, {}, loop_.post()).error().code, ErrorCode::kDataLoss);
}

TEST_F(CatalogTest, AFolderThatIsNotThereIsNamed) {
  const auto opened = Catalog::open(folder_ / "none/catalog.db", {}, loop_.post());
  ASSERT_FALSE(opened.ok());
  EXPECT_NE(opened.error().message.find("none/catalog.db"), std::string::npos);
}

}  // namespace
}  // namespace lambent::catalog
