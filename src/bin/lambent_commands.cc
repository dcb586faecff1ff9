#include "bin/lambent_commands.h"

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "bin/lambent_completion.h"
#include "bin/lambent_verbs.h"
#include "bin/token_source.h"
#include "bin/usage.h"
#include "core/tls/context.h"
#include "edge/cli/contexts.h"

namespace lambent::bin {
namespace {

void add_completion(Shell& shell) {
  auto kind = std::make_shared<std::string>();
  CLI::App* verb = add_verb(shell, "completion", "print what a shell reads to complete these words",
                            "source <(lambent completion bash)");
  verb->add_option("SHELL", *kind, "bash, zsh or fish")->required();
  verb->callback([&shell, kind] {
    shell.verb = [&shell, kind](Transport&, const cli::Destination&) {
      const auto script = completion_of(shell.app, *kind);
      if (!script.ok()) return cli::fail(shell.console, script.error());
      shell.console.out << *script;
      return 0;
    };
  });
}

// The verbs that are programs of their own: main has started those that come first on the line.
void add_programs(Shell& shell) {
  for (const auto& [name, what] : std::initializer_list<std::pair<const char*, const char*>>{
           {"serve", "run a worker here"},
           {"demo", "take the tour, on an emulated GPU"},
           {"run", "deploy a Python file (lambent.App) and call one of its functions"},
           {"dev", "deploy a Python file again whenever it changes, and show what it prints"},
           {"simulate", "run a workload on modelled GPUs, in virtual time"},
           {"sweep", "run simulations over a grid of parameters"},
           {"bundle", "compile kernels"},
           {"slices", "show how GPUs are cut into slices, and change it"},
           {"shim", "run a program whose GPU memory moves while it runs"}}) {
    const std::string verb = name;
    shell.app.add_subcommand(verb, what)->allow_extras()->callback([verb] {
      throw CLI::ValidationError(verb, "is a program of its own: write 'lambent " + verb +
                                           " ...', with its options after it");
    });
  }
}

// How the help shows them: what one needs first stands first.
void group_verbs(CLI::App& app) {
  const std::pair<const char*, std::vector<const char*>> kGroups[] = {
      {"Functions",
       {"init", "deploy", "run", "dev", "invoke", "result", "invocations", "cancel", "why", "logs",
        "ls", "describe", "schedules", "rm", "objects", "volumes"}},
      {"Versions of functions", {"publish", "versions", "alias", "revisions", "rollback"}},
      {"The worker",
       {"serve", "demo", "ps", "top", "devices", "drain", "undrain", "cluster", "doctor", "config",
        "version", "completion"}},
      {"Who may use it", {"tenants", "tokens", "whoami", "secrets", "audit"}},
      {"Its state", {"backup", "restore"}},
      {"Capacity planning", {"simulate", "sweep", "calibrate", "profile", "plan"}},
      {"Load and measurements", {"replay", "load", "report"}},
      {"Kernels and slices", {"bundle", "slices", "shim"}}};
  for (const auto& [group, verbs] : kGroups) {
    for (const char* verb : verbs) {
      // Help lists them as they were added.
      const CLI::App_p moved = app.get_subcommand_ptr(verb);
      app.remove_subcommand(moved.get());
      app.add_subcommand(moved)->group(group);
    }
  }
}

// `lambent help` and `lambent help invoke`.
std::vector<std::string> help_for_help(int argc, char** argv) {
  std::vector<std::string> words(argv + 1, argv + argc);
  // Of these verbs it has all.
  if (std::erase(words, kHelpAll) > 0) words.emplace_back("--help");
  if (words.empty() || words[0] != "help") return words;
  words.erase(words.begin());
  words.push_back("--help");
  return words;
}

std::string or_else(std::string flag, const std::string& otherwise) {
  return flag.empty() ? otherwise : std::move(flag);
}

// What the flags leave open: a context that is named goes before the environment, and that before
// the current context. Of a context all is taken or nothing, so that no token goes to a worker for
// which it is not.
Result<void> resolve_destination(Shell& shell, std::string& token) {
  const std::string named = or_else(shell.context, environment_context());
  const bool is_told = !shell.endpoint.empty() || (named.empty() && has_environment_endpoint());
  if (!shell.context.empty() && !shell.endpoint.empty()) {
    return Error{ErrorCode::kInvalidArgument,
                 "--context and --endpoint both say which worker is asked: give one of them"};
  }
  cli::Context context;
  if (!is_told) {
    ASSIGN_OR_RETURN(const cli::Contexts contexts, cli::read_contexts(config_path()));
    ASSIGN_OR_RETURN(const auto chosen, cli::choose(contexts, named));
    if (chosen) context = *chosen;
  }
  ASSIGN_OR_RETURN(token, find_token(shell.token_file));
  token = or_else(std::move(token), context.token);
  shell.endpoint = or_else(or_else(shell.endpoint, context.endpoint), default_endpoint());
  if (shell.tenant.empty()) shell.tenant = context.tenant;
  const tls::CredentialFiles otherwise = default_credentials();
  tls::CredentialFiles& files = shell.credentials;
  files.authorities =
      or_else(or_else(files.authorities, context.authorities), otherwise.authorities);
  files.certificate =
      or_else(or_else(files.certificate, context.certificate), otherwise.certificate);
  files.key = or_else(or_else(files.key, context.key), otherwise.key);
  return {};
}

// The worker's endpoint; one of https with all that it takes to connect to it.
Result<http::Endpoint> endpoint_of(const Shell& shell) {
  ASSIGN_OR_RETURN(http::Endpoint endpoint, http::parse_endpoint(shell.endpoint));
  if (!endpoint.encrypted) return endpoint;
  if (shell.credentials.certificate.empty() != shell.credentials.key.empty()) {
    return Error{ErrorCode::kInvalidArgument, "--client-certificate and --client-key go together"};
  }
  ASSIGN_OR_RETURN(const tls::Credentials credentials, tls::read_credentials(shell.credentials));
  ASSIGN_OR_RETURN(const tls::ClientContext context, tls::ClientContext::make(credentials));
  endpoint.encrypt = context.connector();
  return endpoint;
}

}  // namespace

void add_destination(Shell& shell, CLI::App& app) {
  app.add_option(
      "--endpoint", shell.endpoint,
      "the worker: http://HOST:PORT, https://HOST:PORT or unix:PATH (or LAMBENT_ENDPOINT)");
  app.add_option("--ca", shell.credentials.authorities,
                 "https: the authorities that sign the worker's certificate, a PEM file (or "
                 "LAMBENT_CA; default: those of this machine)");
  app.add_option("--client-certificate", shell.credentials.certificate,
                 "https: the certificate to show, a PEM file (or LAMBENT_CLIENT_CERTIFICATE)");
  app.add_option("--client-key", shell.credentials.key,
                 "https: its private key (or LAMBENT_CLIENT_KEY)");
  app.add_option("--token-file", shell.token_file,
                 "a file with the token to send, which no other user can read (or LAMBENT_TOKEN)");
  app.add_option("--context", shell.context,
                 "a worker that 'lambent config' has named (or LAMBENT_CONTEXT; else the current "
                 "one, unless LAMBENT_ENDPOINT says where it is)");
  app.add_option(
      "--tenant", shell.tenant,
      "for which tenant; only a token with the scope admin may name another than its own");
}

CLI::App* add_verb(Shell& shell, const char* name, const char* what, const std::string& example,
                   CLI::App* group) {
  CLI::App* verb = (group == nullptr ? shell.app : *group).add_subcommand(name, what);
  verb->footer("Example:\n  " + example);
  verb->add_flag("--json", shell.console.json, "results as JSON");
  add_destination(shell, *verb);
  return verb;
}

int run_client_command(int argc, char** argv) {
  Shell shell;
  shell.app.require_subcommand(1);
  shell.app.set_version_flag("-v,--version", "lambent " LAMBENT_VERSION);
  add_destination(shell, shell.app);
  for (const auto add :
       {add_init,      add_deploy,      add_invoke,   add_result,  add_logs,       add_rm,
        add_objects,   add_publish,     add_versions, add_alias,   add_rollback,   add_listing,
        add_devices,   add_doctor,      add_why,      add_tenants, add_tokens,     add_whoami,
        add_audit,     add_backup,      add_secrets,  add_volumes, add_replay,     add_load,
        add_calibrate, add_report,      add_profile,  add_plan,    add_completion, add_programs,
        add_describe,  add_invocations, add_top,      add_config,  add_cluster}) {
    add(shell);
  }
  group_verbs(shell.app);
  shell.app.footer(
      "'lambent VERB --help' tells a verb's options (of serve and simulate the usual ones, and "
      "--help-all the others); docs/reference/cli.md has an example of each.");
  std::vector<std::string> words = help_for_help(argc, argv);
  std::reverse(words.begin(), words.end());  // as CLI11 takes them
  try {
    shell.app.parse(words);
  } catch (const CLI::ParseError& error) {
    return exit_of(shell.app, error);
  }
  if (shell.local_verb) return shell.local_verb();
  std::string token;
  if (const auto resolved = resolve_destination(shell, token); !resolved.ok()) {
    return cli::fail(shell.console, resolved.error());
  }
  const auto endpoint = endpoint_of(shell);
  if (!endpoint.ok()) return cli::fail(shell.console, endpoint.error());
  const cli::Destination destination{
      .endpoint = *endpoint,
      .credentials = {.token = std::move(token),
                      .tenant = shell.sends_tenant ? shell.tenant : std::string()}};
  cli::HttpTransport transport(destination);
  return shell.verb(transport, destination);
}

}  // namespace lambent::bin
