#include "bin/command_tree.h"

#include <algorithm>
#include <charconv>

namespace lambent::bin {
namespace {

// The parts between separators; none of an empty text.
std::vector<std::string> split(std::string_view text, char separator) {
  std::vector<std::string> parts;
  while (!text.empty()) {
    const size_t end = std::min(text.find(separator), text.size());
    parts.emplace_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return parts;
}

std::string joined(const std::vector<std::string>& parts, char separator) {
  std::string text;
  for (const std::string& part : parts)
    text += (text.empty() ? "" : std::string(1, separator)) + part;
  return text;
}

// In one line, and without what separates its fields.
std::string plain(std::string_view text) {
  std::string line;
  for (const char c : text) line += c == '\t' || c == '\n' ? ' ' : c;
  return line;
}

// "TEXT:{balance,throughput}", as CLI11 writes what is checked.
std::vector<std::string> choices_in(const std::string& type) {
  const size_t open = type.find('{');
  const size_t close = type.find('}');
  if (open == std::string::npos || close == std::string::npos || close < open) return {};
  return split(std::string_view(type).substr(open + 1, close - open - 1), ',');
}

void add_lines(const CommandTree& tree, size_t depth, std::string& lines) {
  lines += "command\t" + std::to_string(depth) + "\t" + plain(tree.name) + "\t" + plain(tree.what) +
           "\n";
  for (const CommandTree::Option& option : tree.options) {
    lines += "option\t" + joined(option.names, ',') + "\t" +
             (option.takes_value ? "value" : "switch") + "\t" + joined(option.choices, ',') + "\t" +
             plain(option.what) + "\n";
  }
  for (const CommandTree& command : tree.commands) add_lines(command, depth + 1, lines);
}

// As many fields as were asked for; the last one has what is left.
std::vector<std::string> fields_of(std::string_view line, size_t count) {
  std::vector<std::string> fields;
  while (fields.size() + 1 < count) {
    const size_t tab = line.find('\t');
    if (tab == std::string_view::npos) return {};
    fields.emplace_back(line.substr(0, tab));
    line.remove_prefix(tab + 1);
  }
  fields.emplace_back(line);
  return fields;
}

}  // namespace

CommandTree tree_of(const CLI::App& app) {
  CommandTree tree{.name = app.get_name(), .what = app.get_description()};
  for (const CLI::Option* option : app.get_options()) {
    CommandTree::Option known;
    for (const std::string& name : option->get_snames()) known.names.push_back("-" + name);
    for (const std::string& name : option->get_lnames()) known.names.push_back("--" + name);
    if (known.names.empty()) continue;          // a positional
    if (option->get_group().empty()) continue;  // hidden, as commands without a group are
    known.what = option->get_description();
    known.takes_value = option->get_items_expected_max() > 0;
    known.choices = choices_in(option->get_type_name());
    tree.options.push_back(std::move(known));
  }
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    // Without a group it is hidden.
    if (!command->get_group().empty()) tree.commands.push_back(tree_of(*command));
  }
  return tree;
}

std::string lines_of(const CommandTree& tree) {
  std::string lines;
  add_lines(tree, 0, lines);
  return lines;
}

Result<CommandTree> tree_from_lines(std::string_view lines) {
  const Error bad{ErrorCode::kInvalidArgument, "these lines tell of no commands"};
  CommandTree root;
  std::vector<CommandTree*> open;  // the command that is being read, and those above it
  for (const std::string& line : split(lines, '\n')) {
    if (line.starts_with("command\t")) {
      const auto fields = fields_of(line, 4);
      if (fields.size() != 4) return bad;
      size_t depth = 0;
      const std::string& number = fields[1];
      const auto read = std::from_chars(number.data(), number.data() + number.size(), depth);
      if (read.ec != std::errc() || depth > open.size() || (depth == 0 && !open.empty()))
        return bad;
      open.resize(depth);
      CommandTree* command = depth == 0 ? &root : &open.back()->commands.emplace_back();
      command->name = fields[2];
      command->what = fields[3];
      open.push_back(command);
    } else if (line.starts_with("option\t") && !open.empty()) {
      const auto fields = fields_of(line, 5);
      if (fields.size() != 5) return bad;
      open.back()->options.push_back({.names = split(fields[1], ','),
                                      .what = fields[4],
                                      .takes_value = fields[2] == "value",
                                      .choices = split(fields[3], ',')});
    } else {
      return bad;
    }
  }
  if (open.empty()) return bad;
  return root;
}

}  // namespace lambent::bin
