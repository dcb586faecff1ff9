#include "edge/cli/slice_names.h"

#include <charconv>

#include "core/base/spelling.h"

namespace lambent::cli {
namespace {

constexpr size_t kMostSlices = 64;
constexpr std::string_view kFamilies[] = {"a100-40gb", "a100-80gb", "h100-80gb", "h200"};

// The closest of the known words, or all of them.
std::string one_or_all(std::string_view word, std::span<const std::string_view> known) {
  if (const auto closest = closest_word(word, known)) return suggestion(closest);
  std::string all;
  for (const std::string_view each : known) all += (all.empty() ? "" : ", ") + std::string(each);
  return "; there are " + all;
}

}  // namespace

Result<const mig::MigFamily*> parse_family(std::string_view name) {
  if (const mig::MigFamily* family = mig::find_mig_family(name)) return family;
  return Error{ErrorCode::kInvalidArgument, "no family of devices with MIG is called '" +
                                                std::string(name) + "'" +
                                                one_or_all(name, kFamilies)};
}

Result<std::vector<const mig::MigProfile*>> parse_profiles(std::string_view text,
                                                           const mig::MigFamily& family) {
  std::vector<const mig::MigProfile*> profiles;
  std::vector<std::string_view> names;
  for (const mig::MigProfile& profile : family.profiles) names.push_back(profile.name);
  while (true) {
    const size_t comma = std::min(text.find_first_of(",+"), text.size());
    // "+me" belongs to a name.
    size_t end = comma;
    if (text.substr(end, 3) == "+me")
      end = std::min(text.find_first_of(",+", end + 1), text.size());
    std::string_view word = text.substr(0, end);
    size_t times = 1;
    if (const size_t star = word.find('*'); star != word.npos) {
      const auto [rest, error] = std::from_chars(word.data(), word.data() + star, times);
      if (error != std::errc() || rest != word.data() + star || times == 0) {
        return Error{ErrorCode::kInvalidArgument,
                     "'" + std::string(word) + "': a number is expected before '*'"};
      }
      word.remove_prefix(star + 1);
    }
    const mig::MigProfile* profile = mig::find_profile(family, word);
    if (!profile) {
      return Error{ErrorCode::kInvalidArgument, "no slices of " + std::string(family.name) +
                                                    " are called '" + std::string(word) + "'" +
                                                    one_or_all(word, names)};
    }
    if (times > kMostSlices || profiles.size() + times > kMostSlices) {
      return Error{ErrorCode::kInvalidArgument,
                   "more than " + std::to_string(kMostSlices) + " slices"};
    }
    profiles.insert(profiles.end(), times, profile);
    if (end == text.size()) return profiles;
    text.remove_prefix(end + 1);
  }
}

SliceShape shape_of(const mig::MigProfile& profile) {
  return {profile.name, static_cast<unsigned>(profile.multiprocessors),
          Bytes::mib(static_cast<uint64_t>(profile.memory_mib))};
}

}  // namespace lambent::cli
