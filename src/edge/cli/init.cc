#include "edge/cli/init.h"

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <utility>

#include "core/base/fd.h"
#include "core/base/spelling.h"
#include "core/domain/function.h"
#include "edge/cli/manifest.h"
#include "edge/cli/staging.h"
#include "edge/cli/transport.h"

namespace lambent::cli {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr std::string_view kPlaceholder = "@NAME@";
constexpr size_t kMostTemplate = 1 << 16;

std::string replaced(std::string text, std::string_view what, std::string_view by) {
  for (size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + by.size())) {
    text.replace(at, what.size(), by);
  }
  return text;
}

Result<const InitKind*> kind_of(const std::string& name) {
  if (const InitKind* kind = init_kind_from(name)) return kind;
  std::vector<std::string_view> known;
  std::string all;
  for (const InitKind& kind : init_kinds()) {
    known.push_back(kind.name);
    all += (all.empty() ? "" : ", ") + std::string(kind.name);
  }
  return Error{ErrorCode::kInvalidArgument,
               "--kind is '" + name + "'; it can be " + all + did_you_mean(name, known)};
}

Result<std::vector<TemplateFile>> read_templates(const std::string& folder) {
  std::error_code error;
  if (folder.empty() || !fs::is_directory(folder, error)) {
    return Error{ErrorCode::kNotFound,
                 "the templates were not found: share/lambent/init belongs beside bin/"};
  }
  std::vector<TemplateFile> files;
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(folder, error)) {
    // pip compiles what it installs, templates too.
    if (!entry.is_regular_file(error) || entry.path().extension() == ".pyc") continue;
    TemplateFile file{.path = entry.path().lexically_relative(folder).string(), .text = ""};
    ASSIGN_OR_RETURN(file.text, read_file(entry.path().string(), kMostTemplate));
    files.push_back(std::move(file));
  }
  if (error) return Error{ErrorCode::kUnavailable, "reading " + folder + ": " + error.message()};
  std::sort(files.begin(), files.end(),
            [](const TemplateFile& a, const TemplateFile& b) { return a.path < b.path; });
  return files;
}

// What was written so far, taken back unless all of it was: files, and the folders made for them.
class Writing {
 public:
  ~Writing() {
    std::error_code ignored;
    for (auto made = made_.rbegin(); made != made_.rend(); ++made) fs::remove(*made, ignored);
  }
  Result<void> folder(const fs::path& path) {
    std::error_code error;
    if (path.empty() || fs::is_directory(path, error)) return {};
    RETURN_IF_ERROR(folder(path.parent_path()));
    if (!fs::create_directory(path, error)) {
      const int number = error ? error.value() : EEXIST;
      return error_from_errno("create the folder " + path.string(), number);
    }
    made_.push_back(path);
    return {};
  }
  Result<void> file(const fs::path& path, const std::string& text) {
    RETURN_IF_ERROR(folder(path.parent_path()));
    RETURN_IF_ERROR(write_file_atomically(path.string(), text, false));
    made_.push_back(path);
    return {};
  }
  void keep() { made_.clear(); }

 private:
  std::vector<fs::path> made_;
};

Result<void> write_all(const std::string& folder, const std::vector<TemplateFile>& files) {
  std::error_code error;
  for (const TemplateFile& file : files) {
    const fs::path path = fs::path(folder) / file.path;
    if (!fs::exists(fs::symlink_status(path, error))) continue;
    return Error{ErrorCode::kAlreadyExists, path.lexically_normal().string() +
                                                " is there already; nothing was written, choose "
                                                "another folder"};
  }
  Writing writing;
  for (const TemplateFile& file : files) {
    RETURN_IF_ERROR(writing.file(fs::path(folder) / file.path, file.text));
  }
  writing.keep();
  return {};
}

// Safe to be pasted into a shell.
std::string shell_word(const std::string& text) {
  const bool plain = !text.empty() && text.front() != '-' &&
                     text.find_first_not_of(
                         "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                         "0123456789_-./") == std::string::npos;
  return plain ? text : "'" + replaced(text, "'", "'\\''") + "'";
}

std::vector<std::string> next_commands(const InitKind& kind, const InitOptions& options,
                                       const std::string& name) {
  const std::string& folder = options.folder;
  const std::string path = (folder.front() == '-' ? "./" : "") + folder;
  std::vector<std::string> commands;
  if (!kind.run.empty()) {
    return {"lambent run " + shell_word(path) + "/" + std::string(kind.run)};
  }
  if (!kind.build.empty()) commands.push_back(std::string(kind.build) + " " + shell_word(path));
  commands.push_back("lambent deploy " + shell_word(path));
  if (kind.is_asked_by_http) {
    commands.push_back("curl " + curl_words(options.endpoint, name) + " -d '" +
                       std::string(kind.event) + "'");
    return commands;
  }
  commands.push_back("lambent invoke " + shell_word(name) + " -d '" + std::string(kind.event) +
                     "'");
  return commands;
}

Result<std::vector<std::string>> init(const InitOptions& options, const InitKind*& kind,
                                      std::vector<TemplateFile>& files, std::string& name) {
  ASSIGN_OR_RETURN(kind, kind_of(options.kind));
  ASSIGN_OR_RETURN(name, name_for_folder(options.folder));
  const std::string templates =
      options.templates.empty() ? "" : options.templates + "/" + std::string(kind->name);
  ASSIGN_OR_RETURN(files, read_templates(templates));
  ASSIGN_OR_RETURN(files, fill_templates(std::move(files), name));
  RETURN_IF_ERROR(write_all(options.folder, files));
  return next_commands(*kind, options, name);
}

}  // namespace

const std::vector<InitKind>& init_kinds() {
  static const std::vector<InitKind> kinds = {
      {"python", R"({"name": "Ada"})", ""},
      {"cuda", R"({"values": [1, 2, 3], "factor": 10})", ""},
      {"native", R"({"name": "Ada"})", "make -C"},
      {"kernel",
       R"({"inputs": [{"name": "x", "datatype": "FP32", "shape": [4], "data": [1, 2, 3, 4]}]})",
       ""},
      {"workflow", R"({"text": "the quick fox"})", ""},
      {"pipeline", R"({"text": "the quick, brown fox"})", "", false,
       "lambent serve --pipeline-slices all"},
      {"http", R"({"name": "Ada"})", "", true},
      {"app", "{}", "", false, "lambent serve", "app.py::greet Ada"}};
  return kinds;
}

const InitKind* init_kind_from(std::string_view name) {
  std::string_view meant = name;
  if (name.starts_with("python3") || name == "handler") meant = "python";
  if (name == "sdk") meant = "app";
  if (name == "c++" || name == "cpp" || name.starts_with("provided")) meant = "native";
  for (const InitKind& kind : init_kinds()) {
    if (kind.name == meant) return &kind;
  }
  return nullptr;
}

Result<std::string> name_for_folder(const std::string& folder) {
  if (folder.empty()) return Error{ErrorCode::kInvalidArgument, "the folder needs a name"};
  std::error_code error;
  const fs::path whole = fs::absolute(folder, error).lexically_normal();
  const std::string name = last_part(whole.string());
  FunctionSpec spec;
  spec.name.name = name;
  spec.handler = "app.handler";
  const auto valid = validate(spec);
  if (valid.ok()) return name;
  return Error{ErrorCode::kInvalidArgument, "the function would be called as its folder, '" + name +
                                                "': " + valid.error().message};
}

Result<std::vector<TemplateFile>> fill_templates(std::vector<TemplateFile> files,
                                                 const std::string& name) {
  for (TemplateFile& file : files) {
    file.text = replaced(std::move(file.text), kPlaceholder, name);
    if (last_part(file.path) != "lambent.toml") continue;
    ASSIGN_OR_RETURN(const Manifest manifest, parse_manifest(file.text, file.path));
    if (auto valid = validate(manifest.spec); !valid.ok()) {
      return valid.error().with_context(file.path);
    }
  }
  return files;
}

int run_init(Console& console, const InitOptions& options) {
  const InitKind* kind = nullptr;
  std::vector<TemplateFile> files;
  std::string name;
  const auto commands = init(options, kind, files, name);
  if (!commands.ok()) return fail(console, commands.error());
  if (console.json) {
    Json json = {{"name", name}, {"folder", options.folder}, {"kind", kind->name}};
    for (const TemplateFile& file : files) json["files"].push_back(file.path);
    json["next"] = *commands;
    console.out << json.dump(2, ' ', false, Json::error_handler_t::replace) << "\n";
    return 0;
  }
  console.out << "wrote " << options.folder << ":";
  for (const TemplateFile& file : files) console.out << " " << file.path;
  console.out << "\n\n";
  for (const std::string& command : *commands) console.out << "  " << command << "\n";
  console.out << "\n(with a worker: '" << kind->worker << "')\n";
  return 0;
}

}  // namespace lambent::cli
