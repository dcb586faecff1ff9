// What a program in a sandbox sends to its network device, and what name servers answer: packets
// and messages about names. What is read lies within its bytes.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "core/base/check.h"
#include "node/network/limits.h"
#include "node/network/name_message.h"
#include "node/network/packet.h"
#include "node/network/refusals.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace lambent;
  using namespace lambent::network;
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  if (const auto head = read_packet(bytes)) {
    CHECK(head->transport_at <= size, "the transport lies in it");
    CHECK(head->payload_at <= size, "its payload does, too");
    CHECK(head->from.address.is_v4() == head->is_v4, "its ends are of its family");
    (void)write_reset(*head);
    (void)write_unreachable(bytes, *head, true, head->to.address);
    if (head->transport == Transport::kTcp) {
      std::string packet(bytes);
      rewrite_ends(packet, *head, head->to, head->from);
      const auto again = read_packet(packet);
      CHECK(again && again->from == head->to, "it has its other ends");
      rewrite_ends(packet, *again, head->from, head->to);
      CHECK(read_packet(packet)->from == head->from, "and its own again");
    }
  }
  if (const auto question = parse_name_question(bytes); question.ok()) {
    const auto again = parse_name_question(write_name_question(*question, question->id));
    CHECK(again.ok() && again->name == question->name, "a question is asked as it was");
  }
  if (const auto answer = parse_name_answer(bytes); answer.ok()) {
    CHECK(answer->addresses.size() <= limits::kNetworkNameAnswers, "it is bounded");
    const std::string written =
        write_name_answer(answer->question, answer->outcome, answer->addresses);
    const auto again = parse_name_answer(written);
    CHECK(again.ok() && again->addresses.size() == answer->addresses.size(), "it is told on");
  }
  (void)parse_name_servers(bytes);
  if (const auto refusal = parse_refusal(bytes)) {
    const auto again = parse_refusal(write_refusal(*refusal));
    CHECK(again && *again == *refusal, "a refusal is read as it is written");
  }
  return 0;
}
