#include "node/environments/build_failure.h"

#include <gtest/gtest.h>

namespace lambent::environments {
namespace {

TEST(BuildFailureTest, WhatCannotBeResolvedIsTheDeploymentsMistake) {
  const Error error = build_failure(
      "Using Python 3.11.2 environment at: v\nerror: No solution found when resolving "
      "dependencies\n  cause: Because nonexistent-zzz was not found in the package registry and "
      "you\n"
      "  require nonexistent-zzz, we can conclude that your requirements are unsatisfiable.\n");
  EXPECT_EQ(error.code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(error.message,
            "python packages: No solution found when resolving dependencies: Because "
            "nonexistent-zzz was not found in the package registry and you require "
            "nonexistent-zzz, we can conclude that your requirements are unsatisfiable.");
}

TEST(BuildFailureTest, APackageWithoutWheelsIsToldWithTheWayOut) {
  const Error error = build_failure(
      "error: No solution found when resolving dependencies\n  cause: Because all versions of "
      "llama-cpp-python have no usable wheels and you require llama-cpp-python, we can conclude "
      "that your requirements are unsatisfiable.\n");
  EXPECT_EQ(error.code, ErrorCode::kInvalidArgument);
  EXPECT_NE(error.message.find("pip wheel NAME -w FOLDER"), std::string::npos);
  EXPECT_NE(error.message.find("--python-wheels FOLDER"), std::string::npos);
}

TEST(BuildFailureTest, AnIndexThatDoesNotAnswerMayAnswerLater) {
  EXPECT_EQ(build_failure("error: Failed to fetch: `https://x/`\n  cause: dns error").code,
            ErrorCode::kUnavailable);
  EXPECT_EQ(build_failure("error: failed to write: No space left on device").code,
            ErrorCode::kStorageFull);
}

TEST(BuildFailureTest, CredentialsAreNeverTold) {
  EXPECT_EQ(without_credentials("get https://me:p4ss@index.example/simple/ and http://a@b"),
            "get https://index.example/simple/ and http://b");
  EXPECT_EQ(without_credentials("https://me:p@ss@x/y@z"), "https://x/y@z");
  EXPECT_EQ(without_credentials("\x1b[31merror\x1b[0m\r\n\a"), "error\n");
  EXPECT_EQ(without_credentials("a://"), "a://");
}

TEST(BuildFailureTest, PlacesThatAnIndexLeadsToAreNamedWithTheRemedy) {
  const Error error = refused_places({"evil.example:80", "10.0.0.1:22"});
  EXPECT_EQ(error.code, ErrorCode::kFailedPrecondition);
  EXPECT_NE(error.message.find("evil.example:80, 10.0.0.1:22"), std::string::npos);
  EXPECT_NE(error.message.find("--python-index"), std::string::npos);
}

TEST(BuildFailureTest, AFolderOfWheelsIsNamedAsTheOperatorKnowsIt) {
  const Error failure = build_failure(
      "error: Failed to read `--find-links` directory: /in/wheels\n  cause: "
      "Permission denied (os error 13)");
  const Error closed = with_wheels_named(failure, "/in/wheels", "/srv/wheels");
  EXPECT_EQ(closed.code, ErrorCode::kFailedPrecondition);
  EXPECT_NE(closed.message.find("directory: /srv/wheels: "), std::string::npos);
  EXPECT_NE(closed.message.find("chmod -R a+rX /srv/wheels"), std::string::npos);
  const Error other = with_wheels_named(build_failure("error: Permission denied: /other"),
                                        "/in/wheels", "/srv/wheels");
  EXPECT_EQ(other.message, "python packages: Permission denied: /other");
  EXPECT_EQ(other.code, ErrorCode::kInvalidArgument);
}

TEST(BuildFailureTest, ALongReasonIsShortened) {
  const Error error = build_failure("error: " + std::string(100'000, 'x'));
  EXPECT_LT(error.message.size(), kMostReason + 100);
}

}  // namespace
}  // namespace lambent::environments
