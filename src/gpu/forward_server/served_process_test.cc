#include "gpu/forward_server/served_process.h"

#include <gtest/gtest.h>

#include <span>

#include "gpu/forward_server/testing/parts_testing.h"

namespace lambent::forward_server {
namespace {

class ServedProcessTest : public PartsTest {};

// ServedProcess itself handles the two that concern several parts.
TEST_F(ServedProcessTest, EveryCallIsHandledByOnePartOnly) {
  constexpr CallCode kAll[] = {
#define FORWARD_CALL(name, answered, most) k##name,
#include "gpu/forward_ring/calls.inc"
#undef FORWARD_CALL
  };
  for (const CallCode code : kAll) {
    Call call = call_of(code, {});
    call.slot = 0;
    const std::span<char> data;
    const int parts = functions_.handle(call, data) + process_memory_.handle(call, data) +
                      streams_.handle(call) + events_.handle(call) + graphs_.handle(call, data) +
                      modules_.handle(call, data) + host_functions_.handle(call) +
                      chunk_copies_.handle(call) + exports_.handle(call) + upload_.handle(call);
    const bool is_of_several = code == kDestroyContext || code == kUnloadModule;
    EXPECT_EQ(parts, is_of_several ? 0 : 1) << forward_ring::name_of(code);
  }
}

}  // namespace
}  // namespace lambent::forward_server
