#include "core/protocol/object_message.h"

#include <utility>

namespace lambent::protocol {
namespace {

// An error's message is cut so that a reply stays within kObjectMessage.
constexpr size_t kMessageLength = 2048;

}  // namespace

void PutObject::archive(StateArchive& archive) {
  archive.field(ticket);
  archive.field(object);
  type.archive(archive);
  archive.field(time_to_live_ms);
}

void GetObject::archive(StateArchive& archive) {
  archive.field(ticket);
  archive.field(object);
  archive.field(wait_ms);
}

void ObjectReply::archive(StateArchive& archive) {
  archive.field(ticket);
  bool failed = error.has_value();
  archive.field(failed);
  if (archive.reading()) error = failed ? std::optional<Error>(Error{}) : std::nullopt;
  if (error) {
    archive.choice(error->code, ErrorCode::kUnauthenticated);
    if (!archive.reading() && error->message.size() > kMessageLength) {
      error->message = "... " + error->message.substr(error->message.size() - kMessageLength);
    }
    archive.field(error->message);
  }
  archive.field(object);
  type.archive(archive);
}

std::string encode(ObjectMessage message) {
  std::string bytes;
  StateArchive archive(&bytes);
  uint32_t kind = static_cast<uint32_t>(message.index());
  archive.field(kind);
  std::visit([&archive](auto& each) { each.archive(archive); }, message);
  return bytes;
}

Result<ObjectMessage> decode_object_message(std::string_view bytes) {
  StateArchive archive(bytes);
  uint32_t kind = 0;
  archive.field(kind);
  ObjectMessage message;
  if (kind == 1) message = GetObject();
  if (kind == 2) message = ObjectReply();
  archive.expect(kind <= 2);
  if (archive.ok()) std::visit([&archive](auto& each) { each.archive(archive); }, message);
  if (!archive.complete()) {
    return Error{ErrorCode::kInvalidArgument, "no message for the object socket"};
  }
  return message;
}

}  // namespace lambent::protocol
