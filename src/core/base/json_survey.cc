#include "core/base/json_survey.h"

#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace lambent {
namespace {

constexpr size_t kShownLength = 64;  // of a key

class Survey : public nlohmann::json_sax<nlohmann::json> {
 public:
  explicit Survey(const JsonSurvey& options) : options_(options) {}

  // What is wrong; nothing if all is well.
  const std::optional<Error>& problem() const { return problem_; }

  bool null() override { return value(); }
  bool boolean(bool) override { return value(); }
  bool number_integer(number_integer_t) override { return value(); }
  bool number_unsigned(number_unsigned_t) override { return value(); }
  bool number_float(number_float_t, const string_t&) override { return value(); }
  bool string(string_t&) override { return value(); }
  bool binary(binary_t&) override { return value(); }
  bool start_object(size_t) override { return open(); }
  bool end_object() override { return close(); }
  bool start_array(size_t) override { return open(); }
  bool end_array() override { return close(); }
  bool parse_error(size_t position, const std::string&,
                   const nlohmann::detail::exception&) override {
    problem_ =
        Error{ErrorCode::kInvalidArgument,
              std::string(options_.subject) + " is no JSON, at byte " + std::to_string(position)};
    return false;
  }

  bool key(string_t& key) override {
    Open& object = open_.back();
    object.key = key.substr(0, kShownLength);
    if (object.keys.size() == options_.most_keys) {
      return refuse("an object has more than " + std::to_string(options_.most_keys) + " keys");
    }
    if (object.keys.insert(key).second) return true;
    return refuse("an object has '" + object.key + "' twice");
  }

 private:
  // An object or a list that has not ended.
  struct Open {
    std::set<std::string> keys;
    std::string key;    // the last one, cut
    size_t values = 0;  // the last one included
  };

  bool value() {
    if (!open_.empty()) ++open_.back().values;
    return true;
  }
  bool open() {
    value();
    if (open_.size() == options_.most_depth) {
      return refuse("it is nested more than " + std::to_string(options_.most_depth) + " deep");
    }
    open_.emplace_back();
    return true;
  }
  bool close() {
    open_.pop_back();
    return true;
  }
  // The innermost one is where it is; those around it say how one gets there.
  bool refuse(const std::string& what) {
    std::string place;
    for (size_t i = 0; i + 1 < open_.size(); ++i) {
      const Open& each = open_[i];
      if (each.keys.empty()) {
        place += "[" + std::to_string(each.values - 1) + "]";
      } else {
        place += (place.empty() ? "" : ".") + each.key;
      }
    }
    problem_ = Error{ErrorCode::kInvalidArgument,
                     (place.empty() ? std::string(options_.subject) : place) + ": " + what};
    return false;
  }

  const JsonSurvey& options_;
  std::vector<Open> open_;
  std::optional<Error> problem_;
};

}  // namespace

Result<void> survey_json(std::string_view text, const JsonSurvey& options) {
  // The library takes it for the end of the text, and would not look at what follows.
  if (const size_t zero = text.find('\0'); zero != std::string_view::npos) {
    return Error{ErrorCode::kInvalidArgument, std::string(options.subject) +
                                                  " is no JSON: a zero byte at byte " +
                                                  std::to_string(zero + 1)};
  }
  Survey survey(options);
  nlohmann::json::sax_parse(text, &survey);
  if (survey.problem()) return *survey.problem();
  return {};
}

bool json_nests_at_most(std::string_view text, size_t most) {
  size_t depth = 0;
  bool in_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      if (c == '\\') ++i;
      if (c == '"') in_string = false;
    } else if (c == '"') {
      in_string = true;
    } else if (c == '[' || c == '{') {
      if (++depth > most) return false;
    } else if ((c == ']' || c == '}') && depth > 0) {
      --depth;
    }
  }
  return true;
}

}  // namespace lambent
