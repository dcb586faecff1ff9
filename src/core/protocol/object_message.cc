#include "core/protocol/object_message.h"

#include "core/base/message_archive.h"

namespace lambent::protocol {
namespace {

// An error's message is cut so that a reply stays within kObjectMessage.
constexpr size_t kMessageLength = 2048;

void archive_message(StateArchive& archive, ObjectMessage& message) {
  archive_kind(archive, message, [&archive](auto& body) { body.archive(archive); });
}

void archive_error(StateArchive& archive, Error& error) {
  if (!archive.reading() && error.message.size() > kMessageLength) {
    error.message = "... " + error.message.substr(error.message.size() - kMessageLength);
  }
  archive.choice(error.code, kLastErrorCode);
  archive.field(error.message);
}

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
  archive_optional(archive, error, [&archive](Error& each) { archive_error(archive, each); });
  archive.field(object);
  type.archive(archive);
}

std::string encode(ObjectMessage message) {
  std::string bytes;
  StateArchive archive(&bytes);
  archive_message(archive, message);
  return bytes;
}

Result<ObjectMessage> decode_object_message(std::string_view bytes) {
  StateArchive archive(bytes);
  ObjectMessage message;
  archive_message(archive, message);
  if (!archive.complete()) {
    return Error{ErrorCode::kInvalidArgument, "no message for the object socket"};
  }
  return message;
}

}  // namespace lambent::protocol
