// Verbs of lambent about contexts: workers that its user has named. They ask none.
#include <functional>
#include <memory>
#include <utility>

#include "bin/lambent_paths.h"
#include "bin/lambent_verbs.h"
#include "bin/token_source.h"
#include "edge/cli/contexts.h"

namespace lambent::bin {
namespace {

// What the flags that all verbs have say of the context.
Result<cli::Context> context_of(const Shell& shell) {
  cli::Context context{.endpoint = shell.endpoint,
                       .tenant = shell.tenant,
                       .authorities = shell.credentials.authorities,
                       .certificate = shell.credentials.certificate,
                       .key = shell.credentials.key};
  // Not LAMBENT_TOKEN: nothing on the line says that it would be kept.
  if (shell.token_file.empty()) return context;
  ASSIGN_OR_RETURN(context.token, find_token(shell.token_file));
  return context;
}

int set(Shell& shell, const std::string& name) {
  const auto context = context_of(shell);
  if (!context.ok()) return cli::fail(shell.console, context.error());
  return cli::run_config_set(shell.console, config_path(), name, *context);
}

}  // namespace

void add_config(Shell& shell) {
  CLI::App* group = shell.app.add_subcommand("config", "give workers names, for --context");
  group->require_subcommand(1);
  const auto add = [&](const char* verb, const char* what, const char* example, auto run) {
    auto name = std::make_shared<std::string>();
    CLI::App* command = add_verb(shell, verb, what, example, group);
    command->add_option("NAME", *name, "letters, digits, '-', '_' and '.'")->required();
    command->callback([&shell, name, run] {
      shell.local_verb = [&shell, name, run] { return run(shell, *name); };
    });
  };
  add("set",
      "name a worker, or change what a name stands for: --endpoint, --token-file, --tenant, --ca",
      "lambent config set prod --endpoint https://gpu.example:8980 --token-file token", set);
  add("use", "ask this one unless another is named", "lambent config use prod",
      [](Shell& own, const std::string& name) {
        return cli::run_config_use(own.console, config_path(), name);
      });
  add("rm", "forget a name, and its token", "lambent config rm prod",
      [](Shell& own, const std::string& name) {
        return cli::run_config_rm(own.console, config_path(), name);
      });
  add_verb(shell, "ls", "list them, without their tokens", "lambent config ls", group)
      ->callback([&shell] {
        shell.local_verb = [&shell] { return cli::run_config_ls(shell.console, config_path()); };
      });
}

}  // namespace lambent::bin
