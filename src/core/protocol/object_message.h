// What clients on the same machine say to the worker's object socket and hear from it, and its
// codec: one message a packet, an object's sealed memfd with it. Values; decoding trusts nothing;
// any thread. Numbers are LEB128, texts have their length before them (core/base/state_archive.h).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>

#include "core/base/ids.h"
#include "core/base/result.h"
#include "core/base/state_archive.h"
#include "core/base/units.h"
#include "core/domain/tensor_type.h"

namespace lambent::protocol {

// No message is longer.
constexpr Bytes kObjectMessage = Bytes::kib(4);

// --- From the client: kind 0 and 1 ---

// Its memfd comes with it.
struct PutObject {
  uint64_t ticket = 0;             // comes back with the reply
  std::optional<ObjectId> object;  // none: it gets a name
  TensorType type;
  uint64_t time_to_live_ms = 0;  // 0: as long as is usual

  void archive(StateArchive& archive);
  bool operator==(const PutObject&) const = default;
};
struct GetObject {
  uint64_t ticket = 0;
  ObjectId object;
  uint64_t wait_ms = 0;  // for an object that is still being made

  void archive(StateArchive& archive);
  bool operator==(const GetObject&) const = default;
};

// --- From the worker: kind 2 ---

// Replies come in the order in which they are ready. One to GetObject without an error brings the
// memfd.
struct ObjectReply {
  uint64_t ticket = 0;
  std::optional<Error> error;
  ObjectId object;
  TensorType type;

  void archive(StateArchive& archive);
  bool operator==(const ObjectReply&) const = default;
};

using ObjectMessage = std::variant<PutObject, GetObject, ObjectReply>;

std::string encode(ObjectMessage message);

// INVALID_ARGUMENT if the bytes are not exactly one message.
Result<ObjectMessage> decode_object_message(std::string_view bytes);

}  // namespace lambent::protocol
