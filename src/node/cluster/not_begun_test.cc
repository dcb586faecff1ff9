#include "node/cluster/not_begun.h"

#include <gtest/gtest.h>

#include "core/http/forward_service.h"
#include "core/http/forward_words.h"

namespace lambent::cluster {
namespace {

http::Headers saying(std::initializer_list<std::string_view> names) {
  http::Headers headers;
  headers.add("Content-Type", "application/json");
  for (const std::string_view name : names) headers.add(std::string(name), "true");
  return headers;
}

constexpr std::string_view kInvocation = "x-lambent-invocation-id";

TEST(NotBegunTest, IsWhatANodeSaysThatKeepsFunctionsFromSayingIt) {
  EXPECT_EQ(not_begun_by(saying({}), true), NotBegun::kNo);
  EXPECT_EQ(not_begun_by(saying({http::kNotHere}), true), NotBegun::kNotHere);
  // The refusal of an HTTP function names the invocation that was queued.
  EXPECT_EQ(not_begun_by(saying({http::kNotBegun, kInvocation}), true), NotBegun::kStops);
}

TEST(NotBegunTest, OfAProgramBeforeNoFunctionCanSayItAndSoRunTwice) {
  EXPECT_EQ(not_begun_by(saying({http::kNotBegun}), false), NotBegun::kNo);
  EXPECT_EQ(not_begun_by(saying({http::kNotBegun, kInvocation}), false), NotBegun::kNo);
  EXPECT_EQ(not_begun_by(saying({http::kNotHere, kInvocation}), false), NotBegun::kNo);
  EXPECT_EQ(not_begun_by(saying({http::kNotHere}), false), NotBegun::kNotHere)
      << "such a node says it of functions with settings that it does not know";
}

}  // namespace
}  // namespace lambent::cluster
