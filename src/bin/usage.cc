#include "bin/usage.h"

#include <algorithm>
#include <iostream>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "bin/command_tree.h"
#include "core/base/log.h"
#include "core/base/spelling.h"

namespace lambent::bin {
namespace {

constexpr int kBadUsage = 2;

// What people try who know other tools. Said only where the program has what is meant.
constexpr std::pair<std::string_view, std::string_view> kOtherWords[] = {
    {"list", "ls"},        {"functions", "ls"},     {"delete", "rm"},
    {"remove", "rm"},      {"undeploy", "rm"},      {"watch", "dev"},
    {"call", "invoke"},    {"exec", "invoke"},      {"start", "serve"},
    {"worker", "serve"},   {"up", "serve"},         {"new", "init"},
    {"create", "init"},    {"update", "deploy"},    {"push", "deploy"},
    {"status", "ps"},      {"sandboxes", "ps"},     {"gpus", "devices"},
    {"explain", "why"},    {"what-if", "simulate"}, {"get", "result"},
    {"payload", "--data"}, {"event", "--data"},     {"body", "--data"},
    {"input", "--data"},   {"out", "--output"},     {"function-name", "--name"},
    {"port", "--listen"},  {"bind", "--listen"},
};

// The command that was being read when the error came.
const CLI::App& innermost(const CLI::App& app) {
  const CLI::App* chosen = &app;
  while (!chosen->get_subcommands().empty()) chosen = chosen->get_subcommands().front();
  return *chosen;
}

// "lambent objects put"
std::string command_of(const CLI::App& app) {
  const std::string own = app.get_name();
  return app.get_parent() == nullptr ? own : command_of(*app.get_parent()) + " " + own;
}

std::vector<std::string> options_of(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back(name);
  }
  return names;
}

std::vector<std::string> commands_of(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    names.push_back(command->get_name());
  }
  return names;
}

// "set, use, rm"
std::string words_of(const CLI::App& command) {
  std::string words;
  for (const std::string& name : commands_of(command)) {
    words += (words.empty() ? "" : ", ") + name;
  }
  return words;
}

// "; did you mean '--json'?", or nothing; `dashes` stand before each known word.
std::string meant_by(std::string_view word, const std::vector<std::string>& known,
                     const std::string& dashes) {
  std::optional<std::string_view> meant;
  for (const auto& [tried, right] : kOtherWords) {
    for (const std::string& name : known) {
      if (word == tried && right == dashes + name) meant = name;
    }
  }
  const std::vector<std::string_view> views(known.begin(), known.end());
  if (const auto closest = closest_word(word, views); closest && (!meant || *closest == word)) {
    meant = closest;
  }
  return suggestion(meant, dashes);
}

// Of a word that nothing wanted: the first that looks like an option, else the first.
std::string about_extra(const CLI::App& command) {
  const std::vector<std::string> left = command.remaining();
  if (left.empty()) return "";
  const auto option = std::find_if(left.begin(), left.end(), [](const std::string& word) {
    return word.size() > 1 && word.front() == '-';
  });
  if (option == left.end()) return "'" + left.front() + "' is one word too many";
  const std::string spelt = option->substr(0, option->find('='));
  const std::string bare = spelt.substr(
      spelt.find_first_not_of('-') == std::string::npos ? 0 : spelt.find_first_not_of('-'));
  return "there is no option " + spelt + meant_by(bare, options_of(command), "--");
}

// Of a value that is missing or is no number, which CLI11 says in words of programmers.
std::string about_value(const std::string& said) {
  constexpr std::string_view kNoNumber = "Could not convert: ", kMissing = ": 1 required ";
  if (said.starts_with(kNoNumber)) return said.substr(kNoNumber.size()) + " is not a number";
  if (const size_t at = said.find(kMissing); at != said.npos && said.ends_with(" missing")) {
    return said.substr(0, at) + " needs a value";
  }
  return said;
}

std::string what_is_wrong(const CLI::App& command, const CLI::ParseError& error) {
  const bool needs_command = command.get_require_subcommand_min() > 0;
  if (needs_command && command.get_subcommands().empty()) {
    for (const std::string& word : command.remaining()) {
      if (word.starts_with('-')) continue;
      const std::string meant = meant_by(word, commands_of(command), "");
      return "there is no command '" + word + "'" +
             (meant.empty() && command.get_parent() != nullptr ? "; it has " + words_of(command)
                                                               : meant);
    }
    if (!command.remaining().empty()) return about_extra(command);
  }
  if (dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr) {
    std::string said = about_extra(command);
    if (!said.empty()) return said;
  }
  return about_value(error.what());
}

// Takes all other options out of the help, if that is what is asked for.
void keep_usual(CLI::App& app, const std::vector<std::string_view>& usual,
                const std::vector<std::string>& words) {
  const auto asks = [](const std::string& word) { return word == "--help" || word == "-h"; };
  if (std::ranges::none_of(words, asks)) return;
  size_t all = 0;
  for (CLI::Option* option : app.get_options()) {
    if (option->get_lnames().empty() || option->get_group().empty()) continue;
    ++all;
    const std::string& name = option->get_lnames().front();
    const bool is_shown = name == "help" || std::ranges::any_of(usual, [&](std::string_view each) {
                            return each == "--" + name;
                          });
    if (!is_shown) option->group("");  // hidden
  }
  app.footer("These are the options that most users need; all " + std::to_string(all) + ": " +
             app.get_name() + " " + std::string(kHelpAll));
}

}  // namespace

int exit_of(const CLI::App& app, const CLI::ParseError& error) {
  if (error.get_exit_code() == 0) return app.exit(error);
  const CLI::App& command = innermost(app);
  const std::string name = command_of(command);
  const CLI::Option* json = command.get_option_no_throw("--json");
  if (json != nullptr && json->count() > 0) {
    std::cerr << R"({"error":{"code":"INVALID_ARGUMENT","message":")"
              << json_escape(what_is_wrong(command, error)) << "\"}}\n";
    return kBadUsage;
  }
  if (command.get_require_subcommand_min() > 0 && command.remaining().empty()) {
    // CLI11 wants what stands before its own name.
    std::cerr << command.help(command.get_parent() == nullptr ? ""
                                                              : command_of(*command.get_parent()));
    return kBadUsage;
  }
  std::cerr << name << ": " << what_is_wrong(command, error) << "\n";
  if (!command.get_footer().empty()) std::cerr << command.get_footer() << "\n";
  std::cerr << "All of it: " << name << " " << kHelpAll << "\n";
  return kBadUsage;
}

std::string complaint(const CLI::App& app, const CLI::ParseError& error) {
  return what_is_wrong(innermost(app), error);
}

std::optional<int> parse(CLI::App& app, int argc, char** argv,
                         const std::vector<std::string_view>& usual) {
  if (argc == 2 && argv[1] == kTellTree) {
    std::cout << lines_of(tree_of(app));
    return 0;
  }
  std::vector<std::string> words(argv + 1, argv + argc);
  // What follows a program that is to be run is for that.
  const auto own_end = app.get_positionals_at_end() ? words.begin() + (words.empty() ? 0 : 1)
                                                    : std::ranges::find(words, "--");
  const auto found = std::find(words.begin(), own_end, kHelpAll);
  const bool wants_all = found != own_end;
  if (wants_all) *found = "--help";
  if (!wants_all && !usual.empty()) keep_usual(app, usual, words);
  std::ranges::reverse(words);  // as CLI11 takes them
  try {
    app.parse(std::move(words));
  } catch (const CLI::ParseError& error) {
    return exit_of(app, error);
  }
  return std::nullopt;
}

}  // namespace lambent::bin
