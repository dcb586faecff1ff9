#include "workflow/json_survey.h"

#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "workflow/limits.h"

namespace lambent::workflow {
namespace {

class Survey : public nlohmann::json_sax<nlohmann::json> {
 public:
  explicit Survey(size_t most_depth) : most_depth_(most_depth) {}

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
    problem_ = Error{ErrorCode::kInvalidArgument,
                     "the workflow is no JSON, at byte " + std::to_string(position)};
    return false;
  }

  bool key(string_t& key) override {
    Open& object = open_.back();
    object.key = key.substr(0, limits::kNameLength);
    if (object.keys.size() == kMostKeys) {
      return refuse("an object has more than " + std::to_string(kMostKeys) + " keys");
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
    if (open_.size() == most_depth_) {
      return refuse("it is nested more than " + std::to_string(most_depth_) + " deep");
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
    problem_ =
        Error{ErrorCode::kInvalidArgument, (place.empty() ? "the workflow" : place) + ": " + what};
    return false;
  }

  const size_t most_depth_;
  std::vector<Open> open_;
  std::optional<Error> problem_;
};

}  // namespace

Result<void> survey_json(std::string_view text, size_t most_depth) {
  Survey survey(most_depth);
  nlohmann::json::sax_parse(text, &survey);
  if (survey.problem()) return *survey.problem();
  return {};
}

}  // namespace lambent::workflow
