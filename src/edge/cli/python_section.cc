#include "edge/cli/python_section.h"

#include <filesystem>
#include <span>
#include <utility>

#include "core/base/fd.h"
#include "edge/cli/staging.h"
#include "edge/cli/table_reader.h"

namespace lambent::cli {
namespace {

Error wrong(const std::string& file, const toml::node& node, const std::string& what) {
  return Error{ErrorCode::kInvalidArgument,
               file + " line " + std::to_string(node.source().begin.line) + ": " + what};
}

Result<std::vector<std::string>> requirements_of(const toml::array& list, const std::string& file) {
  std::vector<std::string> requirements;
  for (const toml::node& node : list) {
    const auto text = node.value_exact<std::string>();
    if (!text) return wrong(file, node, "python.requirements are texts in quotes");
    auto requirement = read_requirement(*text);
    if (!requirement.ok()) return wrong(file, node, requirement.error().message);
    requirements.push_back(std::move(*requirement));
  }
  return sorted_requirements(std::move(requirements));
}

Result<std::vector<std::string>> preload_of(const toml::node& node, const std::string& file) {
  const toml::array* list = node.as_array();
  if (list == nullptr) return wrong(file, node, "python.preload is a list of modules");
  std::vector<std::string> modules;
  for (const toml::node& each : *list) {
    const auto text = each.value_exact<std::string>();
    if (!text) return wrong(file, each, "python.preload has names of modules in quotes");
    modules.push_back(*text);
  }
  if (const auto good = check_preload(modules); !good.ok()) {
    return wrong(file, node, good.error().message);
  }
  return modules;
}

// Locks of other tools have URLs and conditions of their own; uv writes all of them in our form.
Result<void> check_lock_name(const std::string& name, const std::string& file) {
  const bool is_other = name.ends_with("uv.lock") || name.ends_with(".toml") ||
                        name.ends_with("poetry.lock") || name.ends_with("Pipfile.lock");
  if (!is_other) return {};
  return Error{ErrorCode::kInvalidArgument,
               file +
                   ": python.lock is a file in the form of requirements.txt, with all packages "
                   "in exact versions; of a uv.lock 'uv export --no-emit-project -o "
                   "requirements.lock' writes one, of a pyproject.toml or requirements.txt 'uv "
                   "pip compile --generate-hashes -o requirements.lock'"};
}

}  // namespace

Result<PythonSection> read_python_section(const toml::table& table, const std::string& file,
                                          std::vector<std::string>& warnings) {
  PythonSection section;
  TableReader reader(table, "python.", file);
  reader.read("version", section.packages.version);
  reader.read("lock", section.lock_file);
  reader.read("pyproject", section.pyproject_file);
  static constexpr std::string_view kLists[] = {"requirements", "preload"};
  if (const toml::node* preload = table.get("preload")) {
    reader.know(std::span(kLists).subspan(1));
    ASSIGN_OR_RETURN(section.packages.preload, preload_of(*preload, file));
  }
  if (const toml::array* list = table["requirements"].as_array()) {
    reader.know(std::span(kLists).first(1));
    ASSIGN_OR_RETURN(section.packages.requirements, requirements_of(*list, file));
  } else {
    reader.read("requirements", section.requirements_file);
  }
  RETURN_IF_ERROR(reader.verdict());
  const size_t warned = warnings.size();
  reader.warn_of_unknown(warnings);
  if (const auto good = check_python_version(section.packages.version); !good.ok()) {
    return wrong(file, *table.get("version"), good.error().message);
  }
  const int sources = (table.contains("requirements") ? 1 : 0) + (table.contains("lock") ? 1 : 0) +
                      (table.contains("pyproject") ? 1 : 0);
  if (sources > 1) {
    return wrong(file, table, "[python] has one of requirements, lock and pyproject");
  }
  const bool has_more = !section.packages.version.empty() || !section.packages.preload.empty();
  const bool is_interpreter = has_more && warnings.size() == warned;
  if (sources == 0 && !is_interpreter) {
    // What is missing may be there under a name that is spelt wrong.
    std::string message =
        "[python] has requirements (a list, or the name of a file), lock or pyproject, or only a "
        "version, such as \"3.11\"";
    for (const std::string& warning : warnings) message += "\n  " + warning;
    return wrong(file, table, message);
  }
  RETURN_IF_ERROR(check_lock_name(section.lock_file, file));
  return section;
}

bool names_requirements(const PythonSection& section) {
  return !section.packages.requirements.empty() || !section.requirements_file.empty() ||
         !section.lock_file.empty() || !section.pyproject_file.empty();
}

Result<std::vector<std::string>> read_pyproject(std::string_view text) {
  const toml::parse_result parsed = toml::parse(text);
  if (!parsed) {
    return Error{ErrorCode::kInvalidArgument,
                 "line " + std::to_string(parsed.error().source().begin.line) + ": " +
                     std::string(parsed.error().description())};
  }
  const toml::array* list = parsed.table()["project"]["dependencies"].as_array();
  if (list == nullptr) {
    return Error{ErrorCode::kInvalidArgument, "there is no list dependencies in [project]"};
  }
  std::vector<std::string> requirements;
  for (const toml::node& node : *list) {
    const auto one = node.value_exact<std::string>();
    if (!one) return Error{ErrorCode::kInvalidArgument, "project.dependencies are texts"};
    ASSIGN_OR_RETURN(std::string requirement, read_requirement(*one));
    requirements.push_back(std::move(requirement));
  }
  return sorted_requirements(std::move(requirements));
}

Result<PythonPackages> load_python_packages(const PythonSection& section,
                                            const std::string& folder) {
  PythonPackages packages = section.packages;
  std::string name = section.requirements_file;
  if (!section.lock_file.empty()) name = section.lock_file;
  if (!section.pyproject_file.empty()) name = section.pyproject_file;
  if (name.empty()) return packages;
  const std::filesystem::path inside = std::filesystem::path(name).lexically_normal();
  if (inside.is_absolute() || inside.begin()->string() == "..") {
    return Error{ErrorCode::kInvalidArgument,
                 "[python] names '" + name + "', which does not lie beside lambent.toml"};
  }
  const std::string path = join_path(folder, name);
  auto content = read_file(path, kMostRequirementText.count);
  if (!content.ok() && content.error().code == ErrorCode::kNotFound) {
    return Error{ErrorCode::kNotFound,
                 "there is no file " + path +
                     ", which [python] names; packages themselves are a list: requirements = [\"" +
                     name + "\"]"};
  }
  if (!content.ok()) return content.error();
  const std::string text = *std::move(content);
  auto read = section.pyproject_file.empty() ? read_requirements_file(text) : read_pyproject(text);
  if (!read.ok()) return read.error().with_context(path);
  packages.requirements = std::move(*read);
  packages.locked = !section.lock_file.empty();
  for (const std::string& one : packages.requirements) {
    if (!packages.locked || one.find("==") != std::string::npos) continue;
    return Error{ErrorCode::kInvalidArgument,
                 path + ": '" + one + "' names no exact version, and a lock has those of all"};
  }
  return packages;
}

}  // namespace lambent::cli
