#include "core/protocol/executor_message.h"

#include <gtest/gtest.h>

namespace lambent::protocol {
namespace {

std::vector<ExecutorMessage> one_of_each() {
  const InvocationId invocation{7, 9};
  const ObjectId object{{1, 2}, 3};
  const TensorType type{DataType::kFp32, {2, 3}};
  Finished finished;
  finished.invocation = invocation;
  finished.error = Error{ErrorCode::kResourceExhausted, "no room"};
  finished.subject = ErrorSubject::kFailedInput;
  finished.payload = std::string("\0x", 2);
  finished.objects = {{object, type, 3, true}, {{{4, 5}, 0}, raw_tensor(Bytes(9))}};
  finished.run_time = milliseconds(3);
  finished.device_memory_peak = Bytes::gib(3);
  return {
      AddInstance{
          SandboxId{5}, "graph.json", {"graph.json", "b/manifest.json"}, Bytes::mib(3), true, 50},
      RemoveInstance{SandboxId{5}},
      MoveInstance{SandboxId{5}, true},
      SetShare{SandboxId{5}, 25},
      AddClient{SandboxId{6}, Bytes::mib(3), 50},
      RemoveClient{SandboxId{6}},
      Run{invocation, SandboxId{5}, "application/json", "{}", false},
      ObjectOpened{object, Error{ErrorCode::kNotFound, "gone"}, {}, {}, true},
      ObjectOpened{object, std::nullopt, type, Bytes::mib(4)},
      ShareObject{object},
      ExportEnded{object},
      TakeObject{object, type, Bytes::mib(4)},
      DropObject{object, true},
      WriteObject{object},
      NeedObject{object, true},
      SetObjectRoom{Bytes::gib(2)},
      ObjectHeld{object, Bytes::mib(4)},
      ObjectWritten{object, Error{ErrorCode::kNotFound, "gone"}},
      ObjectShared{object, Error{ErrorCode::kNotFound, "gone"}, Bytes::mib(4)},
      ExecutorHello{kExecutorProtocolVersion, milliseconds(200), {1, 3}},
      InstanceReady{SandboxId{5}, milliseconds(1), Bytes::mib(7)},
      InstanceFailed{SandboxId{5}, {ErrorCode::kInvalidArgument, "steps[2]"}},
      InstanceMoved{SandboxId{5}, true, false, Bytes(1), Bytes(2), milliseconds(4)},
      finished,
      OpenObject{object},
      Broken{{ErrorCode::kInternal, "fault"}}};
}

TEST(ExecutorMessage, ComesBackAsItWas) {
  for (const ExecutorMessage& message : one_of_each()) {
    const auto decoded = decode_executor_message(encode(message));
    ASSERT_TRUE(decoded.ok()) << message.index();
    EXPECT_EQ(*decoded, message);
  }
}

TEST(ExecutorMessage, AnErrorThatQuotesMuchIsCut) {
  Finished finished;
  finished.error = Error{ErrorCode::kInvalidArgument, std::string(1'000'000, 'x')};
  const std::string bytes = encode(finished);
  EXPECT_LT(bytes.size(), kExecutorMessage.count / 2);
  EXPECT_TRUE(decode_executor_message(bytes).ok());
}

TEST(ExecutorMessage, IsRefusedWhenCutAnywhereOrLonger) {
  for (const ExecutorMessage& message : one_of_each()) {
    const std::string whole = encode(message);
    for (size_t size = 0; size < whole.size(); ++size) {
      EXPECT_FALSE(decode_executor_message(std::string_view(whole).substr(0, size)).ok())
          << message.index() << " cut at " << size;
    }
    EXPECT_FALSE(decode_executor_message(whole + '\0').ok());
  }
  EXPECT_FALSE(decode_executor_message("\x7f").ok());
}

}  // namespace
}  // namespace lambent::protocol
