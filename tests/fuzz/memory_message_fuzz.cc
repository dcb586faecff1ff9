// What shims say to lambent-device: any stream of messages leaves no more turns under way than
// there are, and no more memory leased than the budget.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "gpu/monitor/lease_table.h"
#include "gpu/monitor/link_arbiter.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace lambent;
  using protocol::MemoryMessage;
  using protocol::MemoryMessageKind;
  constexpr Bytes kBudget = Bytes::gib(1);
  monitor::LinkArbiter arbiter({});
  monitor::LeaseTable lease_table(kBudget);
  Instant now{};
  for (; size >= sizeof(MemoryMessage);
       data += sizeof(MemoryMessage), size -= sizeof(MemoryMessage)) {
    if (!protocol::is_memory_message(data, sizeof(MemoryMessage))) continue;
    MemoryMessage message;
    memcpy(&message, data, sizeof(message));
    const uint64_t client = message.process % 8;
    const auto direction = static_cast<protocol::LinkDirection>(message.direction);
    switch (message.kind) {
      case MemoryMessageKind::kHello:
        arbiter.add(client, message.sequence % 4, static_cast<uint32_t>(message.sequence % 2));
        break;
      case MemoryMessageKind::kWantLink:
        (void)arbiter.want(client, direction, Bytes(message.bytes));
        break;
      case MemoryMessageKind::kLinkDone:
        arbiter.done(client, direction);
        break;
      case MemoryMessageKind::kForgetSandbox:
        arbiter.remove(client);
        lease_table.remove_sandbox(message.sequence % 4);
        break;
      case MemoryMessageKind::kServeSandbox:
        lease_table.add_sandbox(message.sequence % 4, Bytes(message.bytes));
        break;
      case MemoryMessageKind::kWantLease:
        (void)lease_table.lease(message.sequence % 4, Bytes(message.bytes));
        break;
      default:
        now += Duration(static_cast<int64_t>(message.duration_ns % 3'000'000'000));
        break;
    }
    // Two devices, two directions, two turns each.
    if (arbiter.take_grants(now).size() > 8) abort();
    if (lease_table.leased() > kBudget) abort();
  }
  return 0;
}
