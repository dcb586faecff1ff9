#include "edge/cli/contexts.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#define TOML_EXCEPTIONS 0
#include <toml++/toml.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>
#include <utility>
#include <vector>

#include "core/base/fd.h"
#include "core/base/spelling.h"
#include "core/http/client.h"
#include "edge/cli/text_table.h"

namespace lambent::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kMostFile = 1024 * 1024;
constexpr size_t kMostName = 64;

// Each part of a context by its key.
constexpr std::pair<const char*, std::string Context::*> kParts[] = {
    {"endpoint", &Context::endpoint},
    {"token", &Context::token},
    {"tenant", &Context::tenant},
    {"ca", &Context::authorities},
    {"client_certificate", &Context::certificate},
    {"client_key", &Context::key}};

bool is_name(std::string_view name) {
  return !name.empty() && name.size() <= kMostName &&
         std::ranges::all_of(name, [](unsigned char c) {
           return std::isalnum(c) != 0 || c == '-' || c == '_' || c == '.';
         });
}

Error not_there(const Contexts& contexts, const std::string& name) {
  std::vector<std::string> known;
  for (const auto& [each, context] : contexts.named) known.push_back(each);
  return {ErrorCode::kNotFound,
          "there is no context '" + name + "'" + did_you_mean(name, known) +
              (known.empty() ? "; 'lambent config set NAME --endpoint URL' makes one" : "")};
}

// Renamed into place, and never readable by others: it has tokens.
Result<void> write_contexts(const std::string& path, const Contexts& contexts) {
  std::error_code failed;
  const std::filesystem::path folder = std::filesystem::path(path).parent_path();
  if (!folder.empty() && !std::filesystem::exists(folder, failed)) {
    std::filesystem::create_directories(folder, failed);
    if (failed)
      return Error{ErrorCode::kUnavailable, "make " + folder.string() + ": " + failed.message()};
    std::filesystem::permissions(folder, std::filesystem::perms::owner_all, failed);
  }
  const std::string next = path + "." + std::to_string(getpid());
  OwnedFd file(open(next.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (!file.valid()) return error_from_errno("write " + next, errno);
  auto written = write_all(file.get(), text_of(contexts));
  if (written.ok() && rename(next.c_str(), path.c_str()) != 0) {
    written = error_from_errno("write " + path, errno);
  }
  if (!written.ok()) unlink(next.c_str());
  return written;
}

// Reads, changes and writes them.
template <typename Change>
int change(Console& console, const std::string& path, const Change& make) {
  auto contexts = read_contexts(path);
  if (!contexts.ok()) return fail(console, contexts.error());
  if (const Result<void> changed = make(*contexts); !changed.ok()) {
    return fail(console, changed.error());
  }
  if (const auto written = write_contexts(path, *contexts); !written.ok()) {
    return fail(console, written.error());
  }
  return console.json ? run_config_ls(console, path) : 0;
}

// What is told of one: all but its token.
Json json_of(const Contexts& contexts, const std::string& name, const Context& context) {
  Json json = {{"name", name}, {"current", name == contexts.current}};
  for (const auto& [key, part] : kParts) {
    if (part == &Context::token) {
      json["has_token"] = !context.token.empty();
    } else {
      json[key] = context.*part;
    }
  }
  return json;
}

}  // namespace

Result<Contexts> contexts_in(std::string_view text, const std::string& path) {
  const toml::parse_result parsed = toml::parse(text);
  if (!parsed) {
    // Not the library's words: they quote what stands there.
    return Error{ErrorCode::kInvalidArgument,
                 path + ":" + std::to_string(parsed.error().source().begin.line) +
                     ": this is no TOML; 'lambent config' writes this file"};
  }
  const toml::table& table = parsed.table();
  Contexts contexts;
  contexts.current = table["current"].value_or(std::string());
  const toml::table* named = table["context"].as_table();
  if (named == nullptr) return contexts;
  for (const auto& [key, node] : *named) {
    const std::string name(key.str());
    const toml::table* fields = node.as_table();
    if (fields == nullptr || !is_name(name)) {
      return Error{ErrorCode::kInvalidArgument, path + ": [context." + name + "] is no context"};
    }
    Context& context = contexts.named[name];
    for (const auto& [field, part] : kParts) {
      context.*part = (*fields)[field].value_or(std::string());
    }
  }
  return contexts;
}

std::string text_of(const Contexts& contexts) {
  toml::table named;
  for (const auto& [name, context] : contexts.named) {
    toml::table fields;
    for (const auto& [key, part] : kParts) {
      if (!(context.*part).empty()) fields.insert(key, context.*part);
    }
    named.insert(name, std::move(fields));
  }
  toml::table table;
  if (!contexts.current.empty()) table.insert("current", contexts.current);
  table.insert("context", std::move(named));
  std::ostringstream text;
  text << table << "\n";
  return text.str();
}

Result<Contexts> read_contexts(const std::string& path) {
  struct stat about {};
  if (stat(path.c_str(), &about) != 0) {
    if (errno == ENOENT || errno == ENOTDIR) return Contexts();
    return error_from_errno("read " + path, errno);
  }
  if ((about.st_mode & (S_IRWXG | S_IRWXO)) != 0) {
    return Error{ErrorCode::kFailedPrecondition,
                 path + " may hold tokens and is open to other users: chmod 600 " + path};
  }
  ASSIGN_OR_RETURN(const std::string text, read_file(path, kMostFile));
  return contexts_in(text, path);
}

Result<std::optional<Context>> choose(const Contexts& contexts, const std::string& name) {
  const std::string& chosen = name.empty() ? contexts.current : name;
  if (chosen.empty()) return std::optional<Context>();
  const auto found = contexts.named.find(chosen);
  if (found == contexts.named.end()) return not_there(contexts, chosen);
  return std::optional(found->second);
}

int run_config_set(Console& console, const std::string& path, const std::string& name,
                   const Context& changes) {
  return change(console, path, [&](Contexts& contexts) -> Result<void> {
    if (!is_name(name)) {
      return Error{ErrorCode::kInvalidArgument, "'" + name + "' can be no context's name: up to " +
                                                    std::to_string(kMostName) +
                                                    " letters, digits, '-', '_' and '.'"};
    }
    const bool is_new = !contexts.named.contains(name);
    if (is_new && changes.endpoint.empty()) {
      return Error{ErrorCode::kInvalidArgument,
                   "a new context needs --endpoint: where its worker is"};
    }
    if (!changes.endpoint.empty()) RETURN_IF_ERROR(http::parse_endpoint(changes.endpoint));
    Context& context = contexts.named[name];
    for (const auto& [key, part] : kParts) {
      if (!(changes.*part).empty()) context.*part = changes.*part;
    }
    if (contexts.current.empty()) contexts.current = name;
    return {};
  });
}

int run_config_use(Console& console, const std::string& path, const std::string& name) {
  return change(console, path, [&](Contexts& contexts) -> Result<void> {
    RETURN_IF_ERROR(choose(contexts, name));
    contexts.current = name;
    return {};
  });
}

int run_config_ls(Console& console, const std::string& path) {
  const auto contexts = read_contexts(path);
  if (!contexts.ok()) return fail(console, contexts.error());
  if (console.json) {
    Json rows = Json::array();
    for (const auto& [name, context] : contexts->named) {
      rows.push_back(json_of(*contexts, name, context));
    }
    console.out << Json{{"contexts", rows}, {"file", path}}.dump(2) << "\n";
    return 0;
  }
  if (contexts->named.empty()) {
    console.err << "no context yet: lambent config set NAME --endpoint URL\n";
    return 0;
  }
  TextTable table({"CURRENT", "NAME", "ENDPOINT", "TENANT", "TOKEN"});
  for (const auto& [name, context] : contexts->named) {
    table.add({name == contexts->current ? "*" : "", name, context.endpoint,
               context.tenant.empty() ? "-" : context.tenant,
               context.token.empty() ? "-" : "kept"});
  }
  console.out << table.str();
  return 0;
}

int run_config_rm(Console& console, const std::string& path, const std::string& name) {
  return change(console, path, [&](Contexts& contexts) -> Result<void> {
    if (contexts.named.erase(name) == 0) return not_there(contexts, name);
    if (contexts.current == name) contexts.current.clear();
    return {};
  });
}

}  // namespace lambent::cli
