#include "core/domain/image_function.h"

#include <algorithm>
#include <span>
#include <utility>

#include "core/domain/command_line.h"

namespace lambent {
namespace {

constexpr std::string_view kEntryPoint = "--entrypoint=";
constexpr std::string_view kNoEntryPoint = "--entrypoint";
constexpr std::string_view kWorkingDirectory = "--workdir=";
constexpr std::string_view kDigestAlgorithm = "sha256:";
constexpr size_t kDigestDigits = 64;
constexpr size_t kTagLength = 128;

constexpr std::pair<std::string_view, ImageTransport> kTransports[] = {
    {"docker://", ImageTransport::kRegistry},
    {"oci:", ImageTransport::kOciLayout},
    {"oci-archive:", ImageTransport::kOciArchive},
    {"docker-archive:", ImageTransport::kDockerArchive},
};

Error invalid(std::string_view text, const std::string& what) {
  return {ErrorCode::kInvalidArgument, "the image '" + std::string(text) + "' " + what};
}

bool is_lower_or_digit(char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9'); }

bool is_word_character(char c) {
  return is_lower_or_digit(c) || (c >= 'A' && c <= 'Z') || c == '_' || c == '-' || c == '.';
}

bool is_tag(std::string_view text) {
  return !text.empty() && text.size() <= kTagLength && text.front() != '.' && text.front() != '-' &&
         std::ranges::all_of(text, is_word_character);
}

// A part of a repository's name: letters and digits, with '.', '_' and '-' between them.
bool is_name_part(std::string_view part) {
  const auto is_fit = [](char c) {
    return is_lower_or_digit(c) || c == '.' || c == '_' || c == '-';
  };
  return !part.empty() && std::ranges::all_of(part, is_fit) && is_lower_or_digit(part.front()) &&
         is_lower_or_digit(part.back());
}

// "ghcr.io", "localhost:5000": what has a point or a port, or is this host.
bool is_registry(std::string_view part) {
  return part == "localhost" || part.find_first_of(".:") != std::string_view::npos;
}

bool is_host_and_port(std::string_view text) {
  const size_t colon = text.find(':');
  const std::string_view host = text.substr(0, colon);
  const bool is_host =
      !host.empty() && std::ranges::all_of(host, is_word_character) && host.front() != '-';
  if (colon == std::string_view::npos) return is_host;
  const std::string_view port = text.substr(colon + 1);
  return is_host && !port.empty() && port.size() <= 5 &&
         std::ranges::all_of(port, [](char c) { return c >= '0' && c <= '9'; });
}

bool is_repository(std::string_view name) {
  bool is_first = true;
  for (size_t start = 0; start <= name.size();) {
    const size_t end = std::min(name.find('/', start), name.size());
    const std::string_view part = name.substr(start, end - start);
    const bool may_be_registry = std::exchange(is_first, false) && end < name.size();
    const bool good =
        may_be_registry && is_registry(part) ? is_host_and_port(part) : is_name_part(part);
    if (!good) return false;
    start = end + 1;
  }
  return true;
}

// Takes ":TAG" off the end of `name`, where the last part has one.
std::string take_tag(std::string& name) {
  const size_t colon = name.rfind(':');
  const size_t slash = name.rfind('/');
  if (colon == std::string::npos || (slash != std::string::npos && slash > colon)) return "";
  std::string tag = name.substr(colon + 1);
  name.erase(colon);
  return tag;
}

}  // namespace

std::string ImageReference::registry() const {
  const size_t slash = name.find('/');
  const std::string first = name.substr(0, slash);
  return slash != std::string::npos && is_registry(first) ? first : "docker.io";
}

bool is_image_digest(std::string_view text) {
  if (!text.starts_with(kDigestAlgorithm)) return false;
  text.remove_prefix(kDigestAlgorithm.size());
  return text.size() == kDigestDigits &&
         text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

Result<ImageReference> parse_image_reference(std::string_view text) {
  if (text.empty()) return Error{ErrorCode::kInvalidArgument, "an image has no name"};
  if (text.size() > kImageReferenceLength) {
    return Error{
        ErrorCode::kInvalidArgument,
        "an image's name has at most " + std::to_string(kImageReferenceLength) + " characters"};
  }
  ImageReference reference;
  std::string_view rest = text;
  for (const auto& [prefix, transport] : kTransports) {
    if (!text.starts_with(prefix)) continue;
    reference.transport = transport;
    rest.remove_prefix(prefix.size());
    break;
  }
  if (const size_t at = rest.rfind('@'); at != std::string_view::npos) {
    reference.digest = rest.substr(at + 1);
    rest = rest.substr(0, at);
    if (!is_image_digest(reference.digest)) {
      return invalid(text, "has after its '@' no digest, which is sha256: and 64 digits");
    }
  }
  reference.name = rest;
  const size_t before = reference.name.size();
  reference.tag = take_tag(reference.name);
  if (reference.name.size() != before && !is_tag(reference.tag)) {
    return invalid(text, "has no good tag: letters, digits, '_', '.' and '-', at most 128");
  }
  if (reference.is_local()) {
    const bool is_path =
        !reference.name.empty() && std::ranges::all_of(reference.name, [](unsigned char c) {
          return c > ' ' && c != 127 && c != ':' && c != '@';
        });
    if (!is_path) return invalid(text, "has no path, or one with blanks, ':' or '@' in it");
    return reference;
  }
  if (!is_repository(reference.name)) {
    return invalid(text,
                   "is no name of one: such as ghcr.io/owner/name:tag in lower case, or, of the "
                   "worker's machine, oci:/folder, oci-archive:/file or docker-archive:/file");
  }
  return reference;
}

std::string text_of(const ImageReference& reference) {
  std::string text;
  for (const auto& [prefix, transport] : kTransports) {
    if (transport == reference.transport && reference.is_local()) text = prefix;
  }
  text += reference.name;
  if (!reference.tag.empty()) text += ":" + reference.tag;
  if (!reference.digest.empty()) text += "@" + reference.digest;
  return text;
}

Result<ImageCommand> parse_image_command(std::string_view line) {
  ASSIGN_OR_RETURN(const std::vector<std::string> words, command_words(line));
  ImageCommand command;
  size_t next = 0;
  for (; next < words.size() && words[next].starts_with("--"); ++next) {
    const std::string& word = words[next];
    if (word.starts_with(kEntryPoint)) {
      if (!command.entry_point) command.entry_point.emplace();
      command.entry_point->push_back(word.substr(kEntryPoint.size()));
    } else if (word == kNoEntryPoint) {
      command.entry_point.emplace();
    } else if (word.starts_with(kWorkingDirectory)) {
      command.working_directory = word.substr(kWorkingDirectory.size());
    } else {
      return Error{ErrorCode::kInvalidArgument, "the image has no option '" + word + "'"};
    }
  }
  const std::string& directory = command.working_directory;
  if (!directory.empty() && !directory.starts_with('/')) {
    return Error{ErrorCode::kInvalidArgument,
                 "the working directory in the image is an absolute path, not '" + directory + "'"};
  }
  if (next == words.size()) {
    return Error{ErrorCode::kInvalidArgument, "a function of an image has no name of an image"};
  }
  ASSIGN_OR_RETURN(command.image, parse_image_reference(words[next]));
  if (const auto rest = std::span(words).subspan(next + 1); !rest.empty()) {
    command.command.emplace(rest.begin(), rest.end());
  }
  return command;
}

std::string text_of(const ImageCommand& command) {
  std::vector<std::string> words;
  if (command.entry_point && command.entry_point->empty()) words.emplace_back(kNoEntryPoint);
  for (const std::string& word : command.entry_point.value_or(std::vector<std::string>())) {
    words.push_back(std::string(kEntryPoint) + word);
  }
  if (!command.working_directory.empty()) {
    words.push_back(std::string(kWorkingDirectory) + command.working_directory);
  }
  words.push_back(text_of(command.image));
  const auto rest = command.command.value_or(std::vector<std::string>());
  words.insert(words.end(), rest.begin(), rest.end());
  return command_text(words);
}

}  // namespace lambent
