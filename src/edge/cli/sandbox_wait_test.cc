// Whose sandboxes are waited for, and what counts as gone.
#include "edge/cli/sandbox_wait.h"

#include <gtest/gtest.h>

#include "edge/cli/testing/verbs_testing.h"

namespace lambent::cli {
namespace {

TEST(SandboxWait, EndsWhenNoSandboxOfTheFunctionIsLeft) {
  ScriptedTransport transport;
  transport.answer(response(200, R"({"sandboxes":[{"function":"f"},{"function":"g"}]})"));
  transport.answer(response(200, R"({"sandboxes":[{"function":"g"}]})"));
  EXPECT_TRUE(wait_until_gone(transport, "f").ok());
  EXPECT_EQ(transport.requests.size(), 2u);
}

TEST(SandboxWait, AFunctionThatIsCalledAsANodeIsNotThatNode) {
  ScriptedTransport transport;
  transport.answer(
      response(200, R"({"sandboxes":[{"function":"g","node":"f"}],"silent_nodes":[]})"));
  EXPECT_TRUE(wait_until_gone(transport, "f").ok());
  EXPECT_EQ(transport.requests.size(), 1u);
}

TEST(SandboxWait, WhatASilentNodeHasIsNotTakenAsGone) {
  ScriptedTransport transport;
  transport.answer(response(200, R"({"sandboxes":[],"silent_nodes":["c"]})"));
  transport.answer(response(200, R"({"sandboxes":[{"function":"f","node":"c"}]})"));
  transport.answer(response(200, R"({"sandboxes":[],"silent_nodes":[]})"));
  EXPECT_TRUE(wait_until_gone(transport, "f").ok());
  EXPECT_EQ(transport.requests.size(), 3u);
}

}  // namespace
}  // namespace lambent::cli
