// Verbs of lambent about who may use a worker: tenants, tokens, the audit log.
#include <iostream>
#include <memory>
#include <utility>

#include "bin/audit_verify.h"
#include "bin/flag_checks.h"
#include "bin/lambent_verbs.h"
#include "core/domain/access.h"
#include "core/domain/function_limits.h"
#include "edge/cli/secrets.h"
#include "edge/cli/tenants.h"
#include "edge/cli/tokens.h"

namespace lambent::bin {
namespace {

// A verb below another, which asks for the operator's routes: they name the tenant in their path,
// so that it is not sent as the one for whom the request is made.
CLI::App* add_operators_verb(Shell& shell, CLI::App& group, const char* name, const char* what,
                             const std::string& example) {
  CLI::App* verb = add_verb(shell, name, what, example, &group);
  verb->parse_complete_callback([&shell] { shell.sends_tenant = false; });
  return verb;
}

void add_settings(CLI::App& verb, cli::TenantSettings& settings) {
  verb.add_option("--weight", settings.weight,
                  "its share of the GPUs beside other tenants that have work")
      ->check(within(limits::kLeastWeight, limits::kMostWeight));
  for (const cli::QuotaWord& quota : cli::quota_words()) {
    verb.add_option_function<std::string>(
        quota.flag,
        [&settings, key = quota.key](const std::string& word) { settings.quotas[key] = word; },
        quota.meaning);
  }
}

struct TenantChange {
  std::string name;
  cli::TenantSettings settings;
};

using RunChange = int (*)(Transport&, Console&, const std::string&, const cli::TenantSettings&);

void add_tenant_change(Shell& shell, CLI::App& group, const char* name, const char* what,
                       const char* example, RunChange run) {
  auto change = std::make_shared<TenantChange>();
  CLI::App* verb = add_operators_verb(shell, group, name, what, example);
  verb->add_option("NAME", change->name, "the tenant")->required();
  add_settings(*verb, change->settings);
  verb->callback([&shell, change, run] {
    shell.verb = [&shell, change, run](Transport& transport, const cli::Destination&) {
      return run(transport, shell.console, change->name, change->settings);
    };
  });
}

void add_create_token(Shell& shell, CLI::App& group) {
  auto options = std::make_shared<cli::CreateTokenOptions>();
  CLI::App* verb = add_operators_verb(
      shell, group, "create", "make a token; the lines that use it on stdout, this once",
      "lambent tokens create ci --tenant vision --scopes deploy,invoke,read --expires 30d");
  verb->add_option("NAME", options->name, "what people call it")->required();
  verb->add_option("--scopes", options->scopes,
                   "what it may do, of admin, deploy, invoke and read, with commas between")
      ->delimiter(',')
      ->required();
  verb->add_option("--expires", options->expires,
                   "after how long it is worth nothing, such as 12h or 30d (default: never)");
  verb->add_option("--certificate", options->certificate,
                   "an alternative name, such as email:alice@team.example, uri:... or dns:...: the "
                   "token is for clients whose certificate has it, and has no secret");
  verb->callback([&shell, options] {
    shell.verb = [&shell, options](Transport& transport, const cli::Destination& destination) {
      options->tenant = shell.tenant;
      return cli::run_tokens_create(transport, destination.endpoint, shell.console, *options);
    };
  });
}

}  // namespace

void add_tenants(Shell& shell) {
  CLI::App* group =
      shell.app.add_subcommand("tenants", "the teams that share a node, for its operator");
  group->require_subcommand(1);
  add_operators_verb(shell, *group, "ls", "list the tenants", "lambent tenants ls")
      ->callback([&shell] {
        shell.verb = [&shell](Transport& transport, const cli::Destination&) {
          return cli::run_tenants_ls(transport, shell.console);
        };
      });
  auto name = std::make_shared<std::string>();
  CLI::App* show = add_operators_verb(shell, *group, "show", "one tenant, its weight and quotas",
                                      "lambent tenants show vision");
  show->add_option("NAME", *name, "the tenant")->required();
  show->callback([&shell, name] {
    shell.verb = [&shell, name](Transport& transport, const cli::Destination&) {
      return cli::run_tenants_show(transport, shell.console, *name);
    };
  });
  add_tenant_change(shell, *group, "create", "make a tenant; a quota that is not given is no limit",
                    "lambent tenants create vision --weight 2 --functions 20 --gpu-memory 8G",
                    cli::run_tenants_create);
  add_tenant_change(
      shell, *group, "set", "change a tenant's weight and quotas; 'none' takes a quota away",
      "lambent tenants set vision --gpu-time-per-hour 15m --functions none", cli::run_tenants_set);
  auto names = std::make_shared<std::vector<std::string>>();
  CLI::App* remove = add_operators_verb(shell, *group, "rm",
                                        "remove tenants that have no functions, and their tokens",
                                        "lambent tenants rm vision");
  remove->add_option("NAME", *names, "the tenants")->required();
  remove->callback([&shell, names] {
    shell.verb = [&shell, names](Transport& transport, const cli::Destination&) {
      return cli::run_tenants_rm(transport, shell.console, *names);
    };
  });
}

void add_tokens(Shell& shell) {
  CLI::App* group =
      shell.app.add_subcommand("tokens", "who may use a worker as --tenant (default: your own)");
  group->require_subcommand(1);
  add_operators_verb(shell, *group, "ls", "list a tenant's tokens, without their secrets",
                     "lambent tokens ls --tenant vision")
      ->callback([&shell] {
        shell.verb = [&shell](Transport& transport, const cli::Destination&) {
          return cli::run_tokens_ls(transport, shell.console, shell.tenant);
        };
      });
  add_create_token(shell, *group);
  auto ids = std::make_shared<std::vector<std::string>>();
  CLI::App* revoke =
      add_operators_verb(shell, *group, "revoke", "make tokens worth nothing, at once",
                         "lambent tokens revoke LAMB7Q2N4YB3K5XD6WFA --tenant vision");
  revoke->add_option("ID", *ids, "as 'lambent tokens ls' shows them")->required();
  revoke->callback([&shell, ids] {
    shell.verb = [&shell, ids](Transport& transport, const cli::Destination&) {
      return cli::run_tokens_revoke(transport, shell.console, shell.tenant, *ids);
    };
  });
}

void add_whoami(Shell& shell) {
  add_verb(shell, "whoami",
           "show as which tenant, and with which scopes, a worker knows this command",
           "lambent whoami")
      ->callback([&shell] {
        shell.verb = [&shell](Transport& transport, const cli::Destination&) {
          return cli::run_whoami(transport, shell.console);
        };
      });
}

void add_secrets(Shell& shell) {
  CLI::App* group = shell.app.add_subcommand(
      "secrets", "values that functions get by ${secret:NAME} in their environment");
  group->require_subcommand(1);
  add_verb(shell, "ls", "list the secrets, without their values", "lambent secrets ls", group)
      ->callback([&shell] {
        shell.verb = [&shell](Transport& transport, const cli::Destination&) {
          return cli::run_secrets_ls(transport, shell.console);
        };
      });
  auto options = std::make_shared<cli::SetSecretOptions>();
  CLI::App* set =
      add_verb(shell, "set",
               "keep a value, from standard input or a file; functions that use it start again",
               "printf %s \"$PASSWORD\" | lambent secrets set db-password", group);
  set->add_option("NAME", options->name, "letters, digits, '-', '_' and '.'")->required();
  set->add_option("--from-file", options->file, "the file that holds the value, as it is");
  set->callback([&shell, options] {
    shell.verb = [&shell, options](Transport& transport, const cli::Destination&) {
      return cli::run_secrets_set(transport, shell.console, std::cin, *options);
    };
  });
  auto names = std::make_shared<std::vector<std::string>>();
  CLI::App* remove = add_verb(shell, "rm", "remove secrets that no function uses",
                              "lambent secrets rm db-password", group);
  remove->add_option("NAME", *names, "the secrets")->required();
  remove->callback([&shell, names] {
    shell.verb = [&shell, names](Transport& transport, const cli::Destination&) {
      return cli::run_secrets_rm(transport, shell.console, *names);
    };
  });
}

void add_audit(Shell& shell) {
  CLI::App* group = shell.app.add_subcommand("audit", "the log of changes and refusals");
  group->require_subcommand(1);
  auto file = std::make_shared<std::string>();
  CLI::App* verb =
      add_verb(shell, "verify", "check line by line that an audit log is as it was written",
               "lambent audit verify /var/lib/lambent/audit.log", group);
  verb->add_option("FILE", *file, "the audit log")->required();
  verb->callback([&shell, file] {
    shell.verb = [&shell, file](Transport&, const cli::Destination&) {
      return run_audit_verify(shell.console, *file);
    };
  });
}

}  // namespace lambent::bin
