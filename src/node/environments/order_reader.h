// OrderReader: reads the members of an order or a report, and remembers whether one was missing or
// of another type. Used where they are parsed; any thread.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace lambent::environments {

class OrderReader {
 public:
  explicit OrderReader(std::string_view text)
      : object_(nlohmann::json::parse(text, nullptr, false)) {}

  void read(const char* key, std::string& to) {
    const nlohmann::json* value = find(key);
    if (value != nullptr && value->is_string()) {
      to = value->get<std::string>();
    } else {
      good_ = false;
    }
  }
  void read(const char* key, bool& to) {
    const nlohmann::json* value = find(key);
    if (value != nullptr && value->is_boolean()) {
      to = value->get<bool>();
    } else {
      good_ = false;
    }
  }
  void read(const char* key, uint64_t& to) {
    const nlohmann::json* value = find(key);
    if (value != nullptr && value->is_number_unsigned()) {
      to = value->get<uint64_t>();
    } else {
      good_ = false;
    }
  }
  void read(const char* key, std::vector<std::string>& to) {
    const nlohmann::json* value = find(key);
    if (value == nullptr || !value->is_array()) {
      good_ = false;
      return;
    }
    for (const nlohmann::json& one : *value) {
      if (!one.is_string()) {
        good_ = false;
        return;
      }
      to.push_back(one.get<std::string>());
    }
  }
  bool good() const { return good_; }

 private:
  const nlohmann::json* find(const char* key) const {
    if (!object_.is_object()) return nullptr;
    const auto found = object_.find(key);
    return found == object_.end() ? nullptr : &*found;
  }

  const nlohmann::json object_;
  bool good_ = true;
};

}  // namespace lambent::environments
