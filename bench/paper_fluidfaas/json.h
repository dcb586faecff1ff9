// The bench's last line: numbers, and members or elements joined. Values.
#pragma once

#include <cmath>
#include <cstdio>
#include <string>

namespace lambent::paper_fluidfaas {

inline std::string number(double value) {
  if (!std::isfinite(value)) return "null";  // a ratio to nothing
  char text[32];
  std::snprintf(text, sizeof(text), "%.4g", value);
  return text;
}

// Members of a JSON object or elements of a list.
class Joined {
 public:
  Joined& add(const std::string& name, const std::string& value) {
    return add("\"" + name + "\":" + value);
  }
  Joined& add(const std::string& name, double value) { return add(name, number(value)); }
  Joined& add(const std::string& value) {
    text_ += (text_.empty() ? "" : ",") + value;
    return *this;
  }
  std::string object() const { return "{" + text_ + "}"; }
  std::string list() const { return "[" + text_ + "]"; }

 private:
  std::string text_;
};

}  // namespace lambent::paper_fluidfaas
