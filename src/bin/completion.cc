#include "bin/completion.h"

#include <algorithm>
#include <functional>
#include <vector>

namespace lambent::bin {
namespace {

// In single quotes; of POSIX shells and zsh.
std::string in_quotes(const std::string& text) {
  std::string made = "'";
  for (const char c : text) made += c == '\'' ? "'\\''" : std::string(1, c);
  return made + "'";
}

std::string in_fish_quotes(const std::string& text) {
  std::string made = "'";
  for (const char c : text) made += (c == '\'' || c == '\\' ? "\\" : "") + std::string(1, c);
  return made + "'";
}

// Help in half a line: up to the first sign that ends a thought.
std::string short_form(const std::string& what) {
  return what.substr(0, std::min(what.find_first_of(";:"), size_t{90}));
}

// `at`: the words after the program's name that lead to a command: "", "deploy", "objects put".
using Visit = std::function<void(const std::string& at, const CommandTree& command)>;
void visit_all(const CommandTree& tree, const std::string& at, const Visit& visit) {
  visit(at, tree);
  for (const CommandTree& command : tree.commands) {
    visit_all(command, at.empty() ? command.name : at + " " + command.name, visit);
  }
}

// Patterns of a `case` between two words that go on: "at word" for each verb.
std::string steps_of(const CommandTree& tree) {
  std::string patterns;
  visit_all(tree, "", [&](const std::string& at, const CommandTree& command) {
    for (const CommandTree& next : command.commands) {
      patterns += (patterns.empty() ? "" : "|") + in_quotes(at + " " + next.name);
    }
  });
  return patterns;
}

std::string all_names(const CommandTree& command) {
  std::string names;
  for (const CommandTree::Option& option : command.options) {
    for (const std::string& name : option.names) names += (names.empty() ? "" : " ") + name;
  }
  return names;
}

// Cases for the word before: what an option takes. `choose` completes from words, `files` files.
std::string values_of(const CommandTree& tree,
                      const std::function<std::string(std::string)>& choose,
                      const std::string& files) {
  std::string cases;
  std::string any;
  visit_all(tree, "", [&](const std::string& at, const CommandTree& command) {
    for (const CommandTree::Option& option : command.options) {
      if (!option.takes_value) continue;
      std::string patterns;
      for (const std::string& name : option.names) {
        patterns += (patterns.empty() ? "" : "|") + in_quotes(at + ":" + name);
      }
      if (option.choices.empty()) {
        any += (any.empty() ? "" : "|") + patterns;
        continue;
      }
      std::string words;
      for (const std::string& choice : option.choices) words += (words.empty() ? "" : " ") + choice;
      cases += "    " + patterns + ") " + choose(words) + "; return ;;\n";
    }
  });
  if (!any.empty()) cases += "    " + any + ") " + files + "; return ;;\n";
  return cases;
}

std::string bash_script(const CommandTree& tree) {
  const std::string& name = tree.name;
  std::string script =
      "# Completes " + name + " in bash: source <(" + name + " completion bash)\n_" + name +
      "() {\n"
      "  local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]}\n"
      "  local at='' verbs='' options='' i\n"
      "  COMPREPLY=()\n"
      "  for ((i = 1; i < COMP_CWORD; i++)); do\n"
      "    case \"$at ${COMP_WORDS[i]}\" in\n      " +
      steps_of(tree) +
      ") at=\"${at:+$at }${COMP_WORDS[i]}\" ;;\n"
      "    esac\n"
      "  done\n"
      "  case \"$at:$prev\" in\n" +
      values_of(
          tree,
          [](const std::string& words) {
            return "COMPREPLY=($(compgen -W " + in_quotes(words) + " -- \"$cur\"))";
          },
          "COMPREPLY=($(compgen -f -- \"$cur\"))") +
      "  esac\n"
      "  case \"$at\" in\n";
  visit_all(tree, "", [&](const std::string& at, const CommandTree& command) {
    std::string verbs;
    for (const CommandTree& next : command.commands)
      verbs += (verbs.empty() ? "" : " ") + next.name;
    script += "    " + in_quotes(at) + ") verbs=" + in_quotes(verbs) +
              " options=" + in_quotes(all_names(command)) + " ;;\n";
  });
  return script +
         "  esac\n"
         "  case \"$cur\" in\n"
         "    -*) COMPREPLY=($(compgen -W \"$options\" -- \"$cur\")) ;;\n"
         "    *) if [ -n \"$verbs\" ]; then COMPREPLY=($(compgen -W \"$verbs\" -- \"$cur\"));\n"
         "       else COMPREPLY=($(compgen -f -- \"$cur\")); fi ;;\n"
         "  esac\n"
         "}\n"
         "complete -o filenames -F _" +
         name + " " + name + "\n";
}

// 'word:what', where colons in the word would end it.
std::string described(const std::string& word, const std::string& what) {
  std::string safe;
  for (const char c : word) safe += (c == ':' ? "\\" : "") + std::string(1, c);
  return in_quotes(safe + ":" + short_form(what));
}

std::string zsh_script(const CommandTree& tree) {
  const std::string& name = tree.name;
  std::string script =
      "#compdef " + name + "\n# Completes " + name + " in zsh: source <(" + name +
      " completion zsh)\n_" + name +
      "() {\n"
      "  local at='' i\n"
      "  local -a verbs options\n"
      "  for ((i = 2; i < CURRENT; i++)); do\n"
      "    case \"$at ${words[i]}\" in\n      (" +
      steps_of(tree) +
      ") at=\"${at:+$at }${words[i]}\" ;;\n"
      "    esac\n"
      "  done\n"
      "  case \"$at:${words[CURRENT-1]}\" in\n" +
      values_of(
          tree, [](const std::string& words) { return "compadd -- " + words; }, "_files") +
      "  esac\n"
      "  case \"$at\" in\n";
  visit_all(tree, "", [&](const std::string& at, const CommandTree& command) {
    script += "    " + in_quotes(at) + ")\n      verbs=(";
    for (const CommandTree& next : command.commands)
      script += " " + described(next.name, next.what);
    script += " )\n      options=(";
    for (const CommandTree::Option& option : command.options) {
      for (const std::string& each : option.names) script += " " + described(each, option.what);
    }
    script += " ) ;;\n";
  });
  return script +
         "  esac\n"
         "  if [[ ${words[CURRENT]} == -* ]]; then _describe option options\n"
         "  elif (( ${#verbs} )); then _describe command verbs\n"
         "  else _files; fi\n"
         "}\n"
         "if [ \"$funcstack[1]\" = _" +
         name + " ]; then _" + name + " \"$@\"; else compdef _" + name + " " + name + "; fi\n";
}

std::string fish_script(const CommandTree& tree) {
  const std::string& name = tree.name;
  std::string steps;
  visit_all(tree, "", [&](const std::string& at, const CommandTree& command) {
    for (const CommandTree& next : command.commands) {
      steps += " " + in_fish_quotes(at + " " + next.name);
    }
  });
  std::string script = "# Completes " + name + " in fish: " + name + " completion fish | source\n" +
                       "function __" + name +
                       "_at\n"
                       "  set -l at ''\n"
                       "  set -l said (commandline -opc)\n"
                       "  for word in $said[2..-1]\n"
                       "    switch \"$at $word\"\n"
                       "      case" +
                       steps +
                       "\n"
                       "        set at (string trim \"$at $word\")\n"
                       "    end\n"
                       "  end\n"
                       "  test \"$at\" = \"$argv\"\n"
                       "end\n";
  visit_all(tree, "", [&](const std::string& at, const CommandTree& command) {
    const std::string here =
        "complete -c " + name + " -n " + in_fish_quotes("__" + name + "_at " + in_fish_quotes(at));
    for (const CommandTree& next : command.commands) {
      script +=
          here + " -f -a " + next.name + " -d " + in_fish_quotes(short_form(next.what)) + "\n";
    }
    for (const CommandTree::Option& option : command.options) {
      script += here;
      for (const std::string& each : option.names) {
        script += each.starts_with("--") ? " -l " + each.substr(2) : " -s " + each.substr(1);
      }
      std::string words;
      for (const std::string& choice : option.choices) words += (words.empty() ? "" : " ") + choice;
      if (option.takes_value) script += words.empty() ? " -r" : " -x -a " + in_fish_quotes(words);
      script += " -d " + in_fish_quotes(short_form(option.what)) + "\n";
    }
  });
  return script;
}

}  // namespace

std::string completion_script(ShellKind shell, const CommandTree& tree) {
  switch (shell) {
    case ShellKind::kBash:
      return bash_script(tree);
    case ShellKind::kZsh:
      return zsh_script(tree);
    case ShellKind::kFish:
      return fish_script(tree);
  }
  return "";
}

}  // namespace lambent::bin
