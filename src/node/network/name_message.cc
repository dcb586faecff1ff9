#include "node/network/name_message.h"

#include <algorithm>
#include <cctype>
#include <cstring>
#include <optional>
#include <sstream>

#include "node/network/limits.h"

namespace lambent::network {
namespace {

constexpr size_t kHeader = 12;
constexpr size_t kNameLength = 253;
constexpr size_t kLabelLength = 63;
constexpr uint16_t kInternet = 1;
constexpr uint16_t kIsAnswer = 0x8000;
constexpr uint16_t kOperation = 0x7800;
constexpr uint16_t kCut = 0x0200;
constexpr uint16_t kRecursionDesired = 0x0100;
constexpr uint16_t kRecursionAvailable = 0x0080;
constexpr size_t kRecords = 64;  // of an answer that are looked at
constexpr size_t kServers = 3;

Error invalid(const char* what) {
  return Error{ErrorCode::kInvalidArgument, std::string("a message about names ") + what};
}

class Reader {
 public:
  explicit Reader(std::string_view bytes) : bytes_(bytes) {}

  bool ok() const { return ok_; }
  size_t at() const { return at_; }
  std::string_view rest_of(size_t from) const { return bytes_.substr(from, at_ - from); }

  std::string_view take(size_t size) {
    if (bytes_.size() - at_ < size) return fail();
    at_ += size;
    return bytes_.substr(at_ - size, size);
  }
  uint16_t u16() {
    const std::string_view two = take(2);
    if (two.empty()) return 0;
    return static_cast<uint16_t>(static_cast<uint8_t>(two[0]) << 8 | static_cast<uint8_t>(two[1]));
  }
  uint32_t u32() {
    const uint32_t high = u16();
    return high << 16 | u16();
  }
  // A name that is written out; its letters in lower case.
  std::string name() {
    std::string name;
    while (ok_) {
      const std::string_view length = take(1);
      if (length.empty() || length[0] == 0) break;
      const auto size = static_cast<uint8_t>(length[0]);
      if (size > kLabelLength) return fail();
      const std::string_view label = take(size);
      // Its text has to be one that rules can be about.
      const bool plain = std::ranges::all_of(
          label, [](unsigned char c) { return c > ' ' && c < 127 && c != '.'; });
      if (!plain || name.size() + size > kNameLength) return fail();
      if (!name.empty()) name += '.';
      for (const char c : label) {
        name += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
      }
    }
    return name;
  }
  // One that may end in a reference to another place, which is not followed.
  void skip_name() {
    while (ok_) {
      const std::string_view length = take(1);
      if (length.empty() || length[0] == 0) return;
      const auto size = static_cast<uint8_t>(length[0]);
      if (size > kLabelLength) {
        take(1);
        return;
      }
      take(size);
    }
  }

 private:
  std::string fail() {
    ok_ = false;
    at_ = bytes_.size();
    return {};
  }

  std::string_view bytes_;
  size_t at_ = 0;
  bool ok_ = true;
};

void put16(std::string& to, uint16_t number) {
  to += static_cast<char>(number >> 8);
  to += static_cast<char>(number & 0xff);
}

void put32(std::string& to, uint32_t number) {
  put16(to, static_cast<uint16_t>(number >> 16));
  put16(to, static_cast<uint16_t>(number & 0xffff));
}

std::optional<NameQuestion> read_question(Reader& reader) {
  NameQuestion question;
  const size_t start = reader.at();
  question.name = reader.name();
  question.type = reader.u16();
  const uint16_t what_class = reader.u16();
  if (!reader.ok() || question.name.empty() || what_class != kInternet) return std::nullopt;
  question.as_asked = std::string(reader.rest_of(start));
  return question;
}

}  // namespace

Result<NameQuestion> parse_name_question(std::string_view bytes) {
  Reader reader(bytes);
  const uint16_t id = reader.u16();
  const uint16_t flags = reader.u16();
  const uint16_t questions = reader.u16();
  reader.take(kHeader - 6);
  if (!reader.ok() || (flags & (kIsAnswer | kOperation)) != 0 || questions != 1) {
    return invalid("is not one question");
  }
  auto question = read_question(reader);
  if (!question) return invalid("has a bad question");
  question->id = id;
  question->recursion_desired = (flags & kRecursionDesired) != 0;
  return *std::move(question);
}

std::string write_name_question(const NameQuestion& question, uint16_t id) {
  std::string bytes;
  put16(bytes, id);
  put16(bytes, kRecursionDesired);
  put16(bytes, 1);
  bytes.append(6, '\0');
  return bytes + question.as_asked;
}

Result<NameAnswer> parse_name_answer(std::string_view bytes) {
  Reader reader(bytes);
  NameAnswer answer;
  answer.id = reader.u16();
  const uint16_t flags = reader.u16();
  const uint16_t questions = reader.u16();
  const uint16_t records = reader.u16();
  reader.take(4);
  if (!reader.ok() || (flags & kIsAnswer) == 0 || questions != 1) {
    return invalid("is not an answer to one question");
  }
  auto question = read_question(reader);
  if (!question) return invalid("has a bad question");
  answer.question = *std::move(question);
  answer.is_cut = (flags & kCut) != 0;
  const unsigned code = flags & 0xf;
  answer.outcome = code == 0   ? NameOutcome::kAnswered
                   : code == 3 ? NameOutcome::kUnknown
                               : NameOutcome::kServerFailed;
  for (size_t i = 0; i < std::min<size_t>(records, kRecords); ++i) {
    reader.skip_name();
    const uint16_t type = reader.u16();
    const uint16_t what_class = reader.u16();
    const uint32_t life = reader.u32();
    const std::string_view data = reader.take(reader.u16());
    if (!reader.ok()) break;  // what a cut message has of it counts
    if (what_class != kInternet || type != answer.question.type) continue;
    if (answer.addresses.size() >= limits::kNetworkNameAnswers) break;
    if (type == kTypeV4 && data.size() == 4) {
      uint32_t number = 0;
      for (const char c : data) number = number << 8 | static_cast<uint8_t>(c);
      answer.addresses.push_back({IpAddress::v4(number), seconds(life)});
    } else if (type == kTypeV6 && data.size() == 16) {
      answer.addresses.push_back({IpAddress::v6(data.data()), seconds(life)});
    }
  }
  return answer;
}

std::string write_name_answer(const NameQuestion& question, NameOutcome outcome,
                              const std::vector<NamedAddress>& addresses) {
  std::string bytes;
  put16(bytes, question.id);
  put16(bytes, static_cast<uint16_t>(kIsAnswer | kRecursionAvailable |
                                     (question.recursion_desired ? kRecursionDesired : 0) |
                                     static_cast<unsigned>(outcome)));
  put16(bytes, 1);
  put16(bytes, static_cast<uint16_t>(addresses.size()));
  put32(bytes, 0);
  bytes += question.as_asked;
  for (const NamedAddress& each : addresses) {
    const bool four = question.type == kTypeV4;
    put16(bytes, 0xc000 | kHeader);  // the name of the question
    put16(bytes, question.type);
    put16(bytes, kInternet);
    put32(bytes, static_cast<uint32_t>(to_seconds(each.life)));
    put16(bytes, four ? 4 : 16);
    const auto* data = reinterpret_cast<const char*>(each.address.bytes.data());
    bytes.append(data + (four ? 12 : 0), four ? 4 : 16);
  }
  return bytes;
}

std::vector<IpAddress> parse_name_servers(std::string_view text) {
  std::vector<IpAddress> servers;
  std::istringstream lines{std::string(text)};
  for (std::string line; std::getline(lines, line) && servers.size() < kServers;) {
    std::istringstream words(line);
    std::string key, value;
    words >> key >> value;
    if (key != "nameserver") continue;
    if (const auto address = parse_ip_address(value)) servers.push_back(*address);
  }
  if (servers.empty()) servers.push_back(IpAddress::v4(0x7f000001));
  return servers;
}

}  // namespace lambent::network
