#include "core/telemetry/otlp.h"

#include <bit>

namespace lambent::telemetry {
namespace {

constexpr std::string_view kScope = "lambent";

// The fields of one protobuf message, by their numbers. Two kinds of field have no length: those of
// eight bytes, and varints.
class Message {
 public:
  void varint_field(unsigned number, uint64_t value) {
    varint(number << 3);
    varint(value);
  }
  void fixed64_field(unsigned number, uint64_t value) {
    varint((number << 3) | 1);
    for (int shift = 0; shift < 64; shift += 8) bytes_ += static_cast<char>(value >> shift);
  }
  void bytes_field(unsigned number, std::string_view value) {
    varint((number << 3) | 2);
    varint(value.size());
    bytes_ += value;
  }
  void message_field(unsigned number, const Message& value) { bytes_field(number, value.bytes_); }
  std::string take() { return std::move(bytes_); }

 private:
  void varint(uint64_t value) {
    for (; value >= 0x80; value >>= 7) bytes_ += static_cast<char>(value | 0x80);
    bytes_ += static_cast<char>(value);
  }

  std::string bytes_;
};

// Texts of protobuf are UTF-8, and functions' names and words need not be: what is not is '?'.
std::string utf8(std::string_view text) {
  std::string made;
  for (size_t i = 0; i < text.size();) {
    const auto lead = static_cast<unsigned char>(text[i]);
    const size_t length = lead < 0x80   ? 1
                          : lead < 0xC2 ? 0
                          : lead < 0xE0 ? 2
                          : lead < 0xF0 ? 3
                          : lead < 0xF5 ? 4
                                        : 0;
    bool good = length > 0 && i + length <= text.size();
    for (size_t k = 1; good && k < length; ++k) {
      const auto next = static_cast<unsigned char>(text[i + k]);
      // The second byte also keeps out what is too long, a surrogate, or beyond Unicode.
      const unsigned low = k > 1 ? 0x80 : lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
      const unsigned high = k > 1 ? 0xBF : lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
      good = next >= low && next <= high;
    }
    made += good ? text.substr(i, length) : std::string_view("?");
    i += good ? length : 1;
  }
  return made;
}

std::string bytes_of(std::string_view hex) {
  const auto digit = [](char c) {
    return static_cast<unsigned>(c <= '9' ? c - '0' : c - 'a' + 10);
  };
  std::string bytes;
  for (size_t i = 0; i + 1 < hex.size(); i += 2) {
    bytes += static_cast<char>(digit(hex[i]) << 4 | digit(hex[i + 1]));
  }
  return bytes;
}

uint64_t nanoseconds_of(Duration since_epoch) {
  return since_epoch.count() > 0 ? static_cast<uint64_t>(since_epoch.count()) : 0;
}

Message any_value(const Attribute& attribute) {
  Message value;
  if (const auto* text = std::get_if<std::string>(&attribute.second)) {
    value.bytes_field(1, utf8(*text));
  } else if (const auto* truth = std::get_if<bool>(&attribute.second)) {
    value.varint_field(2, *truth ? 1 : 0);
  } else if (const auto* whole = std::get_if<int64_t>(&attribute.second)) {
    value.varint_field(3, static_cast<uint64_t>(*whole));
  } else {
    value.fixed64_field(4, std::bit_cast<uint64_t>(std::get<double>(attribute.second)));
  }
  return value;
}

void add_attributes(Message& to, unsigned number, const Attributes& attributes) {
  for (const Attribute& each : attributes) {
    Message pair;
    pair.bytes_field(1, each.first);
    pair.message_field(2, any_value(each));
    to.message_field(number, pair);
  }
}

Message message_of(const Span& span) {
  Message message;
  message.bytes_field(1, bytes_of(span.trace));
  message.bytes_field(2, bytes_of(span.id));
  if (!span.parent.empty()) message.bytes_field(4, bytes_of(span.parent));
  message.bytes_field(5, utf8(span.name));
  message.varint_field(6, static_cast<uint64_t>(span.kind));
  message.fixed64_field(7, nanoseconds_of(span.begin));
  message.fixed64_field(8, nanoseconds_of(span.end));
  add_attributes(message, 9, span.attributes);
  if (span.failed) {
    Message status;
    status.bytes_field(2, utf8(span.message));
    status.varint_field(3, 2);
    message.message_field(15, status);
  }
  return message;
}

Message message_of(const LogRecord& record) {
  Message message;
  message.fixed64_field(1, nanoseconds_of(record.at));
  message.varint_field(2, static_cast<uint64_t>(record.severity));
  message.message_field(5, any_value({"", record.event}));
  add_attributes(message, 6, record.attributes);
  message.fixed64_field(11, nanoseconds_of(record.at));
  return message;
}

// All of one resource and one scope.
template <typename Item>
std::string request_of(const Attributes& resource, const std::vector<Item>& items) {
  Message about;
  add_attributes(about, 1, resource);
  Message scope;
  scope.bytes_field(1, kScope);
  Message of_scope;
  of_scope.message_field(1, scope);
  for (const Item& each : items) of_scope.message_field(2, message_of(each));
  Message of_resource;
  of_resource.message_field(1, about);
  of_resource.message_field(2, of_scope);
  Message request;
  request.message_field(1, of_resource);
  return request.take();
}

}  // namespace

std::string traces_request(const Attributes& resource, const std::vector<Span>& spans) {
  return request_of(resource, spans);
}

std::string logs_request(const Attributes& resource, const std::vector<LogRecord>& records) {
  return request_of(resource, records);
}

}  // namespace lambent::telemetry
