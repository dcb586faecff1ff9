#include "core/protocol/executor_message.h"

#include "core/base/message_archive.h"

namespace lambent::protocol {
namespace {

// Messages may quote what a client sent; a packet has an end.
constexpr size_t kMostErrorBytes = 4096;

void archive_error(StateArchive& archive, Error& error) {
  if (!archive.reading() && error.message.size() > kMostErrorBytes) {
    error.message.resize(kMostErrorBytes);
    error.message += "...";
  }
  archive.choice(error.code, kLastErrorCode);
  archive.field(error.message);
}

void archive_error(StateArchive& archive, std::optional<Error>& error) {
  archive_optional(archive, error, [&archive](Error& each) { archive_error(archive, each); });
}

void archive_message(StateArchive& archive, ExecutorMessage& message) {
  archive_kind(archive, message, [&archive](auto& body) { body.archive(archive); });
}

}  // namespace

void AddInstance::archive(StateArchive& archive) {
  archive.field(instance);
  archive.field(graph);
  archive.list(files);
  archive.field(memory);
  archive.field(modelled);
  archive.field(share);
}

void RemoveInstance::archive(StateArchive& archive) { archive.field(instance); }

void MoveInstance::archive(StateArchive& archive) {
  archive.field(instance);
  archive.field(out);
}

void SetShare::archive(StateArchive& archive) {
  archive.field(instance);
  archive.field(share);
}

void AddClient::archive(StateArchive& archive) {
  archive.field(client);
  archive.field(memory);
  archive.field(share);
}

void RemoveClient::archive(StateArchive& archive) { archive.field(client); }

void Run::archive(StateArchive& archive) {
  archive.field(invocation);
  archive.field(instance);
  archive.field(content_type);
  archive.field(payload);
  archive.field(payload_attached);
}

void ObjectOpened::archive(StateArchive& archive) {
  archive.field(object);
  archive_error(archive, error);
  type.archive(archive);
  archive.field(shared);
  archive.field(failed);
}

void ShareObject::archive(StateArchive& archive) { archive.field(object); }

void ExportEnded::archive(StateArchive& archive) { archive.field(object); }

void TakeObject::archive(StateArchive& archive) {
  archive.field(object);
  type.archive(archive);
  archive.field(shared);
}

void DropObject::archive(StateArchive& archive) {
  archive.field(object);
  archive.field(deleted);
}

void WriteObject::archive(StateArchive& archive) { archive.field(object); }

void NeedObject::archive(StateArchive& archive) {
  archive.field(object);
  archive.field(needed);
}

void SetObjectRoom::archive(StateArchive& archive) { archive.field(room); }

void ObjectHeld::archive(StateArchive& archive) {
  archive.field(object);
  archive.field(held);
}

void ObjectShared::archive(StateArchive& archive) {
  archive.field(object);
  archive_error(archive, error);
  archive.field(shared);
}

void ExecutorHello::archive(StateArchive& archive) {
  archive.field(version);
  archive.field(context_time);
  archive.list(peers);
}

void InstanceReady::archive(StateArchive& archive) {
  archive.field(instance);
  archive.field(elapsed);
  archive.field(constants);
}

void InstanceFailed::archive(StateArchive& archive) {
  archive.field(instance);
  archive_error(archive, error);
}

void InstanceMoved::archive(StateArchive& archive) {
  archive.field(instance);
  archive.field(out);
  archive.field(done);
  archive.field(moved);
  archive.field(left);
  archive.field(duration);
}

void OutputObject::archive(StateArchive& archive) {
  archive.field(object);
  type.archive(archive);
  archive.field(output);
  archive.field(kept);
}

void Finished::archive(StateArchive& archive) {
  archive.field(invocation);
  archive_error(archive, error);
  archive.choice(subject, ErrorSubject::kFailedInput);
  archive.field(content_type);
  archive.field(payload);
  archive.field(payload_attached);
  archive.list(objects, [&archive](OutputObject& object) { object.archive(archive); });
  archive.field(objects_time);
  archive.field(copy_in_time);
  archive.field(run_time);
  archive.field(copy_out_time);
  archive.field(device_memory);
  archive.field(device_memory_peak);
}

void ObjectWritten::archive(StateArchive& archive) {
  archive.field(object);
  archive_error(archive, error);
}

void OpenObject::archive(StateArchive& archive) { archive.field(object); }

void Broken::archive(StateArchive& archive) { archive_error(archive, error); }

std::string encode(ExecutorMessage message) {
  std::string bytes;
  StateArchive archive(&bytes);
  archive_message(archive, message);
  return bytes;
}

Result<ExecutorMessage> decode_executor_message(std::string_view bytes) {
  StateArchive archive(bytes);
  ExecutorMessage message;
  archive_message(archive, message);
  if (!archive.complete()) {
    return Error{ErrorCode::kInvalidArgument, "no message between worker and lambent-executor"};
  }
  return message;
}

}  // namespace lambent::protocol
