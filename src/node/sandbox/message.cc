#include "node/sandbox/message.h"

#include <bit>
#include <cstring>
#include <type_traits>

namespace lambent::sandbox {
namespace {

constexpr uint8_t kVersion = 2;

// One list of fields per type serves both directions: a Writer appends what a Reader takes.
class Writer {
 public:
  std::string take() { return std::move(bytes_); }

  template <typename Number>
  requires std::is_arithmetic_v<Number>
  void field(const Number& number) {
    char raw[sizeof(Number)];
    memcpy(raw, &number, sizeof(Number));
    bytes_.append(raw, sizeof(Number));
  }
  void field(const std::string& text) {
    field(static_cast<uint32_t>(text.size()));
    bytes_ += text;
  }
  template <typename Item>
  void list(const std::vector<Item>& items) {
    field(static_cast<uint32_t>(items.size()));
    for (const Item& item : items) fields(*this, item);
  }
  void map(const std::map<std::string, std::string>& entries) {
    field(static_cast<uint32_t>(entries.size()));
    for (const auto& [key, value] : entries) {
      field(key);
      field(value);
    }
  }

 private:
  std::string bytes_;
};

class Reader {
 public:
  explicit Reader(std::string_view bytes) : bytes_(bytes) {}
  bool good() const { return good_; }
  bool finished() const { return good_ && bytes_.empty(); }
  void fail() { good_ = false; }

  template <typename Number>
  requires std::is_arithmetic_v<Number>
  void field(Number& number) {
    if (bytes_.size() < sizeof(Number)) return fail();
    memcpy(&number, bytes_.data(), sizeof(Number));
    bytes_.remove_prefix(sizeof(Number));
  }
  void field(bool& flag) {
    uint8_t raw = 0;
    field(raw);
    if (raw > 1) fail();
    flag = raw == 1;
  }
  void field(std::string& text) {
    uint32_t size = 0;
    field(size);
    if (!good_ || size > bytes_.size()) return fail();
    text.assign(bytes_.substr(0, size));
    bytes_.remove_prefix(size);
  }
  template <typename Item>
  void list(std::vector<Item>& items) {
    uint32_t size = 0;
    field(size);
    items.clear();
    // Every item takes four bytes at least: a huge count cannot make us allocate.
    if (!good_ || size > bytes_.size() / 4) return fail();
    for (uint32_t i = 0; i < size && good_; ++i) fields(*this, items.emplace_back());
  }
  void map(std::map<std::string, std::string>& entries) {
    uint32_t size = 0;
    field(size);
    entries.clear();
    if (!good_ || size > bytes_.size() / 8) return fail();
    for (uint32_t i = 0; i < size && good_; ++i) {
      std::string key;
      field(key);
      std::string value;
      field(value);
      if (!entries.emplace(std::move(key), std::move(value)).second) fail();
    }
  }

 private:
  std::string_view bytes_;
  bool good_ = true;
};

template <typename Coder, typename T>
void count_of(Coder& coder, T& holder) {
  if constexpr (std::is_same_v<Coder, Writer>) {
    coder.field(static_cast<uint64_t>(holder.count));
  } else {
    coder.field(holder.count);
  }
}
template <typename Coder, typename T>
void duration(Coder& coder, T& value) {
  int64_t count = value.count();
  coder.field(count);
  if constexpr (std::is_same_v<Coder, Reader>) value = Duration(count);
}
template <typename Coder, typename T>
void enumeration(Coder& coder, T& value, uint8_t most) {
  uint8_t raw = static_cast<uint8_t>(value);
  coder.field(raw);
  if constexpr (std::is_same_v<Coder, Reader>) {
    if (raw > most) return coder.fail();
    value = static_cast<std::remove_reference_t<T>>(raw);
  }
}

void fields(Writer& coder, const uint32_t& number) { coder.field(number); }
void fields(Reader& coder, uint32_t& number) { coder.field(number); }
void fields(Writer& coder, const std::string& text) { coder.field(text); }
void fields(Reader& coder, std::string& text) { coder.field(text); }

template <typename Coder, typename T>
requires std::is_same_v<std::remove_const_t<T>, Bind>
void fields(Coder& coder, T& bind) {
  coder.field(bind.host_path);
  coder.field(bind.sandbox_path);
  coder.field(bind.writable);
}

template <typename Coder, typename T>
requires std::is_same_v<std::remove_const_t<T>, SandboxLimits>
void fields(Coder& coder, T& limits) {
  count_of(coder, limits.memory);
  coder.field(limits.processes);
  double cpus = limits.cpus.value_or(0);  // zero stands for none
  coder.field(cpus);
  if constexpr (std::is_same_v<Coder, Reader>) {
    if (cpus != 0) limits.cpus = cpus;
  }
  coder.field(limits.open_files);
  count_of(coder, limits.scratch);
  count_of(coder, limits.file_size);
}

template <typename Coder, typename T>
requires std::is_same_v<std::remove_const_t<T>, Capabilities>
void fields(Coder& coder, T& capabilities) {
  coder.field(capabilities.impossible);
  coder.field(capabilities.root);
  coder.field(capabilities.same_user_reason);
  coder.field(capabilities.user_namespaces);
  enumeration(coder, capabilities.cgroup, static_cast<uint8_t>(CgroupVersion::kV2));
  coder.field(capabilities.memory_cgroup);
  coder.field(capabilities.pids_cgroup);
  coder.field(capabilities.cpu_cgroup);
  coder.field(capabilities.cgroup_folder);
  coder.field(capabilities.cgroup_reason);
}

template <typename Coder, typename T>
requires std::is_same_v<std::remove_const_t<T>, Exit>
void fields(Coder& coder, T& exit) {
  coder.field(exit.exit_code);
  coder.field(exit.signal);
  coder.field(exit.out_of_memory);
  coder.field(exit.killed);
  count_of(coder, exit.memory_peak);
  duration(coder, exit.cpu);
}

// The body of every kind of message.
template <typename Coder, typename T>
void message_fields(Coder& coder, T& message) {
  using Kind = std::remove_const_t<T>;
  if constexpr (requires { message.sandbox; }) coder.field(message.sandbox.value);
  if constexpr (std::is_same_v<Kind, LaunchRequest>) {
    auto& plan = message.plan;
    coder.field(plan.sandbox.value);
    coder.list(plan.argv);
    coder.map(plan.environment);
    coder.field(plan.working_directory);
    coder.field(plan.code);
    coder.list(plan.binds);
    coder.list(plan.devices);
    coder.field(plan.hostname);
    enumeration(coder, plan.network, 0);
    coder.list(plan.processors);
    fields(coder, plan.limits);
  } else if constexpr (std::is_same_v<Kind, Hello>) {
    fields(coder, message.capabilities);
  } else if constexpr (std::is_same_v<Kind, StartedReply>) {
    coder.field(message.pid);
    duration(coder, message.elapsed);
  } else if constexpr (std::is_same_v<Kind, FailedReply>) {
    enumeration(coder, message.error.code, 16);
    coder.field(message.error.message);
  } else if constexpr (std::is_same_v<Kind, ExitedReply>) {
    fields(coder, message.exit);
  } else if constexpr (std::is_same_v<Kind, UsageReply>) {
    bool measured = message.memory.has_value();
    coder.field(measured);
    Bytes memory = message.memory.value_or(Bytes());
    count_of(coder, memory);
    coder.field(message.known);
    if constexpr (std::is_same_v<Coder, Reader>) {
      if (measured) message.memory = memory;
    }
  }
}

template <size_t index = 0>
bool decode_body(Reader& reader, uint8_t kind, Message& message) {
  if constexpr (index < std::variant_size_v<Message>) {
    if (kind != index) return decode_body<index + 1>(reader, kind, message);
    message_fields(reader, message.emplace<index>());
    return true;
  } else {
    return false;
  }
}

}  // namespace

std::string encode(const Message& message) {
  Writer writer;
  writer.field(kVersion);
  writer.field(static_cast<uint8_t>(message.index()));
  std::visit([&](const auto& body) { message_fields(writer, body); }, message);
  return writer.take();
}

Result<Message> decode(std::string_view bytes) {
  Reader reader(bytes);
  uint8_t version = 0;
  uint8_t kind = 0;
  reader.field(version);
  reader.field(kind);
  Message message;
  if (!reader.good() || version != kVersion || !decode_body(reader, kind, message) ||
      !reader.finished()) {
    return Error{ErrorCode::kInvalidArgument, "launcher message: not one whole message of kind " +
                                                  std::to_string(kind) + " and version " +
                                                  std::to_string(version)};
  }
  return message;
}

}  // namespace lambent::sandbox
