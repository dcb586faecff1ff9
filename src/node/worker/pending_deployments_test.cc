#include "node/worker/pending_deployments.h"

#include <gtest/gtest.h>

namespace lambent::worker {
namespace {

FunctionSpec function(const std::string& name) {
  FunctionSpec spec;
  spec.name = {kDefaultTenant, name};
  return spec;
}

const Error kRefused{ErrorCode::kInvalidArgument, "there is no numpy 99"};

TEST(PendingDeploymentsTest, WhatWasNotAnsweredYetIsNotShown) {
  PendingDeployments pending(nullptr);
  const FunctionSpec spec = function("f");
  pending.begin(spec, true, "code");
  EXPECT_FALSE(pending.find(spec.name));
  EXPECT_FALSE(pending.created(spec.name));
  pending.end(spec.name, kRefused);
  EXPECT_FALSE(pending.find(spec.name));
}

TEST(PendingDeploymentsTest, ACreationThatWasAnsweredIsThereUntilItIsDone) {
  PendingDeployments pending(nullptr);
  const FunctionSpec spec = function("f");
  pending.begin(spec, true, "code");
  pending.answered(spec.name);
  ASSERT_TRUE(pending.find(spec.name));
  EXPECT_TRUE(pending.find(spec.name)->creates);
  EXPECT_EQ(pending.refuse(spec.name)->code, ErrorCode::kAborted);
  pending.end(spec.name, spec);
  EXPECT_FALSE(pending.find(spec.name));
  EXPECT_FALSE(pending.refuse(spec.name));
}

TEST(PendingDeploymentsTest, AFailureIsRememberedUntilItIsForgotten) {
  PendingDeployments pending(nullptr);
  const FunctionSpec spec = function("f");
  pending.begin(spec, true, "code");
  pending.answered(spec.name);
  pending.end(spec.name, kRefused);
  EXPECT_EQ(pending.find(spec.name)->failure, kRefused);
  EXPECT_EQ(pending.refuse(spec.name)->code, ErrorCode::kFailedPrecondition);
  pending.forget(spec.name);
  EXPECT_FALSE(pending.find(spec.name));
}

TEST(PendingDeploymentsTest, OneOfAnEarlierWorkerIsAFailureUntilItIsForgotten) {
  PendingDeployments pending(nullptr);
  const FunctionSpec spec = function("f");
  pending.restore({.spec = spec, .creates = true, .progress = "", .failure = kRefused});
  EXPECT_EQ(pending.find(spec.name)->failure, kRefused);
  EXPECT_EQ(pending.created(spec.name), spec);
  EXPECT_EQ(pending.refuse(spec.name)->code, ErrorCode::kFailedPrecondition);
  EXPECT_TRUE(pending.forget(spec.name));
  EXPECT_FALSE(pending.find(spec.name));
}

TEST(PendingDeploymentsTest, AnUpdateDoesNotStandInTheWayOfWhatIsThere) {
  PendingDeployments pending(nullptr);
  const FunctionSpec spec = function("f");
  pending.begin(spec, false, "code");
  pending.answered(spec.name);
  EXPECT_TRUE(pending.find(spec.name));
  EXPECT_FALSE(pending.created(spec.name));
  EXPECT_FALSE(pending.refuse(spec.name));
}

TEST(PendingDeploymentsTest, OnlySoManyFailuresAreRemembered) {
  PendingDeployments pending(nullptr);
  for (size_t i = 0; i <= PendingDeployments::kMostFailed; ++i) {
    const FunctionSpec spec = function("f" + std::to_string(i));
    pending.begin(spec, true, "code");
    pending.answered(spec.name);
    pending.end(spec.name, kRefused);
  }
  EXPECT_TRUE(pending.find(function("f0").name));
  EXPECT_FALSE(pending.find(function("f" + std::to_string(PendingDeployments::kMostFailed)).name));
}

}  // namespace
}  // namespace lambent::worker
