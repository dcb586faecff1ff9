// Messages of the domain name system, as far as a sandbox may ask: one question for the addresses
// of a name. Pure; any thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.h"
#include "core/base/time.h"
#include "core/domain/ip_address.h"

namespace lambent::network {

struct NameQuestion {
  uint16_t id = 0;
  bool recursion_desired = true;
  std::string name;      // in lower case, without a dot at its end
  uint16_t type = 0;     // 1: IPv4, 28: IPv6; others have no answer
  std::string as_asked;  // the question as bytes: its letters come back as they were

  bool operator==(const NameQuestion&) const = default;
};

constexpr uint16_t kTypeV4 = 1;
constexpr uint16_t kTypeV6 = 28;

enum class NameOutcome : uint8_t { kAnswered = 0, kServerFailed = 2, kUnknown = 3 };

struct NamedAddress {
  IpAddress address;
  Duration life{};

  bool operator==(const NamedAddress&) const = default;
};

struct NameAnswer {
  uint16_t id = 0;
  NameOutcome outcome = NameOutcome::kAnswered;
  bool is_cut = false;
  NameQuestion question;
  std::vector<NamedAddress> addresses;  // at most limits::kNetworkNameAnswers

  bool operator==(const NameAnswer&) const = default;
};

// INVALID_ARGUMENT: not one question of the internet's class.
Result<NameQuestion> parse_name_question(std::string_view bytes);
// A question of ours about the same, with an id of ours and nothing else of what the sandbox wrote.
std::string write_name_question(const NameQuestion& question, uint16_t id);
Result<NameAnswer> parse_name_answer(std::string_view bytes);
// To the sandbox: the question, and these addresses of its type.
std::string write_name_answer(const NameQuestion& question, NameOutcome outcome,
                              const std::vector<NamedAddress>& addresses);

// The addresses after "nameserver" of a resolv.conf, at most three, as resolvers read it.
std::vector<IpAddress> parse_name_servers(std::string_view text);

}  // namespace lambent::network
