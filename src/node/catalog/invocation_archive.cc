#include "node/catalog/invocation_archive.h"

#include "core/base/state_archive.h"

namespace lambent::catalog {
namespace {

// Of both. Programs read no byte behind the last field that they know: what is new gets a column.
constexpr uint32_t kFormat = 1;

bool has_format(StateArchive& archive) {
  uint32_t format = kFormat;
  archive.field(format);
  archive.expect(format == kFormat);
  return archive.ok();
}

void archive_request(StateArchive& archive, InvocationRequest& request) {
  if (!has_format(archive)) return;
  archive.field(request.payload);
  archive.field(request.content_type);
  archive.field(request.client_context);
  archive.field(request.trace_id);
}

void archive_error(StateArchive& archive, std::optional<Error>& error) {
  bool there = error.has_value();
  archive.field(there);
  if (archive.reading() && there) error.emplace(Error{ErrorCode::kUnknown, ""});
  if (!there || !error) return;
  std::string code(name_of(error->code));
  archive.field(code);
  archive.field(error->message);
  if (archive.reading()) error->code = error_code_from_name(code).value_or(ErrorCode::kUnknown);
}

void archive_result(StateArchive& archive, InvocationResult& result) {
  if (!has_format(archive)) return;
  archive.choice(result.outcome, Outcome::kRejected);
  archive.field(result.payload);
  archive.field(result.error_type);
  archive_error(archive, result.error);
  archive.choice(result.start, StartClass::kWarm);
  for (Duration* each : {&result.phases.queue, &result.phases.sandbox, &result.phases.init,
                         &result.phases.memory, &result.phases.run}) {
    archive.field(*each);
  }
  archive.field(result.wait_reason);
  archive.field(result.device);
  archive.field(result.device_memory_peak);
  archive.field(result.host_memory_peak);
  archive.field(result.log_tail);
  archive.field(result.revision);
  archive.field(result.version);
  // Written by a few programs, whose results of several devices earlier ones could not read.
  if (archive.reading() && !archive.complete()) archive.list(result.beside);
}

Error damaged(const char* what) {
  return {ErrorCode::kDataLoss, std::string("the shared catalog has ") + what +
                                    " of an asynchronous invocation that cannot be read"};
}

}  // namespace

std::string bytes_of_id(InvocationId id) {
  std::string bytes(16, '\0');
  for (size_t i = 0; i < 8; ++i) {
    bytes[i] = static_cast<char>(id.high >> (56 - 8 * i));
    bytes[8 + i] = static_cast<char>(id.low >> (56 - 8 * i));
  }
  return bytes;
}

InvocationId id_of_bytes(std::string_view bytes) {
  InvocationId id;
  for (size_t i = 0; i < 8 && bytes.size() == 16; ++i) {
    id.high = id.high << 8 | static_cast<unsigned char>(bytes[i]);
    id.low = id.low << 8 | static_cast<unsigned char>(bytes[8 + i]);
  }
  return id;
}

uint64_t bits_of(const std::vector<DeviceId>& devices) {
  uint64_t bits = 0;
  for (const DeviceId device : devices) bits |= uint64_t{1} << ((device.value - 1) % 64);
  return bits;
}

std::vector<DeviceId> devices_of(uint64_t bits) {
  std::vector<DeviceId> devices;
  for (uint32_t value = 1; bits != 0; ++value, bits >>= 1) {
    if ((bits & 1) != 0) devices.push_back(DeviceId(value));
  }
  return devices;
}

std::string bytes_of_request(const InvocationRequest& request) {
  std::string bytes;
  StateArchive archive(&bytes);
  InvocationRequest copy = request;
  archive_request(archive, copy);
  return bytes;
}

Result<void> read_request(std::string_view bytes, InvocationRequest& request) {
  StateArchive archive(bytes);
  archive_request(archive, request);
  if (!archive.complete()) return damaged("a request");
  return {};
}

std::string bytes_of_result(const InvocationResult& result) {
  std::string bytes;
  StateArchive archive(&bytes);
  InvocationResult copy = result;
  archive_result(archive, copy);
  return bytes;
}

Result<InvocationResult> read_result(std::string_view bytes) {
  InvocationResult result;
  StateArchive archive(bytes);
  archive_result(archive, result);
  if (!archive.complete()) return damaged("a result");
  return result;
}

}  // namespace lambent::catalog
