#include "core/protocol/device_message.h"

#include <algorithm>
#include <cstring>
#include <optional>

namespace lambent::protocol {
namespace {

// A message: version, kind, then its fields, all numbers little-endian; a text is its length and
// its bytes, a list its length and its elements.
enum class MessageKind : uint32_t { kFound = 1, kRead = 2, kUnavailable = 3, kFaulted = 4 };

class Writer {
 public:
  template <typename Number>
  void put(Number number) {
    for (size_t i = 0; i < sizeof(Number); ++i) {
      bytes_.push_back(static_cast<char>(static_cast<uint64_t>(number) >> (8 * i)));
    }
  }
  // Whether there is one, and then it.
  template <typename Number>
  void put_optional(const std::optional<Number>& number) {
    put(static_cast<uint8_t>(number.has_value()));
    if (number.has_value()) put(*number);
  }
  void put_text(const std::string& text, size_t most = kMostDeviceText) {
    const size_t length = std::min(text.size(), most);
    put(static_cast<uint32_t>(length));
    bytes_.append(text, 0, length);
  }
  std::string take() { return std::move(bytes_); }

 private:
  std::string bytes_;
};

// Reading past the end makes it failed for good and gives zeros.
class Reader {
 public:
  explicit Reader(std::span<const std::byte> bytes) : bytes_(bytes) {}

  template <typename Number>
  Number take() {
    if (bytes_.size() < sizeof(Number)) return fail<Number>();
    uint64_t number = 0;
    for (size_t i = 0; i < sizeof(Number); ++i) {
      number |= static_cast<uint64_t>(bytes_[i]) << (8 * i);
    }
    bytes_ = bytes_.subspan(sizeof(Number));
    return static_cast<Number>(number);
  }
  std::string take_text(size_t most = kMostDeviceText) {
    const uint32_t length = take<uint32_t>();
    if (length > most || length > bytes_.size()) return fail<std::string>();
    std::string text(reinterpret_cast<const char*>(bytes_.data()), length);
    bytes_ = bytes_.subspan(length);
    return text;
  }
  // The length of a list.
  uint32_t take_count(size_t most) {
    const uint32_t count = take<uint32_t>();
    return count > most ? fail<uint32_t>() : count;
  }
  uint8_t take_percent() {
    const uint8_t percent = take<uint8_t>();
    return percent > 100 ? fail<uint8_t>() : percent;
  }
  bool take_flag() {
    const uint8_t flag = take<uint8_t>();
    return flag > 1 ? fail<bool>() : flag == 1;
  }
  // One of those from 0 to `last`.
  template <typename Choice>
  Choice take_choice(Choice last) {
    const uint8_t choice = take<uint8_t>();
    return choice > static_cast<uint8_t>(last) ? fail<Choice>() : static_cast<Choice>(choice);
  }
  bool ended_well() const { return !failed_ && bytes_.empty(); }

 private:
  template <typename Value>
  Value fail() {
    failed_ = true;
    bytes_ = {};
    return Value{};
  }

  std::span<const std::byte> bytes_;
  bool failed_ = false;
};

void put_message(Writer& out, const DevicesFound& found) {
  const size_t count = std::min(found.devices.size(), kMostDevices);
  out.put(MessageKind::kFound);
  out.put(static_cast<uint32_t>(count));
  for (size_t i = 0; i < count; ++i) {
    const DeviceInventory& device = found.devices[i];
    out.put(device.index);
    out.put_text(device.uuid);
    out.put_text(device.name);
    out.put(device.memory_total.count);
    out.put_text(device.profile);
    out.put(device.multiprocessors);
    out.put(static_cast<uint8_t>(device.knows_utilisation));
    out.put(static_cast<uint8_t>(device.integrated));
    // Cut it would name others.
    const bool fits = device.near_cpus.size() <= kMostCpuList;
    out.put_text(fits ? device.near_cpus : std::string(), kMostCpuList);
  }
}

void put_message(Writer& out, const DevicesRead& read) {
  const size_t count = std::min(read.readings.size(), kMostDevices);
  out.put(MessageKind::kRead);
  out.put(read.sequence);
  out.put(static_cast<uint32_t>(count));
  for (size_t i = 0; i < count; ++i) {
    const DeviceReading& reading = read.readings[i];
    out.put(reading.index);
    out.put(reading.health);
    out.put(static_cast<uint8_t>(reading.knows_utilisation));
    out.put(std::min<uint8_t>(reading.busy_percent, 100));
    out.put(std::min<uint8_t>(reading.memory_busy_percent, 100));
    out.put(reading.memory_used.count);
    out.put(reading.memory_total.count);
    out.put_optional(reading.uncorrected_errors);
    out.put_optional(reading.repair);
  }
}

void put_message(Writer& out, const DevicesFaulted& faulted) {
  const size_t count = std::min(faulted.faults.size(), kMostDeviceFaults);
  out.put(MessageKind::kFaulted);
  out.put(static_cast<uint32_t>(count));
  for (size_t i = 0; i < count; ++i) {
    const DeviceFault& fault = faulted.faults[i];
    out.put(fault.index);
    out.put(fault.xid);
    out.put(fault.gravity);
    out.put_text(fault.what);
  }
}

void put_message(Writer& out, const DevicesUnavailable& unavailable) {
  out.put(MessageKind::kUnavailable);
  out.put_text(unavailable.reason);
}

DevicesFound take_found(Reader& in) {
  DevicesFound found;
  const uint32_t count = in.take_count(kMostDevices);
  for (uint32_t i = 0; i < count; ++i) {
    DeviceInventory device;
    device.index = in.take<uint32_t>();
    device.uuid = in.take_text();
    device.name = in.take_text();
    device.memory_total = Bytes(in.take<uint64_t>());
    device.profile = in.take_text();
    device.multiprocessors = in.take<uint32_t>();
    device.knows_utilisation = in.take_flag();
    device.integrated = in.take_flag();
    device.near_cpus = in.take_text(kMostCpuList);
    found.devices.push_back(std::move(device));
  }
  return found;
}

DevicesRead take_read(Reader& in) {
  DevicesRead read;
  read.sequence = in.take<uint64_t>();
  const uint32_t count = in.take_count(kMostDevices);
  for (uint32_t i = 0; i < count; ++i) {
    DeviceReading reading;
    reading.index = in.take<uint32_t>();
    reading.health = in.take_choice(DeviceHealth::kLost);
    reading.knows_utilisation = in.take_flag();
    reading.busy_percent = in.take_percent();
    reading.memory_busy_percent = in.take_percent();
    reading.memory_used = Bytes(in.take<uint64_t>());
    reading.memory_total = Bytes(in.take<uint64_t>());
    if (in.take_flag()) reading.uncorrected_errors = in.take<uint64_t>();
    if (in.take_flag()) reading.repair = in.take_choice(MemoryRepair::kFailed);
    read.readings.push_back(reading);
  }
  return read;
}

DevicesFaulted take_faulted(Reader& in) {
  DevicesFaulted faulted;
  const uint32_t count = in.take_count(kMostDeviceFaults);
  for (uint32_t i = 0; i < count; ++i) {
    DeviceFault fault;
    fault.index = in.take<uint32_t>();
    fault.xid = in.take<uint32_t>();
    fault.gravity = in.take_choice(FaultGravity::kDevice);
    fault.what = in.take_text();
    faulted.faults.push_back(std::move(fault));
  }
  return faulted;
}

}  // namespace

std::string encode(const DeviceMessage& message) {
  Writer out;
  out.put(kDeviceProtocolVersion);
  std::visit([&out](const auto& one) { put_message(out, one); }, message);
  return out.take();
}

Result<DeviceMessage> decode_device_message(std::span<const std::byte> bytes) {
  const auto bad = [](const char* why) {
    return Error{ErrorCode::kInvalidArgument, std::string("device message: ") + why};
  };
  if (bytes.size() > kMostDeviceMessage) return bad("too long");
  Reader in(bytes);
  if (in.take<uint32_t>() != kDeviceProtocolVersion) return bad("another version");
  DeviceMessage message;
  switch (static_cast<MessageKind>(in.take<uint32_t>())) {
    case MessageKind::kFound:
      message = take_found(in);
      break;
    case MessageKind::kRead:
      message = take_read(in);
      break;
    case MessageKind::kFaulted:
      message = take_faulted(in);
      break;
    case MessageKind::kUnavailable:
      message = DevicesUnavailable{in.take_text()};
      break;
    default:
      return bad("unknown kind");
  }
  if (!in.ended_well()) return bad("cut short, too long or impossible");
  return message;
}

}  // namespace lambent::protocol
