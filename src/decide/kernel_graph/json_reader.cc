#include "decide/kernel_graph/json_reader.h"

#include <charconv>

#include "core/domain/limits.h"

namespace lambent::kernel_graph {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }

void append_utf8(uint32_t point, std::string& out) {
  if (point < 0x80) {
    out += static_cast<char>(point);
  } else if (point < 0x800) {
    out += static_cast<char>(0xc0 | point >> 6);
    out += static_cast<char>(0x80 | (point & 63));
  } else if (point < 0x10000) {
    out += static_cast<char>(0xe0 | point >> 12);
    out += static_cast<char>(0x80 | (point >> 6 & 63));
    out += static_cast<char>(0x80 | (point & 63));
  } else {
    out += static_cast<char>(0xf0 | point >> 18);
    out += static_cast<char>(0x80 | (point >> 12 & 63));
    out += static_cast<char>(0x80 | (point >> 6 & 63));
    out += static_cast<char>(0x80 | (point & 63));
  }
}

// The four hexadecimal digits of \uXXXX at the start of `text`.
bool read_unit(std::string_view text, uint32_t& unit) {
  if (text.size() < 4) return false;
  const auto [end, error] = std::from_chars(text.data(), text.data() + 4, unit, 16);
  return error == std::errc() && end == text.data() + 4;
}

}  // namespace

JsonReader::Kind JsonReader::next_kind() {
  skip_space();
  if (failed() || at_ == text_.size()) return Kind::kNothing;
  const char c = text_[at_];
  if (c == '{') return Kind::kObject;
  if (c == '[') return Kind::kArray;
  if (c == '"') return Kind::kString;
  if (c == '-' || is_digit(c)) return Kind::kNumber;
  if (c >= 'a' && c <= 'z') return Kind::kWord;
  return Kind::kNothing;
}

bool JsonReader::enter(char bracket) {
  return expect(bracket, bracket == '{' ? "an object is missing" : "a list is missing");
}

bool JsonReader::next_key(bool& first, std::string_view& key) {
  skip_space();
  if (failed()) return false;
  if (at_ < text_.size() && text_[at_] == '}') {
    ++at_;
    return false;
  }
  if (!first && !expect(',', "',' or '}' is missing")) return false;
  first = false;
  return string(key) && expect(':', "':' is missing");
}

bool JsonReader::next_element(bool& first) {
  skip_space();
  if (failed()) return false;
  if (at_ < text_.size() && text_[at_] == ']') {
    // Not after a comma: that was read together with the element before.
    ++at_;
    return false;
  }
  if (!first) {
    if (!expect(',', "',' or ']' is missing")) return false;
    skip_space();
  }
  first = false;
  if (at_ == text_.size() || text_[at_] == ']') return fail("a value is missing");
  return true;
}

bool JsonReader::string(std::string_view& value) {
  bool plain = true;
  if (!quoted(value, plain)) return false;
  if (plain) return true;
  if (!unescape(value)) return fail("a string has a wrong escape");
  value = unescaped_;
  return true;
}

std::string_view JsonReader::scalar() {
  switch (next_kind()) {
    case Kind::kNumber:
      return number();
    case Kind::kWord:
      return word();
    case Kind::kString: {
      std::string_view inside;
      bool plain = true;
      const size_t begin = at_;
      return quoted(inside, plain) ? text_.substr(begin, at_ - begin) : std::string_view();
    }
    case Kind::kObject:
    case Kind::kArray:
    case Kind::kNothing:
      break;
  }
  return {};
}

bool JsonReader::skip() {
  // The brackets that are open.
  char open[limits::kJsonDepth];
  size_t depth = 0;
  bool first = true;
  for (;;) {
    // One value begins here, with its key behind it.
    const Kind kind = next_kind();
    if (kind == Kind::kObject || kind == Kind::kArray) {
      if (depth == limits::kJsonDepth) return fail("it is nested too deep");
      open[depth++] = text_[at_++];
      first = true;
    } else {
      if (kind == Kind::kString) {
        std::string_view ignored;
        if (!string(ignored)) return false;
      } else if (scalar().empty()) {
        return fail("a value is missing");
      }
      first = false;
    }
    // On to the next value, out of all that ends here.
    for (;;) {
      if (depth == 0) return !failed();
      std::string_view key;
      if (open[depth - 1] == '{' ? next_key(first, key) : next_element(first)) break;
      if (failed()) return false;
      --depth;
      first = false;
    }
  }
}

bool JsonReader::at_end() {
  skip_space();
  return !failed() && at_ == text_.size();
}

std::string JsonReader::problem() const {
  return "at byte " + std::to_string(problem_at_) + ": " +
         (problem_ == nullptr ? "nothing is wrong" : problem_);
}

bool JsonReader::fail(const char* problem) {
  if (!failed()) {
    problem_ = problem;
    problem_at_ = at_;
  }
  return false;
}

void JsonReader::skip_space() {
  while (at_ < text_.size() &&
         (text_[at_] == ' ' || text_[at_] == '\n' || text_[at_] == '\r' || text_[at_] == '\t')) {
    ++at_;
  }
}

bool JsonReader::expect(char c, const char* problem) {
  skip_space();
  if (failed()) return false;
  if (at_ == text_.size() || text_[at_] != c) return fail(problem);
  ++at_;
  return true;
}

std::string_view JsonReader::number() {
  size_t at = at_;
  const auto digits = [&] {
    const size_t begin = at;
    while (at < text_.size() && is_digit(text_[at])) ++at;
    return at - begin;
  };
  const auto take = [&](char a, char b) {
    if (at == text_.size() || (text_[at] != a && text_[at] != b)) return false;
    ++at;
    return true;
  };
  take('-', '-');
  const size_t first = at;
  const size_t whole = digits();
  bool right = whole > 0 && (whole == 1 || text_[first] != '0');
  if (right && take('.', '.')) right = digits() > 0;
  if (right && take('e', 'E')) {
    take('+', '-');
    right = digits() > 0;
  }
  if (!right) {
    fail("this is no number");
    return {};
  }
  const std::string_view token = text_.substr(at_, at - at_);
  at_ = at;
  return token;
}

std::string_view JsonReader::word() {
  for (const std::string_view known : {"true", "false", "null"}) {
    if (text_.substr(at_).starts_with(known)) {
      at_ += known.size();
      return text_.substr(at_ - known.size(), known.size());
    }
  }
  fail("this is no word of JSON");
  return {};
}

bool JsonReader::quoted(std::string_view& inside, bool& plain) {
  if (!expect('"', "a string is missing")) return false;
  const size_t begin = at_;
  for (; at_ < text_.size(); ++at_) {
    const char c = text_[at_];
    if (c == '"') {
      inside = text_.substr(begin, at_ - begin);
      ++at_;
      return true;
    }
    if (static_cast<unsigned char>(c) < 0x20) return fail("a string has a control character");
    if (c == '\\') {
      plain = false;
      if (++at_ == text_.size()) break;
    }
  }
  return fail("a string does not end");
}

bool JsonReader::unescape(std::string_view inside) {
  unescaped_.clear();
  while (!inside.empty()) {
    const char c = inside.front();
    inside.remove_prefix(1);
    if (c != '\\') {
      unescaped_ += c;
      continue;
    }
    constexpr std::string_view kLetters = "\"\\/bfnrt";
    constexpr std::string_view kMeanings = "\"\\/\b\f\n\r\t";
    const char letter = inside.front();
    inside.remove_prefix(1);
    if (const size_t known = kLetters.find(letter); known != std::string_view::npos) {
      unescaped_ += kMeanings[known];
      continue;
    }
    uint32_t point = 0;
    if (letter != 'u' || !read_unit(inside, point)) return false;
    inside.remove_prefix(4);
    if (point >= 0xd800 && point < 0xdc00) {
      uint32_t low = 0;
      if (!inside.starts_with("\\u") || !read_unit(inside.substr(2), low)) return false;
      if (low < 0xdc00 || low >= 0xe000) return false;
      inside.remove_prefix(6);
      point = 0x10000 + ((point - 0xd800) << 10) + (low - 0xdc00);
    } else if (point >= 0xdc00 && point < 0xe000) {
      return false;
    }
    append_utf8(point, unescaped_);
  }
  return true;
}

}  // namespace lambent::kernel_graph
