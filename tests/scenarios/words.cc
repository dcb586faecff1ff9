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
    if (c == '"') {
      quoted = !quoted;
      begun = true;
      continue;
    }
    if (!quoted && std::isspace(static_cast<unsigned char>(c))) {
      if (begun) words_.push_back(word);
      word.clear();
      begun = false;
      continue;
    }
    word += c;
    begun = true;
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
