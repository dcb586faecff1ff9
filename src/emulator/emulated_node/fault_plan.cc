#include "emulator/emulated_node/fault_plan.h"

#include <cmath>
#include <cstdlib>
#include <optional>
#include <utility>

#include "gpu/cuda_abi/driver_types.h"

namespace lambent::emulated_node {

namespace {

struct ResultCode {
  const char* name;
  int code;
};
const ResultCode kCodes[] = {
#define DRIVER_RESULT(name, value, description) {#name, value},
#include "gpu/cuda_abi/driver_results.inc"
#undef DRIVER_RESULT
};

// The words of one line, taken from the front; the first mistake is kept.
class Words {
 public:
  explicit Words(std::string_view line) {
    line = line.substr(0, line.find('#'));
    for (size_t at = 0; at < line.size();) {
      size_t begin = line.find_first_not_of(" \t\r", at);
      if (begin == line.npos) break;
      at = std::min(line.find_first_of(" \t\r", begin), line.size());
      words_.emplace_back(line.substr(begin, at - begin));
    }
  }
  bool empty() const { return next_ == words_.size(); }
  std::string take(const char* what) {
    if (!empty()) return words_[next_++];
    fail(std::string("it ends where ") + what + " is missing");
    return "";
  }
  void expect(const std::string& word) {
    std::string found = take(("'" + word + "'").c_str());
    if (found != word) fail("'" + word + "' is missing before '" + found + "'");
  }
  uint64_t count(const char* what) {
    std::string text = take(what);
    char* end = nullptr;
    unsigned long long value = std::strtoull(text.c_str(), &end, 10);
    bool digits = text.find_first_not_of("0123456789") == text.npos && !text.empty();
    if (!digits || text.size() > 18 || value == 0) fail("'" + text + "' is no positive number");
    return value;
  }
  void fail(const std::string& why) {
    if (error_.empty()) error_ = why;
  }
  const std::string& error() const { return error_; }

 private:
  std::vector<std::string> words_;
  size_t next_ = 0;
  std::string error_;
};

std::string function_name(Words& words) {
  std::string name = words.take("the name of a function");
  bool plain = name.size() > 2 && name.size() < 96 && name.starts_with("cu");
  for (char c : name) plain = plain && (std::isalnum(static_cast<unsigned char>(c)) || c == '_');
  if (!plain) words.fail("'" + name + "' is no function of the driver");
  return name;
}

void read_when(Words& words, Fault* fault) {
  std::string when = words.take("'call', 'every' or 'from'");
  if (when == "every") {
    fault->when = FaultWhen::kEvery;
  } else if (when == "from") {
    fault->when = FaultWhen::kFrom;
  } else if (when != "call") {
    words.fail("'" + when + "' is not 'call', 'every' or 'from'");
  }
  fault->number = words.count("a number of calls");
}

int read_code(Words& words) {
  std::string name = words.take("a result code");
  for (const ResultCode& result : kCodes) {
    if (name == result.name && result.code != 0) return result.code;
  }
  words.fail("'" + name + "' is no error of the driver");
  return 0;
}

int64_t read_duration(Words& words) {
  std::string text = words.take("a duration");
  char* unit = nullptr;
  double value = std::strtod(text.c_str(), &unit);
  double scale = 0;
  for (auto [name, ns] : {std::pair{"ns", 1.0}, {"us", 1e3}, {"ms", 1e6}, {"s", 1e9}}) {
    if (std::string_view(name) == unit) scale = ns;
  }
  bool good = unit != text.c_str() && scale > 0 && std::isfinite(value) && value >= 0;
  if (!good || value * scale > 3.6e12) {
    words.fail("'" + text + "' is no duration such as 200us, at most an hour");
    return 0;
  }
  return static_cast<int64_t>(value * scale);
}

std::optional<FaultAction> device_action(const std::string& word) {
  for (auto [name, action] : {std::pair{"lose", FaultAction::kLose},
                              {"corrupt", FaultAction::kCorrupt},
                              {"report", FaultAction::kReport},
                              {"stick", FaultAction::kStick},
                              {"slow", FaultAction::kSlow},
                              {"reset", FaultAction::kReset}}) {
    if (word == name) return action;
  }
  return std::nullopt;
}

void read_device_fault(Words& words, FaultAction action, Fault* fault) {
  fault->action = action;
  words.expect("device");
  std::string device = words.take("the number of a device");
  bool number = !device.empty() && device.size() <= 2 &&
                device.find_first_not_of("0123456789") == device.npos;
  if (number) fault->device = std::atoi(device.c_str());
  if (!number) words.fail("'" + device + "' is no number of a device");
  if (action == FaultAction::kSlow) {
    words.expect("by");
    std::string factor = words.take("a factor");
    char* end = nullptr;
    fault->factor = std::strtod(factor.c_str(), &end);
    bool good = end != factor.c_str() && *end == '\0' && fault->factor > 0 && fault->factor <= 1e6;
    if (!good) words.fail("'" + factor + "' is no factor");
  }
  if (action == FaultAction::kReport) {
    words.expect("xid");
    fault->xid = words.count("the number of an Xid");
  }
  if (words.empty()) return;
  words.expect("on");
  fault->call = function_name(words);
  read_when(words, fault);
}

Fault read_fault(Words& words) {
  Fault fault;
  std::string action = words.take("an action");
  if (action == "fail") {
    fault.call = function_name(words);
    read_when(words, &fault);
    words.expect("with");
    fault.code = read_code(words);
  } else if (action == "delay") {
    fault.action = FaultAction::kDelay;
    fault.call = function_name(words);
    read_when(words, &fault);
    words.expect("by");
    fault.delay_ns = read_duration(words);
  } else if (std::optional<FaultAction> known = device_action(action)) {
    read_device_fault(words, *known, &fault);
  } else {
    words.fail("'" + action + "' is no action");
  }
  if (!words.empty()) words.fail("'" + words.take("nothing") + "' is too much");
  return fault;
}

}  // namespace

bool strikes(const Fault& fault, uint64_t number) {
  switch (fault.when) {
    case FaultWhen::kCall:
      return number == fault.number;
    case FaultWhen::kEvery:
      return number % fault.number == 0;
    case FaultWhen::kFrom:
      return number >= fault.number;
  }
  return false;
}

bool parse_fault_plan(std::string_view text, std::vector<Fault>* plan, std::string* error) {
  plan->clear();
  if (text.size() > kMaxFaultPlanBytes) {
    *error = "a fault plan has at most " + std::to_string(kMaxFaultPlanBytes) + " bytes";
    return false;
  }
  for (int number = 1; !text.empty(); number++) {
    size_t end = std::min(text.find_first_of("\n;"), text.size());
    Words words(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
    if (words.empty()) continue;
    Fault fault = read_fault(words);
    if (words.error().empty() && plan->size() == kMaxFaults) words.fail("too many faults");
    if (!words.error().empty()) {
      *error = "fault " + std::to_string(number) + ": " + words.error();
      return false;
    }
    plan->push_back(std::move(fault));
  }
  return true;
}

}  // namespace lambent::emulated_node
