#include "gpu/bundle/program_files.h"

#include <filesystem>
#include <map>
#include <optional>

#include "core/base/fd.h"
#include "gpu/bundle/program_macros.h"
#include "gpu/bundle/program_source.h"

namespace lambent::bundle {
namespace {

namespace fs = std::filesystem;
constexpr size_t kMostSourceBytes = 16 * 1024 * 1024;
constexpr int kMostNestedHeaders = 64;

std::string escaped(const std::string& path) {
  std::string result;
  for (const char c : path) {
    if (c == '"' || c == '\\') result += '\\';
    result += c;
  }
  return result;
}

// Writes rewritten copies of headers, each once.
class LocalHeaders {
 public:
  LocalHeaders(const std::vector<std::string>& folders, std::string scratch,
               std::vector<std::string>* headers)
      : folders_(folders), scratch_(std::move(scratch)), headers_(headers) {}

  Result<std::string> rewritten(const fs::path& file) {
    std::error_code none;
    const fs::path whole = fs::absolute(file, none);
    ASSIGN_OR_RETURN(const std::string text, read_file(whole.string(), kMostSourceBytes));
    std::vector<MacroEvent> events;
    const CopyOfHeader copy_of = [&](std::string_view name, bool quoted) {
      return copy(quoted ? whole.parent_path() : fs::path(), std::string(name), events);
    };
    ++depth_;
    DeviceWords words;
    std::string result = rewrite_program(text, copy_of, headers_, &events, &words);
    --depth_;
    if (failure_.has_value()) return *failure_;
    words_.has_volatile = words_.has_volatile || words.has_volatile;
    words_.launches = words_.launches || words.launches;
    macros_[file.string()] = {std::move(events), text.find("pragma once") != std::string::npos ||
                                                     text.find("ifndef") != std::string::npos};
    return "#line 1 \"" + escaped(whole.string()) + "\"\n" + result + "\n";
  }
  const std::map<std::string, MacrosOfFile>& macros() const { return macros_; }
  const DeviceWords& words() const { return words_; }

 private:
  std::string copy(const fs::path& beside, const std::string& name,
                   std::vector<MacroEvent>& events) {
    std::vector<fs::path> places(folders_.begin(), folders_.end());
    if (!beside.empty()) places.insert(places.begin(), beside);
    for (const auto& folder : places) {
      std::error_code none;
      const fs::path found = fs::canonical(folder / name, none);
      if (none || !fs::is_regular_file(found, none)) continue;
      events.push_back({MacroEvent::kIncluded, found.string(), ""});
      if (auto known = copies_.find(found); known != copies_.end()) return known->second;
      const std::string path =
          scratch_ + "/" + std::to_string(copies_.size()) + "_" + found.filename().string();
      // Known before it is read, for headers that include each other.
      copies_[found] = path;
      const auto write = [&]() -> Result<void> {
        if (depth_ >= kMostNestedHeaders) {
          return Error{ErrorCode::kInvalidArgument, "headers include each other too deeply"};
        }
        ASSIGN_OR_RETURN(const std::string text, rewritten(found));
        return write_file_atomically(path, text, false);
      };
      if (const auto done = write(); !done.ok() && !failure_.has_value()) {
        failure_ = done.error().with_context(found.string());
      }
      return path;
    }
    return "";
  }

  const std::vector<std::string>& folders_;
  const std::string scratch_;
  std::vector<std::string>* const headers_;
  std::map<fs::path, std::string> copies_;
  std::map<std::string, MacrosOfFile> macros_;
  std::optional<Error> failure_;
  DeviceWords words_;
  int depth_ = 0;
};

}  // namespace

Result<ProgramSource> read_program(const std::vector<std::string>& files,
                                   const std::vector<std::string>& folders,
                                   const std::string& scratch_folder) {
  std::error_code none;
  ProgramSource source;
  LocalHeaders local(folders, fs::absolute(scratch_folder, none).string(), &source.headers);
  std::vector<std::string> texts;
  for (const std::string& file : files) {
    ASSIGN_OR_RETURN(texts.emplace_back(), local.rewritten(file));
  }
  source.words = local.words();
  ASSIGN_OR_RETURN(const auto own, macros_of_each(files, local.macros()));
  for (size_t i = 0; i < files.size(); ++i) {
    for (const auto& name : own[i]) source.text += "#pragma push_macro(\"" + name + "\")\n";
    source.text += texts[i];
    for (const auto& name : own[i]) source.text += "#pragma pop_macro(\"" + name + "\")\n";
  }
  return source;
}

}  // namespace lambent::bundle
