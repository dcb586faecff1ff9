#include "tests/scenarios/words.h"

#include <cctype>
#include <cstdio>

namespace lambent::scenario {

Words::Words(const std::string& line) {
  std::string word;
  bool quoted = false;
  bool begun = false;
  for (const char c : line) {
    if (c == '#' && !quoted) break;
    line_ += c;
    if (!quoted && std::isspace(static_cast<unsigned char>(c))) {
      if (begun) words_.push_back(word);
      word.clear();
      begun = false;
      continue;
    }
    if (!begun) begins_.push_back(line_.size() - 1);
    begun = true;
    if (c == '"') {
      quoted = !quoted;
    } else {
      word += c;
    }
  }
  if (quoted) throw Failure("a quotation is not closed");
  if (begun) words_.push_back(word);
}

bool Words::take(const std::string& word) {
  if (!next_is(word)) return false;
  ++next_;
  return true;
}

std::string Words::take_any() {
  if (done()) throw Failure("the line ends too early");
  return words_[next_++];
}

void Words::expect(const std::string& word) {
  if (!take(word)) {
    throw Failure("'" + word + "' should stand before '" + (done() ? "the end" : words_[next_]) +
                  "'");
  }
}

std::string Words::rest() {
  if (done()) throw Failure("the line ends too early");
  const std::string rest = line_.substr(begins_[next_]);
  next_ = words_.size();
  return rest.substr(0, rest.find_last_not_of(" \t\r") + 1);
}

Duration Words::duration() {
  const std::string word = take_any();
  size_t used = 0;
  double amount = 0;
  try {
    amount = std::stod(word, &used);
  } catch (const std::exception&) {
    throw Failure("'" + word + "' is no time");
  }
  const std::string unit = word.substr(used);
  if (unit == "us") return from_seconds(amount * 1e-6);
  if (unit == "ms") return from_seconds(amount * 1e-3);
  if (unit == "s") return from_seconds(amount);
  if (unit == "min") return from_seconds(amount * 60);
  throw Failure("'" + word + "' is no time");
}

Bytes Words::bytes() {
  const auto bytes = parse_bytes(take_any());
  if (!bytes.ok()) throw Failure(bytes.error().message);
  return *bytes;
}

double Words::number() {
  const std::string word = take_any();
  try {
    return std::stod(word);
  } catch (const std::exception&) {
    throw Failure("'" + word + "' is no number");
  }
}

uint64_t Words::count() { return static_cast<uint64_t>(number()); }

std::string in_words(Duration duration) {
  char text[32];
  std::snprintf(text, sizeof(text), "%gs", to_seconds(duration));
  return text;
}

}  // namespace lambent::scenario
