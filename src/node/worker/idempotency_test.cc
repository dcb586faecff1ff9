#include "node/worker/idempotency.h"

#include <gtest/gtest.h>

#include "core/domain/connection_key.h"
#include "node/worker/limits.h"

namespace lambent::worker {
namespace {

InvocationRequest request_with(const std::string& sdk_id, const std::string& payload) {
  InvocationRequest request;
  request.function = {kDefaultTenant, "f"};
  request.idempotency_key = sdk_id;
  request.payload = payload;
  return request;
}

InvocationResult result_of(InvocationId id, Outcome outcome, const std::string& payload) {
  InvocationResult result;
  result.id = id;
  result.outcome = outcome;
  result.payload = payload;
  return result;
}

const InvocationId kFirst{1, 1};

TEST(IdempotencyKey, DiffersWhenTenantFunctionIdOrPayloadDiffers) {
  const auto base = request_with("sdk-1", "payload");
  auto other_tenant = base;
  other_tenant.function.tenant = TenantId(2);
  auto other_function = base;
  other_function.function.name = "g";
  EXPECT_EQ(idempotency_key(base), idempotency_key(request_with("sdk-1", "payload")));
  EXPECT_NE(idempotency_key(base), idempotency_key(other_tenant));
  EXPECT_NE(idempotency_key(base), idempotency_key(other_function));
  EXPECT_NE(idempotency_key(base), idempotency_key(request_with("sdk-2", "payload")));
  EXPECT_NE(idempotency_key(base), idempotency_key(request_with("sdk-1", "payloae")));
}

// Nodes of a cluster number tenants differently; a catalog has the tenant beside the key.
TEST(IdempotencyKey, WhatACatalogKeepsIsTheSameWhateverNumberTheTenantHas) {
  auto here = request_with("schedule:s:60", "payload");
  auto elsewhere = here;
  elsewhere.function.tenant = TenantId(7);
  EXPECT_EQ(durable_key(here), durable_key(elsewhere));
  EXPECT_NE(durable_key(here), durable_key(request_with("schedule:s:120", "payload")));
  EXPECT_NE(durable_key(here), durable_key(request_with("schedule:s:60", "other")));
}

TEST(IdempotencyTable, ARepeatJoinsTheRunningInvocation) {
  IdempotencyTable table;
  EXPECT_FALSE(table.find("k", Instant{}).has_value());
  table.start("k", kFirst);
  const auto found = table.find("k", Instant{});
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->running, kFirst);
}

TEST(IdempotencyTable, ARepeatGetsTheStoredSuccessUntilTheWindowIsOver) {
  IdempotencyTable table;
  table.start("k", kFirst);
  table.finish("k", result_of(kFirst, Outcome::kSucceeded, "42"), Instant{});
  const auto within = table.find("k", Instant(limits::kIdempotencyWindow - seconds(1)));
  ASSERT_TRUE(within.has_value());
  ASSERT_NE(within->success, nullptr);
  EXPECT_EQ(within->success->payload, "42");
  EXPECT_FALSE(table.find("k", Instant(limits::kIdempotencyWindow)).has_value());
  EXPECT_EQ(table.size(), 0u);
}

TEST(IdempotencyTable, AFailureIsNeverReplayed) {
  IdempotencyTable table;
  table.start("k", kFirst);
  table.finish("k", result_of(kFirst, Outcome::kFunctionError, "{}"), Instant{});
  EXPECT_FALSE(table.find("k", Instant{}).has_value());
}

TEST(IdempotencyTable, TheOldestSuccessesMakeRoomAtTheLimits) {
  IdempotencyTable table({.entries = 2, .bytes = Bytes(100), .window = seconds(60)});
  for (const char* key : {"a", "b", "c"}) {
    table.start(key, kFirst);
    table.finish(key, result_of(kFirst, Outcome::kSucceeded, "x"), Instant{});
  }
  EXPECT_FALSE(table.find("a", Instant{}).has_value());
  EXPECT_TRUE(table.find("c", Instant{}).has_value());
  table.start("big", kFirst);
  table.finish("big", result_of(kFirst, Outcome::kSucceeded, std::string(200, 'x')), Instant{});
  EXPECT_EQ(table.size(), 0u) << "what is larger than the whole table is not kept";
}

TEST(IdempotencyTable, OneThatWasRefusedIsKnownOnceWhenItComesAsItWasTold) {
  IdempotencyTable table;
  InvocationResult refused = result_of(kFirst, Outcome::kRejected, "");
  refused.retry_after = seconds(2);
  table.start("k", kFirst);
  table.finish("k", refused, Instant{});
  EXPECT_FALSE(table.take_promise("other", Instant(seconds(2))));
  EXPECT_FALSE(table.take_promise("k", Instant(seconds(1)))) << "too early";
  EXPECT_TRUE(table.take_promise("k", Instant(seconds(3))));
  EXPECT_FALSE(table.take_promise("k", Instant(seconds(3))));
  EXPECT_FALSE(table.find("k", Instant(seconds(3))).has_value()) << "it runs again";
}

TEST(IdempotencyTable, AConnectionThatWasRefusedIsKnownOnceAndNothingElseOfIt) {
  IdempotencyTable table;
  InvocationRequest request = request_with(connection_key("127.0.0.1:4000"), "a");
  const std::string key = idempotency_key(request);
  request.payload = "b";
  EXPECT_EQ(idempotency_key(request), key) << "the next request of it may be another";
  request.function.name = "g";
  EXPECT_NE(idempotency_key(request), key);
  table.finish(key, result_of(kFirst, Outcome::kSucceeded, "answer"), Instant{});
  EXPECT_FALSE(table.find(key, Instant{}).has_value());
  EXPECT_EQ(table.size(), 0u);
  InvocationResult refused = result_of(kFirst, Outcome::kRejected, "");
  refused.retry_after = seconds(2);
  table.finish(key, refused, Instant{});
  EXPECT_TRUE(table.take_promise(key, Instant(seconds(2))));
  EXPECT_FALSE(table.take_promise(key, Instant(seconds(2))));
}

TEST(IdempotencyTable, AConnectionThatComesTooEarlyHasToBeToldAgain) {
  IdempotencyTable table;
  InvocationResult refused = result_of(kFirst, Outcome::kRejected, "");
  refused.retry_after = seconds(2);
  const std::string key = connection_key("127.0.0.1:4000");
  table.finish(key, refused, Instant{});
  EXPECT_FALSE(table.take_promise(key, Instant(seconds(1))));
  EXPECT_FALSE(table.take_promise(key, Instant(seconds(3))));
  table.finish(key, refused, Instant(seconds(3)));
  EXPECT_TRUE(table.take_promise(key, Instant(seconds(5))));
}

TEST(IdempotencyTable, ConnectionsTakeNoPromiseFromThoseWithAnId) {
  IdempotencyTable table;
  InvocationResult refused = result_of(kFirst, Outcome::kRejected, "");
  refused.retry_after = seconds(1);
  table.start("id", kFirst);
  table.finish("id", refused, Instant{});
  for (size_t i = 0; i <= limits::kPromisedTurns; ++i) {
    table.finish(connection_key(std::to_string(i)), refused, Instant{});
  }
  EXPECT_TRUE(table.take_promise("id", Instant(seconds(1))));
  EXPECT_FALSE(table.take_promise(connection_key("0"), Instant(seconds(1))));
  EXPECT_TRUE(table.take_promise(connection_key("1"), Instant(seconds(1))));
}

TEST(IdempotencyTable, PromisesAreBounded) {
  IdempotencyTable table;
  InvocationResult refused = result_of(kFirst, Outcome::kRejected, "");
  refused.retry_after = seconds(1);
  for (size_t i = 0; i <= limits::kPromisedTurns; ++i) {
    const std::string key = std::to_string(i);
    table.start(key, kFirst);
    table.finish(key, refused, Instant{});
  }
  EXPECT_FALSE(table.take_promise("0", Instant(seconds(1))));
  EXPECT_TRUE(table.take_promise("1", Instant(seconds(1))));
}

}  // namespace
}  // namespace lambent::worker
