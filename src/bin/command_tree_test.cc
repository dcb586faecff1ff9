// What programs say of themselves to each other and to shells.
#include "bin/command_tree.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "bin/completion.h"

namespace lambent::bin {
namespace {

using testing::HasSubstr;
using testing::Not;

CommandTree example() {
  CLI::App app("A program: it's \"quoted\"", "prog");
  std::string text;
  auto* verb = app.add_subcommand("run", "runs");
  verb->add_option("-o,--output", text, "where to");
  verb->add_option("--kind", text, "which")->check(CLI::IsMember({"one", "two"}));
  bool quiet = false;
  verb->add_flag("--quiet", quiet, "says nothing");
  verb->add_flag("--of-a-test", quiet)->group("");
  return tree_of(app);
}

TEST(CommandTree, IsReadFromAProgramAndSurvivesItsLines) {
  const CommandTree tree = example();
  ASSERT_EQ(tree.commands.size(), 1u);
  EXPECT_EQ(tree.commands[0].name, "run");
  const auto again = tree_from_lines(lines_of(tree));
  ASSERT_TRUE(again.ok()) << to_string(again.error());
  EXPECT_EQ(lines_of(*again), lines_of(tree));
  const auto& options = again->commands.at(0).options;
  const auto kind = std::find_if(options.begin(), options.end(), [](const auto& option) {
    return option.names == std::vector<std::string>{"--kind"};
  });
  ASSERT_NE(kind, options.end());
  EXPECT_EQ(options.size(), 4u) << "with --help, and without the hidden one";
  EXPECT_TRUE(kind->takes_value);
  EXPECT_EQ(kind->choices, (std::vector<std::string>{"one", "two"}));
}

TEST(CommandTree, RefusesLinesThatAreNone) {
  for (const char* lines : {"", "nonsense", "option\tx\n", "end\n"}) {
    EXPECT_FALSE(tree_from_lines(lines).ok()) << lines;
  }
}

TEST(Completion, NamesVerbsOptionsAndChoicesForEveryShell) {
  const CommandTree tree = example();
  for (const ShellKind shell : {ShellKind::kBash, ShellKind::kZsh, ShellKind::kFish}) {
    const std::string script = completion_script(shell, tree);
    for (const char* word : {"prog", "run", "output", "kind", "one", "two", "quiet"}) {
      EXPECT_THAT(script, HasSubstr(word));
    }
    EXPECT_THAT(script, Not(HasSubstr("no-such-option")));
  }
}

}  // namespace
}  // namespace lambent::bin
