#include "gpu/bundle/program_macros.h"

namespace lambent::bundle {
namespace {

using Macros = std::map<std::string, MacrosOfFile>;
using Definitions = std::map<std::string, std::set<std::string>>;

void add_included(const Macros& macros, const std::string& file, std::set<std::string>& all) {
  const auto found = macros.find(file);
  if (found == macros.end() || !all.insert(file).second) return;
  for (const auto& event : found->second.events) {
    if (event.kind == MacroEvent::kIncluded) add_included(macros, event.name, all);
  }
}

Error seen_by_another(const std::string& macro, const std::string& in, const std::string& by) {
  return {ErrorCode::kInvalidArgument,
          "the macro " + macro + " of " + in + " would be seen by " + by +
              ": the files of a program are compiled as one for the host; rename the macro, or "
              "define it alike in each file"};
}

class Files {
 public:
  Files(const std::vector<std::string>& files, const Macros& macros)
      : files_(files), macros_(macros), included_(files.size()), own_(files.size()) {
    for (size_t i = 0; i < files.size(); ++i) {
      add_included(macros, files[i], included_[i]);
      for (const auto& file : included_[i]) readers_[file].insert(i);
    }
    for (size_t i = 0; i < files.size(); ++i) {
      for (const auto& file : included_[i]) {
        if (readers_[file].size() > 1) continue;
        for (const auto& event : macros.at(file).events) {
          if (event.kind == MacroEvent::kDefined) own_[i][event.name].insert(event.definition);
        }
      }
    }
  }

  Result<std::vector<std::set<std::string>>> check() {
    std::vector<std::set<std::string>> names(files_.size());
    for (size_t i = 0; i < files_.size(); ++i) {
      read_.clear();
      defined_.clear();
      RETURN_IF_ERROR(read(i, files_[i]));
      for (const auto& file : included_[i]) {
        if (readers_[file].size() == 1) continue;
        for (const auto& event : macros_.at(file).events) {
          if (event.kind == MacroEvent::kDefined) left_.emplace(event.name, file);
        }
      }
      for (const auto& [name, definitions] : own_[i]) names[i].insert(name);
    }
    return names;
  }

 private:
  Result<void> read(size_t reader, const std::string& file) {
    const auto found = macros_.find(file);
    if (found == macros_.end() || !read_.insert(file).second) return {};
    const bool shared = readers_[file].size() > 1;
    for (const auto& event : found->second.events) {
      if (event.kind == MacroEvent::kIncluded) {
        RETURN_IF_ERROR(read(reader, event.name));
        continue;
      }
      const auto defined = defined_.find(event.name);
      if (shared && found->second.is_guarded && defined != defined_.end() &&
          !is_alike(event.name, file)) {
        return seen_by_another(event.name, defined->second, file);
      }
      if (event.kind == MacroEvent::kDefined) {
        if (!shared) defined_.emplace(event.name, file);
        continue;
      }
      const auto left = left_.find(event.name);
      if (left != left_.end() && defined == defined_.end() && !read_.contains(left->second)) {
        return seen_by_another(event.name, left->second, file);
      }
    }
    return {};
  }
  // Whether all files that include `header` define the macro in the same way.
  bool is_alike(const std::string& macro, const std::string& header) {
    const std::set<std::string>* first = nullptr;
    for (const size_t reader : readers_[header]) {
      const auto found = own_[reader].find(macro);
      if (found == own_[reader].end()) return false;
      if (first != nullptr && *first != found->second) return false;
      first = &found->second;
    }
    return true;
  }

  const std::vector<std::string>& files_;
  const Macros& macros_;
  std::vector<std::set<std::string>> included_;
  std::vector<Definitions> own_;                     // ends with its file
  std::map<std::string, std::set<size_t>> readers_;  // of each file
  std::map<std::string, std::string> left_;          // by shared headers of files before
  std::set<std::string> read_;                       // for this file so far
  std::map<std::string, std::string> defined_;       // what is its own, so far, and where
};

}  // namespace

Result<std::vector<std::set<std::string>>> macros_of_each(const std::vector<std::string>& files,
                                                          const Macros& macros) {
  if (files.size() < 2) return std::vector<std::set<std::string>>(files.size());
  return Files(files, macros).check();
}

}  // namespace lambent::bundle
