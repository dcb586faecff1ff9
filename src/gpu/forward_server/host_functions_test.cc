#include "gpu/forward_server/host_functions.h"

#include <gtest/gtest.h>

#include "gpu/forward_server/testing/parts_testing.h"

namespace lambent::forward_server {
namespace {

constexpr uint64_t kToken = 5;
constexpr uint64_t kTokenOfGraph = forward_ring::kGraphToken | 6;

class HostFunctionsTest : public PartsTest {
 protected:
  void add(uint64_t token) { EXPECT_TRUE(send(host_functions_, kHostFunction, {stream_, token})); }
  void ask_for_next() { EXPECT_TRUE(ask(host_functions_, kNextHostFunction, {})); }
  void report_done(uint64_t ticket, uint64_t has_failed = 0) {
    EXPECT_TRUE(send(host_functions_, kHostFunctionDone, {ticket, has_failed}));
  }
  CUresult noted() {
    const auto call = [] {
      Call call = call_of(kQueryStream, {});
      call.slot = 1;
      return call;
    }();
    answers_.answer_with_earlier(call, CUDA_SUCCESS);
    return static_cast<CUresult>(pages_.slots[1].result);
  }
};

TEST_F(HostFunctionsTest, AFunctionIsDueOnceItsStreamHasComeSoFarAndHoldsWhatFollows) {
  const size_t gate = hold(stream_);
  add(kToken);
  ask_for_next();
  completions_.poll();
  EXPECT_FALSE(is_answered());
  open(gate);
  ASSERT_EQ(wait_for_answer(), CUDA_SUCCESS);
  EXPECT_EQ(value(0), kToken);
  EXPECT_EQ(value(2), 0U);
  EXPECT_FALSE(host_functions_.is_empty());
  const uint64_t ticket = value(1);
  EXPECT_TRUE(ask(streams_, kQueryStream, {stream_}));
  EXPECT_EQ(result(), CUDA_ERROR_NOT_READY);
  report_done(ticket);
  EXPECT_EQ(wait_for_stream(stream_), CUDA_SUCCESS);
  EXPECT_TRUE(host_functions_.is_empty());
}

TEST_F(HostFunctionsTest, FunctionsThatAreDueWaitInTheirOrderUntilTheProcessAsks) {
  const uint64_t other = create_stream();
  add(1);
  EXPECT_TRUE(poll_until([&] { return completions_.size() == 0; }));
  EXPECT_TRUE(send(host_functions_, kHostFunction, {other, 2}));
  EXPECT_TRUE(poll_until([&] { return completions_.size() == 0; }));
  ask_for_next();
  EXPECT_EQ(result(), CUDA_SUCCESS);
  EXPECT_EQ(value(0), 1U);
  ask_for_next();
  EXPECT_EQ(result(), CUDA_SUCCESS);
  EXPECT_EQ(value(0), 2U);
}

TEST_F(HostFunctionsTest, OnlyOneCallMayWaitForTheNextFunction) {
  ask_for_next();
  EXPECT_FALSE(is_answered());
  Call second = call_of(kNextHostFunction, {});
  second.slot = 1;
  EXPECT_TRUE(host_functions_.handle(second));
  EXPECT_EQ(pages_.slots[1].answered.load(), 1U);
  EXPECT_EQ(pages_.slots[1].result, CUDA_ERROR_ILLEGAL_STATE);
}

TEST_F(HostFunctionsTest, ATokenThatIsInUseOrLooksLikeAGraphsIsRefused) {
  add(kToken);
  EXPECT_EQ(noted(), CUDA_SUCCESS);
  add(kToken);
  EXPECT_EQ(noted(), CUDA_ERROR_INVALID_VALUE);
  add(0);
  EXPECT_EQ(noted(), CUDA_ERROR_INVALID_VALUE);
  add(kTokenOfGraph);
  EXPECT_EQ(noted(), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(HostFunctionsTest, AFunctionThatTheProcessWasNotToldOfCannotHaveReturned) {
  add(kToken);
  report_done(kToken);
  EXPECT_EQ(noted(), CUDA_ERROR_INVALID_VALUE);
  ask_for_next();
  ASSERT_EQ(wait_for_answer(), CUDA_SUCCESS);
  report_done(kToken);
  EXPECT_EQ(noted(), CUDA_SUCCESS);
  report_done(kToken);
  EXPECT_EQ(noted(), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(HostFunctionsTest, ACopyThatFailedOnTheHostIsAFailureOfTheProcess) {
  add(kToken);
  ask_for_next();
  ASSERT_EQ(wait_for_answer(), CUDA_SUCCESS);
  report_done(kToken, 1);
  EXPECT_EQ(noted(), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(HostFunctionsTest, AFunctionOfAGraphKeepsItsGateAndHasATicketForEachLaunch) {
  size_t gate = 0;
  ASSERT_EQ(gates_.take(&gate), CUDA_SUCCESS);
  CUstream stream = nullptr;
  ASSERT_EQ(streams_.use(stream_, &stream), CUDA_SUCCESS);
  uint64_t last = 0;
  for (int launch = 1; launch <= 2; ++launch) {
    gates_.shut(gate);
    host_functions_.add_of_graph(stream, gate, kTokenOfGraph);
    EXPECT_EQ(host_functions_.added_of_graphs(), static_cast<uint64_t>(launch));
    ask_for_next();
    ASSERT_EQ(wait_for_answer(), CUDA_SUCCESS);
    EXPECT_EQ(value(0), kTokenOfGraph);
    EXPECT_NE(value(1), last);
    last = value(1);
    report_done(last);
    EXPECT_EQ(noted(), CUDA_SUCCESS);
  }
  size_t next = 0;
  ASSERT_EQ(gates_.take(&next), CUDA_SUCCESS);
  EXPECT_NE(next, gate);
}

TEST_F(HostFunctionsTest, TheFunctionOfALaunchThatWasRefusedIsToldAndHoldsNothing) {
  EXPECT_TRUE(host_functions_.refuse_of_graph(kTokenOfGraph));
  ask_for_next();
  ASSERT_EQ(result(), CUDA_SUCCESS);
  EXPECT_EQ(value(0), kTokenOfGraph);
  EXPECT_EQ(value(2), 1U);
  EXPECT_TRUE(host_functions_.is_empty());
  report_done(value(1));
  EXPECT_EQ(noted(), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(HostFunctionsTest, SoManyFunctionsMayWaitAndNoMore) {
  constexpr size_t kMost = size_t{1} << 16;
  EXPECT_TRUE(host_functions_.has_room_for(kMost));
  EXPECT_FALSE(host_functions_.has_room_for(kMost + 1));
  for (size_t i = 0; i < 2 * kMost; ++i) ASSERT_TRUE(host_functions_.refuse_of_graph(i));
  EXPECT_FALSE(host_functions_.has_room_for(1));
  EXPECT_FALSE(host_functions_.refuse_of_graph(kTokenOfGraph));
}

}  // namespace
}  // namespace lambent::forward_server
